//! `import openssh`, `import calendar`: plans what is taken over (`entrepot-import`), applies it,
//! prints the report.

use entrepot_admin::{Document, Response};
use entrepot_import::{DaysOff, Import, Known, OpensshFiles, Outcome, ReportLine};
use entrepot_nouns::{AnyNoun, Kind};
use serde_json::{Value, json};

use crate::admin_client::AdminClient;
use crate::args::{ImportCalendarArgs, ImportCommand, ImportOpensshArgs};
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table;

/// Runs one of the import commands.
pub(crate) async fn run(
    command: ImportCommand,
    client: AdminClient,
    output: Output,
) -> Result<(), Failure> {
    match command {
        ImportCommand::Openssh(args) => openssh(&client.config()?, output, &args).await,
        ImportCommand::Calendar(args) => calendar(&client, output, &args).await,
    }
}

async fn openssh(config: &Config, output: Output, args: &ImportOpensshArgs) -> Result<(), Failure> {
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

async fn calendar(
    client: &AdminClient,
    output: Output,
    args: &ImportCalendarArgs,
) -> Result<(), Failure> {
    let wrong = |problem: String| Failure::file(format!("'{}': {problem}", args.file.display()));
    let text = std::fs::read_to_string(&args.file).map_err(|error| wrong(error.to_string()))?;
    let DaysOff { mut days, report } = entrepot_import::days_off(&text).map_err(wrong)?;
    let name = &args.policy;
    let known = crate::nouns::all(client, Kind::Policy).await?.into_iter().map(|it| it.noun);
    let known = known.into_iter().find_map(|noun| match noun {
        AnyNoun::Policy(policy) if policy.name == *name => Some(policy),
        _ => None,
    });
    let before = known.as_ref().and_then(|policy| policy.calendar.clone()).unwrap_or_default();
    days.retain(|day| !before.except.contains(day) && !before.also.contains(day));
    let new = days.len();
    if new > 0 && !args.dry_run {
        let except: Vec<_> = before.except.into_iter().chain(days).collect();
        let calendar = json!({"calendar": {"except": except}});
        let request = match known {
            Some(_) => {
                json!({"request": "change", "kind": Kind::Policy, "name": name, "patch": calendar})
            }
            None => {
                let noun = json!({"policy": {"name": name, "calendar": calendar["calendar"]}});
                json!({"request": "create", "noun": noun})
            }
        };
        client.ask(request).await?;
    }
    output.value(&json!({"lines": report, "days": new, "dry_run": args.dry_run}), || {
        print(&report);
        println!();
        match (args.dry_run, new) {
            (_, 0) => println!("policy '{name}' has them all"),
            (true, new) => println!("policy '{name}' would get {new} days off; it was not changed"),
            (false, new) => println!("policy '{name}' has {new} more days off"),
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
