//! The log: for whoever runs the program. Audit is never a log line; it is the events table.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::config::{Log, LogFormat};
use crate::failure::Failure;

/// Sends traces to standard error from here on.
pub(crate) fn start(log: &Log) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&log.level).map_err(|error| {
        Failure::config(format!("log.level: '{}' is no level or filter: {error}", log.level))
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Colours are for terminals: in a file or in the system's log they hide what one looks for.
        .with_ansi(std::io::stderr().is_terminal())
        .with_span_events(FmtSpan::NONE);
    match log.format {
        LogFormat::Human => builder.with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}
