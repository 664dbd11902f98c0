//! Taking over the configuration of another server, `sshd` serving SFTP: accounts, folders, keys
//! and host keys of a machine; and the holidays of an iCalendar file. With a report of each thing
//! that was taken, was not, and why.
//!
//! The crate reads the other server's files and plans nouns; it changes nothing. Who calls it
//! gives it the nouns that are configured already and applies the documents that it returns. What
//! is configured already is never changed, the named listener apart, so that a second run changes
//! nothing.

mod account;
mod days_off;
mod files;
mod folder;
mod keys;
mod known;
mod listener;
mod people;
mod plan;
mod report;
mod revoked;
mod settings;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use entrepot_nouns::Name;
use entrepot_openssh::{Config as Sshd, Who, groups, users};
use serde_json::Value;

pub use days_off::{DaysOff, days_off};
pub use known::Known;
pub use report::{Outcome, ReportLine};

use people::Found;
use plan::Plan;
use settings::SettingPlace;

/// Where the files of the `sshd` lie that is taken over.
#[derive(Clone, Debug)]
pub struct OpensshFiles {
    /// The path of its main configuration file, usually `/etc/ssh/sshd_config`.
    pub sshd_config: PathBuf,
    /// The folder of the files `passwd` and `group`.
    pub users: PathBuf,
}

/// What an import would make, and what it says.
#[derive(Clone, Debug)]
pub struct Import {
    /// The new nouns as documents, each with one key, the kind. All that a noun refers to is
    /// among them or was known.
    pub documents: Vec<Value>,
    /// A line for each setting, user, key and folder.
    pub report: Vec<ReportLine>,
}

/// A file without which there is nothing to take over.
#[derive(Debug, thiserror::Error)]
#[error("'{path}': {problem}")]
pub struct UnreadableFile {
    /// The file's path, for people.
    pub path: String,
    /// Why it cannot be read.
    pub problem: String,
}

/// Plans the nouns that stand for the users and host keys of an OpenSSH server. The host keys and
/// the banner become those of the listener of this name, which is made if it is not `known`.
///
/// # Errors
/// The configuration, `passwd` or `group` cannot be read. Of other files the report says it.
pub fn openssh(
    from: &OpensshFiles,
    listener: &Name,
    known: &Known,
) -> Result<Import, UnreadableFile> {
    let text = required(&from.sshd_config)?;
    let base = from.sshd_config.parent().map(Path::to_owned).unwrap_or_default();
    let mut include = |pattern: &str| files::include(&base, pattern);
    let sshd = Sshd::read(&from.sshd_config.display().to_string(), &text, &mut include);
    let mut plan = Plan::default();
    let counting = plan_users(&mut plan, from, &sshd)?;
    listener::plan(&mut plan, &sshd, listener, known.listener(listener));
    settings::report_on(&mut plan.report, &sshd, &counting);
    let new = known.new_nouns(&mut plan);
    Ok(Import {
        documents: new.into_iter().map(|planned| planned.document).collect(),
        report: plan.report.lines,
    })
}

/// Plans every user that `sshd` confines to SFTP. Returns the settings that count for any of them.
fn plan_users(
    plan: &mut Plan,
    from: &OpensshFiles,
    sshd: &Sshd,
) -> Result<HashSet<SettingPlace>, UnreadableFile> {
    let passwd = from.users.join("passwd");
    let users = users(&required(&passwd)?);
    let groups = groups(&required(&from.users.join("group"))?);
    let (mut counting, mut others) = (HashSet::new(), 0);
    for user in &users {
        match people::look(sshd, user, &groups) {
            Found::Person(person) => {
                let (names, _) = people::groups_of(user, &groups);
                let who = Who { name: &user.name, groups: &names };
                counting.extend(settings::counting(sshd, who));
                plan.report.about = user.name.parse().ok();
                account::plan(plan, &person);
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
        let place = passwd.display().to_string();
        plan.report.add(Outcome::NotNeeded, place, format!("{others} users"), why);
    }
    Ok(counting)
}

/// The text of a file without which there is nothing to take over.
fn required(path: &Path) -> Result<String, UnreadableFile> {
    files::text(path)
        .map_err(|problem| UnreadableFile { path: path.display().to_string(), problem })
}
