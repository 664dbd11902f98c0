//! The log: for whoever runs the program. Audit is never a log line; it is the events table.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use entrepot_admin::{LogLevels, LogSubject};
use parking_lot::Mutex;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::{Log, LogFormat};
use crate::failure::Failure;
use crate::table;

/// The levels of a log that is written; they can be changed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LogControl(Arc<Inner>);

struct Inner {
    filter: Handle<EnvFilter, Registry>,
    levels: Mutex<Levels>,
}

struct Levels {
    /// As the process file says.
    base: String,
    /// What was ordered besides.
    ordered: LogLevels,
}

impl LogControl {
    /// What differs from the process file.
    pub(crate) fn levels(&self) -> LogLevels {
        self.0.levels.lock().ordered.clone()
    }

    /// From now on the log is as the process file says but for `levels`.
    pub(crate) fn set(&self, levels: LogLevels) -> Result<(), String> {
        let mut now = self.0.levels.lock();
        let filter = filter(&now.base, &levels)?;
        self.0.filter.reload(filter).map_err(|error| error.to_string())?;
        now.ordered = levels;
        Ok(())
    }

    /// Takes over the level of a process file that was read again; what was ordered besides, and
    /// the format, stay.
    pub(crate) fn set_base(&self, log: &Log) -> Result<(), Failure> {
        let mut now = self.0.levels.lock();
        let filter = filter(&log.level, &now.ordered).map_err(|problem| unusable(log, &problem))?;
        self.0.filter.reload(filter).map_err(|error| Failure::start(error.to_string()))?;
        now.base.clone_from(&log.level);
        Ok(())
    }
}

/// Sends traces to standard error from here on.
pub(crate) fn start(log: &Log) -> Result<LogControl, Failure> {
    let first = filter(&log.level, &LogLevels::new());
    let first = first.map_err(|problem| unusable(log, &problem))?;
    let (first, filter) = reload::Layer::new(first);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| Visible(std::io::stderr()))
        // Colours are for terminals: in a file or in the system's log they hide what one looks for.
        .with_ansi(std::io::stderr().is_terminal());
    let lines = match log.format {
        LogFormat::Human => lines.with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(first).with(lines).init();
    let levels = Levels { base: log.level.clone(), ordered: LogLevels::new() };
    Ok(LogControl(Arc::new(Inner { filter, levels: Mutex::new(levels) })))
}

fn unusable(log: &Log, problem: &str) -> Failure {
    Failure::config(format!("log.level: '{}' is no level or filter: {problem}", log.level))
}

/// Standard error without the characters that let names seem to say something else; those that
/// steer terminals are escaped before.
struct Visible(std::io::Stderr);

impl Write for Visible {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let hides = |text: &&str| text.contains(table::is_bidirectional);
        match std::str::from_utf8(bytes).ok().filter(hides) {
            Some(text) => {
                let shown = table::escaped(text, table::is_bidirectional);
                self.0.write_all(shown.as_bytes()).map(|()| bytes.len())
            }
            None => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Of several words about one thing the last counts.
fn filter(base: &str, levels: &LogLevels) -> Result<EnvFilter, String> {
    let ordered = levels.iter().flat_map(|(subject, level)| {
        let targets = targets(*subject).iter();
        targets.map(|target| format!("{target}{}", level.as_str()))
    });
    let words: Vec<String> = std::iter::once(base.to_owned()).chain(ordered).collect();
    EnvFilter::try_new(words.join(",")).map_err(|error| error.to_string())
}

/// What stands before the level of a subject in a filter.
fn targets(subject: LogSubject) -> &'static [&'static str] {
    match subject {
        LogSubject::All => &[""],
        LogSubject::Admin => &["entrepot_admin="],
        LogSubject::Auth => &["entrepot_auth="],
        LogSubject::Db => &["entrepot_db="],
        LogSubject::Engine => &["entrepot_engine="],
        LogSubject::Ftp => &["entrepot_ftp="],
        LogSubject::Journal => &["entrepot_journal="],
        LogSubject::Net => &["entrepot_net=", "rustls="],
        LogSubject::Server => &["entrepot="],
        LogSubject::Sftp => &["entrepot_sftp="],
        LogSubject::Spawn => &["entrepot_spawn="],
        LogSubject::Ssh => &["entrepot_ssh=", "russh="],
        LogSubject::Storage => &["entrepot_storage="],
        LogSubject::Vfs => &["entrepot_vfs="],
    }
}

#[cfg(test)]
mod tests {
    use entrepot_admin::LogLevel;

    use super::*;

    #[test]
    fn what_is_ordered_goes_before_what_the_process_file_says() {
        let shown = |levels: &[(LogSubject, LogLevel)]| {
            filter("info,entrepot_auth=warn", &levels.iter().copied().collect())
                .unwrap()
                .to_string()
        };
        let none = shown(&[]);
        assert!(none.contains("info") && none.contains("entrepot_auth=warn"), "{none}");
        let auth = shown(&[(LogSubject::Auth, LogLevel::Trace)]);
        assert!(auth.contains("entrepot_auth=trace") && !auth.contains("=warn"), "{auth}");
        let all = shown(&[(LogSubject::All, LogLevel::Error), (LogSubject::Ssh, LogLevel::Debug)]);
        assert!(all.contains("error") && !all.contains("info"), "{all}");
        assert!(all.contains("entrepot_ssh=debug") && all.contains("russh=debug"), "{all}");
    }
}
