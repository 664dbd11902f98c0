//! What `exec` would do: the command line, and whether the node allows the program.

use async_trait::async_trait;
use entrepot_nouns::Fact;
use entrepot_nouns::rule::{ExecSpec, ExecStdin};

use super::StepError;
use super::change::foreseen_file;
use super::exec::{no_local, not_run};
use super::exec_run::made;
use crate::exec::{self, Setting};
use crate::foresight::{Foresee, Foreseen, Foresight, NO_SERVER};

#[async_trait]
impl Foresee for ExecSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let made = made(self, foresight.values())?;
        let wants_file = exec::asks_for(self, "file");
        let mut file = None;
        if self.stdin == ExecStdin::File {
            foresight.input()?;
        }
        let is_held = matches!(foresight.event().fact, Fact::FileHeld { .. });
        if wants_file && (is_held || foresight.noted.file.is_some()) {
            let why = "where the file lies that a step makes, or a mount holds, shows only then";
            return Ok(Foreseen::open(format!("runs {:?}", self.argv), why));
        }
        if wants_file {
            let path = foresight.source()?.path;
            let Some(files) = foresight.account_files()? else {
                return Ok(Foreseen::open(format!("runs {:?}", self.argv), NO_SERVER));
            };
            let local = files.local(&path).await?;
            let local = local.and_then(|local| local.into_os_string().into_string().ok());
            file = Some(local.ok_or_else(|| no_local(&path.to_string()))?);
        }
        let ip = if exec::asks_for(self, "ip") { foresight.address().await } else { None };
        let (rule, event) = (&foresight.job.rule, foresight.event());
        let setting = Setting { rule, event, noted: Some(&foresight.noted), file, ip };
        let program = exec::program(self, &setting)?;
        if let Some(path) = program.argv.first() {
            foresight.parts.allowed.check(path).map_err(|error| not_run(&error))?;
        }
        let words = program.argv.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>();
        let what = format!("runs {}", words.join(" "));
        Ok(match made {
            Some(name) => {
                foreseen_file(foresight, format!("{what}, and makes '{name}' of its output"), name)
            }
            None => Foreseen::open(what, "how the program ends shows only when it runs"),
        })
    }
}
