//! `split`: writes the file in parts into the account's view.

use async_trait::async_trait;
use entrepot_nouns::VPath;
use entrepot_nouns::rule::SplitSpec;
use entrepot_transform::split::{PartSize, split};

use super::change::{CONTENT, Ends};
use super::many::{Place, ToTask, make_files};
use super::text;
use super::{Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::pattern::{self, PatternError, Values};
use crate::run::Run;

#[async_trait]
impl Step for SplitSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let (size, most) = (size(self)?, self.parts);
        let work = move |ends: Ends| {
            let Ends { reader, mut writer, line } = ends;
            split(&size, most, reader, &mut ToTask { line, writer: &mut writer })
        };
        make_files(run, self, self.existing, work).await
    }
}

impl Place for SplitSpec {
    fn path(&self, values: Values<'_>, label: &str) -> Result<VPath, StepError> {
        Ok(pattern::part_path(&self.to, values, label)?)
    }
}

#[async_trait]
impl Foresee for SplitSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let first = pattern::part_path(&self.to, foresight.values(), "1")?;
        let file = foresight.input()?.file;
        Ok(Foreseen::open(format!("splits {file} into '{first}' and so on"), CONTENT))
    }
}

fn size(spec: &SplitSpec) -> Result<PartSize, StepError> {
    match (spec.lines, spec.bytes, spec.records.zip(spec.of), &spec.header) {
        (Some(lines), None, None, None) => Ok(PartSize::Lines(lines)),
        (None, Some(bytes), None, None) => Ok(PartSize::Bytes(bytes)),
        (None, None, Some((count, form)), None) => {
            Ok(PartSize::Records(count, text::records(form)))
        }
        (None, None, None, Some(header)) => Ok(PartSize::Header(header.clone().into_bytes())),
        _ => Err(StepError::permanent("EP0812", "it is not said how large a part is")),
    }
}

/// Whether the paths of the parts are paths.
pub(crate) fn check(spec: &SplitSpec, values: Values<'_>) -> Result<(), PatternError> {
    pattern::part_path(&spec.to, values, "1").map(drop)
}
