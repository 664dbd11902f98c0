//! The log: for whoever runs the program. Audit is never a log line; it is the events table.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::config::{Log, LogFormat};
use crate::failure::Failure;

/// Changes what a running program logs.
pub(crate) struct LogLevel(Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>);

impl LogLevel {
    /// Takes over the level; the format stays.
    pub(crate) fn set(&self, log: &Log) -> Result<(), Failure> {
        (self.0)(filter(log)?).map_err(Failure::start)
    }
}

/// Sends traces to standard error from here on.
pub(crate) fn start(log: &Log) -> Result<LogLevel, Failure> {
    let filter = filter(log)?;
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        // Colours are for terminals: in a file or in the system's log they hide what one looks for.
        .with_ansi(std::io::stderr().is_terminal())
        .with_span_events(FmtSpan::NONE);
    Ok(match log.format {
        LogFormat::Human => {
            let builder = builder.with_target(false);
            let builder = builder.with_env_filter(filter).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            LogLevel(Box::new(move |new| handle.reload(new).map_err(|error| error.to_string())))
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true);
            let builder = builder.with_env_filter(filter).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            LogLevel(Box::new(move |new| handle.reload(new).map_err(|error| error.to_string())))
        }
    })
}

fn filter(log: &Log) -> Result<EnvFilter, Failure> {
    EnvFilter::try_new(&log.level).map_err(|error| {
        Failure::config(format!("log.level: '{}' is no level or filter: {error}", log.level))
    })
}
