//! `import openssh`: plans what is taken over (`entrepot-import`), applies it, prints the report.

use entrepot_admin::{Document, Response};
use entrepot_import::{Import, Known, OpensshFiles, Outcome, ReportLine};
use serde_json::{Value, json};

use crate::admin_client::AdminClient;
use crate::args::ImportOpensshArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table;

/// Runs `import openssh`.
pub(crate) async fn run(
    config: &Config,
    output: Output,
    args: &ImportOpensshArgs,
) -> Result<(), Failure> {
    let client = AdminClient::Local(Box::new(config.clone()));
    let known = known(&client).await?;
    let from = OpensshFiles { sshd_config: args.config_file.clone(), users: args.users.clone() };
    let import = entrepot_import::openssh(&from, &args.listener, &known);
    let Import { documents, report } = import.map_err(|error| Failure::file(error.to_string()))?;
    let made = apply(&client, &documents, args).await?;
    output.value(&json!({"lines": report, "made": made, "dry_run": args.dry_run}), || {
        print(&report);
        println!();
        match (args.dry_run, made) {
            (_, 0) => println!("nothing new"),
            (true, made) => println!("{made} nouns would be made; nothing was changed"),
            (false, made) => println!("{made} nouns were made"),
        }
    })
}

/// What is configured already.
async fn known(client: &AdminClient) -> Result<Known, Failure> {
    let mut nouns = Vec::new();
    for kind in Known::KINDS {
        nouns.extend(crate::nouns::all(client, kind).await?.into_iter().map(|it| it.noun));
    }
    Ok(Known::new(nouns))
}

/// Makes the nouns, all or none; in a dry run it only checks them. Returns how many there are.
async fn apply(
    client: &AdminClient,
    new: &[Value],
    args: &ImportOpensshArgs,
) -> Result<usize, Failure> {
    if new.is_empty() {
        return Ok(0);
    }
    // JSON is YAML.
    let texts: Vec<String> = new.iter().map(Value::to_string).collect();
    let document = Document { file: "<import>".to_owned(), text: texts.join("\n---\n") };
    let verb = if args.dry_run { "plan" } else { "apply" };
    let request = json!({"request": verb, "documents": [document], "prune": false});
    match client.ask(request).await? {
        Response::Plan { changes, .. } => Ok(changes.len()),
        _ => Err(unexpected()),
    }
}

/// Prints a table and the meaning of its signs.
fn print(report: &[ReportLine]) {
    let row = |line: &ReportLine| {
        let sign = match line.outcome {
            Outcome::Taken => "+",
            Outcome::AlreadyThere => "=",
            Outcome::NotNeeded => ".",
            Outcome::NotTaken => "!",
        };
        vec![sign.to_owned(), line.place.clone(), line.what.clone(), line.why.clone()]
    };
    let rows: Vec<Vec<String>> = report.iter().map(row).collect();
    table::print(&["", "where", "what", "result"], &rows);
    println!();
    println!("+ taken   = already there   . not needed   ! look at this");
}
