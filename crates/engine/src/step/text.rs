//! `transcode`: writes the text in another character set, or with other line ends. An attempt after
//! a crash makes the same bytes.

use async_trait::async_trait;
use entrepot_nouns::rule::{BadCharacters, Newline, RecordForm, TranscodeSpec};
use entrepot_transform::records::{Blanks, Records};
use entrepot_transform::text::{self, BadText, Charset, LineEnd, Transcoding};

use super::change::{MakesFile, made_name, make};
use super::{Step, StepError};
use crate::ids::StepKey;
use crate::pattern::Values;
use crate::run::Run;

#[async_trait]
impl Step for TranscodeSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = self.made_name(run.values())?;
        let change = transcoding(self)?;
        make(run, key, name, move |ends| text::transcode(&change, ends.reader, ends.writer)).await
    }
}

impl MakesFile for TranscodeSpec {
    const VERB: &'static str = "transcodes";

    fn made_name(&self, values: Values<'_>) -> Result<String, StepError> {
        transcoding(self)?;
        made_name(values, self.name.as_deref(), str::to_owned)
    }
}

fn transcoding(spec: &TranscodeSpec) -> Result<Transcoding, StepError> {
    let charset = |name: &str| {
        let unknown = || StepError::permanent("EP0812", format!("'{name}' is no character set"));
        Charset::named(name).ok_or_else(unknown)
    };
    let line_end = match spec.newline {
        Newline::Keep => LineEnd::Kept,
        Newline::Lf => LineEnd::Lf,
        Newline::CrLf => LineEnd::CrLf,
        Newline::Nl => LineEnd::Nl,
    };
    let bad = match spec.bad {
        BadCharacters::Fail => BadText::Fails,
        BadCharacters::Replace => BadText::Replaced,
    };
    Ok(Transcoding {
        from: charset(&spec.from)?,
        to: charset(&spec.to)?,
        line_end,
        from_records: spec.from_records.map(records),
        blanks: if spec.strip { Blanks::Stripped } else { Blanks::Kept },
        to_records: spec.to_records.map(records),
        bad,
    })
}

/// What a rule says of records.
pub(super) fn records(form: RecordForm) -> Records {
    match form {
        RecordForm::Fixed(bytes) => Records::Fixed(bytes as usize),
        RecordForm::Rdw => Records::Rdw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_set_that_a_rule_may_name_is_one() {
        for name in entrepot_nouns::rule::CHARSETS {
            assert!(Charset::named(name).is_some(), "{name}");
        }
    }
}
