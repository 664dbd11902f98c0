//! Programs of rules: their arguments, how they run, and what is told of their end.

use std::path::PathBuf;
use std::time::Duration;

use entrepot_nouns::event::ProgramFact;
use entrepot_nouns::rule::{ExecSpec, ExecStdin, ExecStdout, ExitCode, ExitMeaning};
use entrepot_nouns::{Event, Name};
use entrepot_spawn::limits::{OUTPUT_KEPT, PROGRAM_PROCESSES};
use entrepot_spawn::{Ended, How, Program, Stdin, Stdout};
use serde_json::Value as Json;

use crate::limits::PROGRAM_WORDS;
use crate::noted::Noted;
use crate::pattern::{self, PatternError, Values, WORDS};

/// What a program is told besides its event.
pub(crate) struct Setting<'a> {
    pub(crate) rule: &'a Name,
    pub(crate) event: &'a Event,
    /// What the steps before it left, in a job.
    pub(crate) noted: Option<&'a Noted>,
    /// Where the file lies on this machine.
    pub(crate) file: Option<String>,
    /// Address of the client whose session caused the event; absent where nothing asks for it, or
    /// no session did.
    pub(crate) ip: Option<String>,
}

impl Setting<'_> {
    fn value(&self, word: &str) -> Result<String, PatternError> {
        let own = match word {
            "file" => &self.file,
            "ip" => &self.ip,
            "rule" => return Ok(self.rule.to_string()),
            _ => {
                let values = Values { event: self.event, noted: self.noted };
                return pattern::value(word, values);
            }
        };
        let kind = self.event.fact.kind();
        own.clone().ok_or_else(|| PatternError::Missing(word.to_owned(), kind.to_owned()))
    }
}

/// Whether any argument or variable has this placeholder.
pub(crate) fn asks_for(spec: &ExecSpec, word: &str) -> bool {
    let placeholder = format!("{{{word}}}");
    spec.argv.iter().chain(spec.env.values()).any(|text| text.contains(&placeholder))
}

/// Whether the program reads the file that steps work on.
pub(crate) fn reads_file(spec: &ExecSpec) -> bool {
    spec.stdin == ExecStdin::File || asks_for(spec, "file")
}

/// The program as it is to run: in each argument and each variable alone, and once, the
/// placeholders are replaced; what comes out is neither split nor looked at again.
pub(crate) fn program(spec: &ExecSpec, setting: &Setting<'_>) -> Result<Program, PatternError> {
    let expand = |text: &String| pattern::expand_with(text, |word| setting.value(word));
    let argv = spec.argv.iter().map(expand).collect::<Result<_, _>>()?;
    let words = WORDS.iter().chain(&["file", "ip", "rule"]);
    let known = words.filter_map(|word| {
        let value = setting.value(word).ok().filter(|value| !value.contains('\0'))?;
        Some((format!("ENTREPOT_{}", word.to_ascii_uppercase()), value))
    });
    let mut env: Vec<(String, String)> = known.collect();
    env.push(("ENTREPOT_EVENT".to_owned(), setting.event.fact.kind().to_owned()));
    for (name, text) in &spec.env {
        env.push((name.clone(), expand(text)?));
    }
    Ok(Program {
        argv,
        env,
        stdin: Stdin::Nothing,
        stdout: Stdout::Kept,
        files: setting.file.iter().map(PathBuf::from).collect(),
        limit: Duration::from_secs(u64::from(spec.timeout_seconds)),
        memory_bytes: u64::from(spec.memory_mib) << 20,
        processes: PROGRAM_PROCESSES,
    })
}

/// What its end says: of an exit code what the rule says of it, or else that 0 is done, and 1 done
/// with a warning. A program that did not end by itself may do so another time.
pub(crate) fn meaning(spec: &ExecSpec, ended: &Ended) -> ExitMeaning {
    let How::Code(code) = ended.how else { return ExitMeaning::Retry };
    let named = u8::try_from(code).ok().and_then(|code| spec.exit.get(&ExitCode::Is(code)));
    match (named.or_else(|| spec.exit.get(&ExitCode::Other)), code) {
        (Some(meaning), _) => *meaning,
        (None, 0 | 1) => ExitMeaning::Done,
        (None, _) => ExitMeaning::Retry,
    }
}

/// Whether it did what it was to do.
pub(crate) fn is_done(spec: &ExecSpec, ended: &Ended) -> bool {
    meaning(spec, ended) == ExitMeaning::Done
}

/// What it wrote to standard output, for later steps, if the rule wants it.
///
/// # Errors
/// It is not what the rule says, in one sentence.
pub(crate) fn output(spec: &ExecSpec, ended: &Ended) -> Result<Option<Json>, String> {
    if matches!(spec.stdout, ExecStdout::None | ExecStdout::File) {
        return Ok(None);
    }
    if ended.stdout.dropped > 0 {
        return Err(format!("it wrote more than {OUTPUT_KEPT} bytes to standard output"));
    }
    let text = std::str::from_utf8(&ended.stdout.bytes)
        .map_err(|_| "what it wrote to standard output is no UTF-8".to_owned())?;
    if spec.stdout == ExecStdout::Text {
        return Ok(Some(text.trim_end_matches(['\r', '\n']).into()));
    }
    let json = serde_json::from_str(text);
    json.map(Some).map_err(|error| format!("what it wrote to standard output is no JSON: {error}"))
}

/// What is told of its end.
pub(crate) fn told(spec: &ExecSpec, rule: &Name, ended: &Ended) -> ProgramFact {
    let words = ended.stderr.last_words(PROGRAM_WORDS);
    let words = if words.is_empty() { ended.stdout.last_words(PROGRAM_WORDS) } else { words };
    ProgramFact {
        rule: rule.clone(),
        program: spec.argv.first().cloned().unwrap_or_default(),
        done: is_done(spec, ended),
        how: ended.how.to_string(),
        duration_ms: u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX),
        words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::uploaded;

    fn spec(argv: &[&str]) -> ExecSpec {
        serde_json::from_value(serde_json::json!({
            "argv": argv, "env": {"WHERE": "{path}"}, "timeout_seconds": 3,
        }))
        .unwrap()
    }

    #[test]
    fn a_name_never_becomes_two_arguments_nor_a_placeholder() {
        for name in ["a b", "-x", "$(id)", "{account}", "a;b|c&d", "\"", "'", "a\nb"] {
            let event = uploaded(&format!("/in/{name}"));
            let rule = "scan".parse().unwrap();
            let file = Some(format!("/data/{name}"));
            let setting = Setting { rule: &rule, event: &event, noted: None, file, ip: None };
            let spec = spec(&["/bin/scan", "{name}", "--to={path}", "{file}", "{size}"]);
            let program = program(&spec, &setting).unwrap();
            let wanted = [
                "/bin/scan".to_owned(),
                name.to_owned(),
                format!("--to=/in/{name}"),
                format!("/data/{name}"),
                "3".to_owned(),
            ];
            assert_eq!(program.argv, wanted);
            let named = |key: &str| {
                let found = program.env.iter().find(|(name, _)| name == key);
                found.map(|(_, value)| value.clone())
            };
            assert_eq!(named("WHERE"), Some(format!("/in/{name}")));
            assert_eq!(named("ENTREPOT_NAME"), Some(name.to_owned()));
            assert_eq!(named("ENTREPOT_DIGEST").unwrap().len(), 64);
            assert_eq!(named("ENTREPOT_IP"), None);
        }
    }

    #[test]
    fn what_an_event_does_not_have_is_an_error() {
        let (event, rule) = (uploaded("/in/a"), "scan".parse().unwrap());
        let setting = Setting { rule: &rule, event: &event, noted: None, file: None, ip: None };
        for bad in ["{file}", "{ip}", "{verb}", "{nmae}", "{name"] {
            assert!(program(&spec(&["/bin/scan", bad]), &setting).is_err(), "{bad}");
        }
        for good in ["{start}", "{duration}", "{time}", "{session}{rule}"] {
            let ok = program(&spec(&["/bin/scan", good]), &setting).is_ok();
            assert_eq!(ok, !good.contains("session"), "{good}");
        }
    }
}
