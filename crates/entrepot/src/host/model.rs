//! `host model`: models of host applications.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use entrepot_host::model::{self, Model, ModelTest};
use entrepot_host::{Application, HostAddress, HostTls, NoMatch, Player, PlayerOptions, Recording};
use entrepot_net::tls::ServerTrust;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::given;
use super::given::{host_options, read};
use crate::args::HostModelArgs;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::table;

/// Longest time for a screen of a recording, which nothing delays.
const TEST_PATIENCE: Duration = Duration::from_secs(10);

/// Tells all that is wrong with a model.
pub(super) fn check(args: &HostModelArgs, output: Output) -> Result<(), Failure> {
    let model = given::model(&args.model)?;
    let found = model::check(&model);
    output.rows(&found, |found| {
        for finding in found {
            let line = format!("{}:{finding}", args.model.display());
            println!("{}", table::printable(&line));
        }
        if found.is_empty() {
            println!(
                "{}: {} entities, {} procedures, no findings",
                table::printable(&model.model),
                model.entities.0.len(),
                model.procedures.0.len()
            );
        }
    })?;
    if found.is_empty() {
        return Ok(());
    }
    let what = format!("the model has {} findings", found.len());
    Err(Failure::new("EP1305", Exit::Findings, what))
}

/// Prints the schema of models.
pub(super) fn schema() -> Result<(), Failure> {
    println!("{:#}", model::schema());
    Ok(())
}

/// Calls the procedures of the model's tests, and compares what they give.
pub(super) async fn test(args: &HostModelArgs, output: Output) -> Result<(), Failure> {
    let model = Arc::new(given::model(&args.model)?);
    let folder = args.model.parent().unwrap_or(Path::new(""));
    let mut told = Vec::new();
    for test in &model.tests {
        let outcome = tested(&model, test, folder).await?;
        let (call, trace) = (test.call.name.clone(), test.trace.clone());
        told.push(TestOutcome { call, trace, problem: outcome.err() });
    }
    output.rows(&told, |told| {
        for TestOutcome { call, trace, problem } in told {
            let outcome = problem.as_deref().unwrap_or("as wanted");
            println!("{}", table::printable(&format!("{call} at {trace}: {outcome}")));
        }
    })?;
    let failed = told.iter().filter(|test| test.problem.is_some()).count();
    if failed == 0 && !told.is_empty() {
        return Ok(());
    }
    let what = format!("{failed} of the {} tests of the model failed", told.len());
    Err(Failure::new("EP1309", Exit::Findings, what))
}

#[derive(Serialize)]
struct TestOutcome {
    call: String,
    trace: String,
    /// Unset: the procedure gave what is wanted.
    problem: Option<String>,
}

/// One test; in the inner result what went wrong with it.
async fn tested(
    model: &Arc<Model>,
    test: &ModelTest,
    folder: &Path,
) -> Result<Result<(), String>, Failure> {
    let wanted = folder.join(&test.want);
    let wrong = |error| Failure::file(format!("'{}': {error}", wanted.display()));
    let want: serde_json::Value = serde_json::from_slice(&read(&wanted)?).map_err(wrong)?;
    let text = String::from_utf8_lossy(&read(&folder.join(&test.trace))?).into_owned();
    let anywhere = HostAddress { host: "127.0.0.1".to_owned(), port: 0, tls: HostTls::WhenAsked };
    let mut options = host_options(model, anywhere, ServerTrust::System, TEST_PATIENCE)?;
    let page = Arc::new(options.page.clone());
    let recording = match Recording::compile(&test.trace, &text, page) {
        Ok(recording) => Arc::new(recording),
        Err(error) => return Ok(Err(error.to_string())),
    };
    // A key that was not recorded ends the session.
    let no_match = NoMatch::Drop;
    let player = Player::bind(PlayerOptions { no_match, ..PlayerOptions::of(recording) })
        .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
    options.address.port = player.address().port();
    let stop = CancellationToken::new();
    let playing = tokio::spawn(player.run(stop.clone()));
    let given = async {
        let mut application =
            Application::open(Arc::clone(model), options, test.variables.texts()).await?;
        application.call(&test.call.name, test.input.texts()).await
    };
    let given = given.await;
    stop.cancel();
    // Its task ends with the token; what it counted says nothing here.
    let _ = playing.await;
    Ok(match given {
        Ok(given) if given == want => Ok(()),
        Ok(given) => Err(format!("it gave {given}")),
        Err(error) => Err(error.to_string()),
    })
}
