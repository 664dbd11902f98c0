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
    let has_colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || OneLine { out: std::io::stderr(), has_colours })
        // Colours are for terminals: in a file or in the system's log they hide what one looks for.
        .with_ansi(has_colours);
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

/// Takes one event at a time, and writes it as one line, without the characters that steer
/// terminals or let names seem to say something else.
struct OneLine<W> {
    out: W,
    /// The event comes with colours.
    has_colours: bool,
}

/// What the colours of an event begin with, behind the escape character: weight, slant, colour.
const COLOURS: [&str; 10] =
    ["[0m", "[1m", "[2m", "[3m", "[31m", "[32m", "[33m", "[34m", "[35m", "[36m"];

impl<W> OneLine<W> {
    /// The line, if it is not shown as it is.
    fn shown(&self, line: &str) -> Option<String> {
        const ESCAPE: char = '\u{1b}';
        let misleads = |c: char| c.is_control() || table::is_bidirectional(c);
        line.contains(misleads).then(|| {
            let mut shown = String::with_capacity(line.len());
            for (at, part) in line.split(ESCAPE).enumerate() {
                let is_colour = COLOURS.iter().any(|colour| part.starts_with(colour));
                if at > 0 && self.has_colours && is_colour {
                    shown.push(ESCAPE);
                } else if at > 0 {
                    shown.extend(ESCAPE.escape_default());
                }
                shown.push_str(&table::escaped(part, misleads));
            }
            shown
        })
    }
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let line = std::str::from_utf8(bytes).ok().and_then(|text| text.strip_suffix('\n'));
        match line.and_then(|line| self.shown(line)) {
            Some(shown) => {
                self.out.write_all(format!("{shown}\n").as_bytes()).map(|()| bytes.len())
            }
            None => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
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

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is written of an event for each of these names.
    fn written(names: &[&str], format: LogFormat, has_colours: bool) -> String {
        let kept = Kept::default();
        let out = kept.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || OneLine { out: out.clone(), has_colours })
            .with_ansi(has_colours);
        let lines = match format {
            LogFormat::Human => lines.with_target(false).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        tracing::subscriber::with_default(Registry::default().with(lines), || {
            for name in names {
                tracing::warn!(name, error = %format!("'{name}' is taken"), "no {name} today");
            }
        });
        String::from_utf8(kept.0.lock().clone()).unwrap()
    }

    /// Names and words of others are in errors and fields.
    #[test]
    fn an_event_is_one_line_whatever_others_wrote() {
        let names = [
            "plain",
            "a\n2026-01-01T00:00:00Z ERROR the disk is full",
            "a\r\nX",
            "a\r",
            "\u{1b}[2J",
            "\u{1b}]0;title\u{7}",
            "\u{9b}2J",
            "\u{202e}fdp.exe",
            "a\0b",
            "\"} {\"level\":\"ERROR",
            "\n",
            "ä\n\n",
        ];
        let steers = |c: char| (c.is_control() && c != '\n') || table::is_bidirectional(c);
        for format in [LogFormat::Human, LogFormat::Json] {
            let written = written(&names, format, false);
            assert_eq!(written.matches('\n').count(), names.len(), "{written}");
            assert!(written.lines().all(|line| line.contains("WARN")), "{written}");
            assert!(!written.contains(steers), "{written:?}");
        }
        let mut coloured = written(&names, LogFormat::Human, true);
        assert_eq!(coloured.matches('\n').count(), names.len(), "{coloured}");
        assert!(coloured.contains("\u{1b}[33m"), "{coloured:?}");
        for colour in COLOURS {
            coloured = coloured.replace(&["\u{1b}", colour].concat(), "");
        }
        assert!(!coloured.contains(steers), "{coloured:?}");
    }

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
