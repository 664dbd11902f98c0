//! `import openssh`: the accounts, folders, keys and host keys of a machine whose `sshd` serves
//! SFTP, with a report of each thing that was taken, was not, and why. What is there already is
//! never changed, so that a second run changes nothing.

mod build;
mod files;
mod folder;
mod keys;
mod listener;
mod people;
mod report;
mod revoked;
mod settings;

use std::collections::{HashMap, HashSet};

use entrepot_admin::{Document, Response};
use entrepot_nouns::{AnyNoun, Kind, Listener, Name};
use entrepot_openssh::{Config as Sshd, Setting, Who, groups, users};
use serde_json::{Value, json};

use crate::args::ImportOpensshArgs;
use crate::ask::ask;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use build::{NOTE, Plan, Planned};
use people::{Found, groups_of};
use report::{Outcome, Report};
use settings::{Meaning, meaning};

/// What is there already.
struct There {
    nouns: HashMap<(Kind, Name), AnyNoun>,
}

/// Runs `import openssh`.
pub(crate) async fn run(
    config: &Config,
    output: Output,
    args: &ImportOpensshArgs,
) -> Result<(), Failure> {
    let there = There::read(config).await?;
    let mut plan = plan(args, there.listener(&args.listener))?;
    let new = there.new_nouns(&mut plan);
    let made = apply(config, &new, args).await?;
    let lines = &plan.report.lines;
    output.value(&json!({"lines": lines, "made": made, "dry_run": args.dry_run}), || {
        plan.report.print();
        println!();
        match (args.dry_run, made) {
            (_, 0) => println!("nothing new"),
            (true, made) => println!("{made} nouns would be made; nothing was changed"),
            (false, made) => println!("{made} nouns were made"),
        }
    })
}

/// Reads everything and says what shall be.
fn plan(args: &ImportOpensshArgs, listener: Option<&Listener>) -> Result<Plan, Failure> {
    let must = |path: &std::path::Path| {
        let named = |why| Failure::file(format!("'{}': {why}", path.display()));
        files::text(path).map_err(named)
    };
    let text = must(&args.config_file)?;
    let base = args.config_file.parent().map(std::path::Path::to_owned).unwrap_or_default();
    let mut include = |pattern: &str| files::include(&base, pattern);
    let sshd = Sshd::read(&args.config_file.display().to_string(), &text, &mut include);
    let users = users(&must(&args.users.join("passwd"))?);
    let groups = groups(&must(&args.users.join("group"))?);

    let mut plan = Plan::default();
    let (mut taken, mut others) = (HashSet::new(), 0);
    for user in &users {
        match people::look(&sshd, user, &groups) {
            Found::Person(person) => {
                let (names, _) = groups_of(user, &groups);
                let who = Who { name: &user.name, groups: &names };
                taken.extend(counting(&sshd, who));
                plan.report.about = user.name.parse().ok();
                build::person(&mut plan, &person);
                plan.report.about = None;
            }
            Found::No(Some(why)) => {
                plan.report.refused(format!("user {}", user.name), "account", why);
            }
            Found::No(None) => others += 1,
        }
    }
    if others > 0 {
        let why = "not confined to SFTP by sshd_config: not taken";
        let place = args.users.join("passwd").display().to_string();
        plan.report.add(Outcome::NotNeeded, place, format!("{others} users"), why);
    }
    listener::plan(&mut plan, &sshd, &args.listener, listener);
    say_settings(&mut plan.report, &sshd, &taken);
    Ok(plan)
}

/// File and line of each setting that counts for somebody.
fn counting(sshd: &Sshd, who: Who<'_>) -> HashSet<(String, usize)> {
    let keywords: HashSet<&str> =
        sshd.settings.iter().map(|setting| setting.keyword.as_str()).collect();
    let all = keywords.into_iter().flat_map(|keyword| sshd.all(keyword, Some(who)));
    let matched = sshd.settings.iter().filter(|setting| {
        setting.keyword == "match" && setting.when.iter().all(|criterion| criterion.holds(who))
    });
    all.chain(matched).map(|setting| (setting.file.clone(), setting.line)).collect()
}

/// A line of the report for each line of the configuration.
fn say_settings(report: &mut Report, sshd: &Sshd, taken: &HashSet<(String, usize)>) {
    let mut said = Report::default();
    for (file, bad) in &sshd.bad {
        said.refused(format!("{file}:{}", bad.line), "-", bad.problem.clone());
    }
    for setting in &sshd.settings {
        let (place, what) = (place_of(setting), setting.to_string());
        match meaning(&setting.keyword) {
            Meaning::OfListener => {}
            Meaning::Ours(why) => said.add(Outcome::NotNeeded, place, what, why),
            Meaning::Look(why) => said.refused(place, what, why),
            Meaning::OfUsers => say_of_users(&mut said, setting, taken),
        }
    }
    said.lines.append(&mut report.lines);
    *report = said;
}

/// File and line, as reports show it.
fn place_of(setting: &Setting) -> String {
    format!("{}:{}", setting.file, setting.line)
}

fn say_of_users(said: &mut Report, setting: &Setting, taken: &HashSet<(String, usize)>) {
    let (place, what) = (place_of(setting), setting.to_string());
    let by_address = setting.when.iter().find_map(|criterion| match criterion {
        entrepot_openssh::Criterion::Other(text) => Some(text),
        _ => None,
    });
    if let Some(criterion) = by_address {
        let why =
            format!("it depends on '{criterion}': use 'allow' of a policy, or 'from' of keys");
        said.refused(place, what, why);
    } else if setting.keyword == "include" || taken.contains(&(setting.file.clone(), setting.line))
    {
        said.taken(place, what, "");
    } else {
        said.add(Outcome::NotNeeded, place, what, "it counts for nobody who is taken");
    }
}

impl There {
    async fn read(config: &Config) -> Result<There, Failure> {
        let mut nouns = HashMap::new();
        for kind in [Kind::Account, Kind::Key, Kind::Endpoint, Kind::Mount, Kind::Listener] {
            let found = crate::nouns::all(config, kind).await?;
            let named = found.into_iter().map(|it| ((kind, it.noun.name().clone()), it.noun));
            nouns.extend(named);
        }
        Ok(There { nouns })
    }

    fn listener(&self, name: &Name) -> Option<&Listener> {
        match self.nouns.get(&(Kind::Listener, name.clone())) {
            Some(AnyNoun::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    /// An account of this name that no import made: nothing is added to it.
    fn is_foreign(&self, account: &Name) -> bool {
        match self.nouns.get(&(Kind::Account, account.clone())) {
            Some(AnyNoun::Account(known)) => known.note != NOTE,
            _ => false,
        }
    }

    /// What of the plan is to be made; the rest is said to be there.
    fn new_nouns(&self, plan: &mut Plan) -> Vec<Planned> {
        let mut new = Vec::new();
        let (mut foreign, mut elsewhere) = (HashSet::new(), HashSet::new());
        // Endpoints come before the mounts that use them.
        for planned in std::mem::take(&mut plan.nouns) {
            let taken = planned.account.as_ref().filter(|account| self.is_foreign(account));
            let known = self.nouns.get(&(planned.kind, planned.name.clone()));
            let what = format!("{} {}", planned.kind, planned.name);
            if let Some(account) = taken {
                foreign.insert(account.clone());
            } else if endpoint_of(&planned).is_some_and(|name| elsewhere.contains(name)) {
                let why = "its endpoint was there before and leads elsewhere: make it yourself";
                plan.report.refused(planned.place, what, why);
            } else if planned.kind == Kind::Listener || known.is_none() {
                new.push(planned);
            } else if let Some(why) = known.and_then(|known| difference(known, &planned)) {
                if planned.kind == Kind::Endpoint {
                    elsewhere.insert(json!(planned.name));
                }
                plan.report.refused(planned.place, what, why);
            } else {
                let why = "left as it is";
                plan.report.add(Outcome::AlreadyThere, planned.place, what, why);
            }
        }
        for account in foreign {
            let place = format!("user {account}");
            let why = "an account of this name was there before: nothing of the user was taken; \
                       rename or delete it, or give it keys and mounts yourself";
            plan.report.lines.retain(|line| line.about.as_ref() != Some(&account));
            plan.report.refused(place, "account", why);
        }
        self.without_users(new)
    }

    /// Endpoints that no mount uses are not made.
    fn without_users(&self, new: Vec<Planned>) -> Vec<Planned> {
        let used: HashSet<Value> = new.iter().filter_map(endpoint_of).cloned().collect();
        let wanted = |planned: &Planned| {
            planned.kind != Kind::Endpoint || used.contains(&json!(planned.name))
        };
        new.into_iter().filter(wanted).collect()
    }
}

/// In what the noun that is there is another than `planned`; `None`: it means the same.
fn difference(known: &AnyNoun, planned: &Planned) -> Option<String> {
    let fields: &[&str] = match planned.kind {
        Kind::Endpoint => &["target"],
        Kind::Key => &["public", "account"],
        Kind::Mount => &["account", "endpoint", "path"],
        // What was changed since is kept.
        _ => &[],
    };
    let known = serde_json::to_value(known).unwrap_or_default();
    let field = |noun: &Value, field: &str| {
        noun.get(planned.kind.as_str()).and_then(|body| body.get(field)).cloned()
    };
    if fields.iter().any(|name| field(&known, name) != field(&planned.document, name)) {
        return Some("another of this name was there before, left as it is".to_owned());
    }
    let certificate = field(&planned.document, "certificate")?;
    (field(&known, "certificate") != Some(certificate)).then(|| {
        let name = &planned.name;
        format!("without this certificate: entrepot key change {name} --from-file certificate=FILE")
    })
}

/// The endpoint that a mount uses.
fn endpoint_of(planned: &Planned) -> Option<&Value> {
    planned.document.pointer("/mount/endpoint")
}

/// Makes the nouns, all or none; in a dry run it only checks them. Gives how many there are.
async fn apply(
    config: &Config,
    new: &[Planned],
    args: &ImportOpensshArgs,
) -> Result<usize, Failure> {
    if new.is_empty() {
        return Ok(0);
    }
    // JSON is YAML.
    let texts: Vec<String> = new.iter().map(|planned| planned.document.to_string()).collect();
    let document = Document { file: "<import>".to_owned(), text: texts.join("\n---\n") };
    let verb = if args.dry_run { "plan" } else { "apply" };
    let request = json!({"request": verb, "documents": [document], "prune": false});
    match ask(config, request).await? {
        Response::Plan { changes, .. } => Ok(changes.len()),
        _ => Err(unexpected()),
    }
}
