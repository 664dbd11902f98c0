//! Models: host applications, whose procedures are called. What their screens mean stands in the
//! definition, which is text of its own (`host` reads it).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{OnByDefault, is_default};
use crate::host_debug::HostDebug;
use crate::limits::{MODEL_CALLERS, MODEL_DEFINITION_BYTES, MODEL_USERS};
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference};
use crate::pool::SessionPool;
use crate::secret::{Sealed, Secret};

/// A host application, ready to be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Unique among the models of its site; never changes.
    pub name: Name,
    /// A model that is disabled has no sessions, and none of its procedures can be called.
    #[serde(default = "bool::on", skip_serializing_if = "OnByDefault::is_on")]
    pub enabled: bool,
    /// Where the application is: an endpoint of kind `tn3270`.
    pub endpoint: Name,
    /// Its screens, the ways between them and its procedures: the text of a file of YAML, as
    /// `entrepot host model check` reads it.
    pub definition: String,
    /// Values of variables of the definition, the same for all sessions. Secrets are none of them:
    /// those are in `users`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Values of variables that one session at a time has, as CSV: a line of their names, such as
    /// `user,password`, and a line for each session. Accepted in documents and requests only:
    /// sealed on the way in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub users: Option<Secret>,
    /// The same, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users_sealed: Option<Sealed>,
    /// Who may call which procedures: accounts or groups, and names of procedures; `*` is all of
    /// them. Nobody else may, administrators neither. Rules need not be named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callers: BTreeMap<Name, Vec<String>>,
    /// Who may work at the screens of sessions, as at a terminal, whatever procedures there are:
    /// accounts or groups. `*` of `callers` does not say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terminals: Vec<Name>,
    /// Nodes that have sessions with the host, by their names. Unset: all; each of them then has a
    /// session for every line of `users`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Name>,
    /// How many sessions there are on each node, and for how long.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pool: SessionPool,
    /// What is recorded of sessions, to find out what went wrong in them; it changes without
    /// ending any. `entrepot host debug FILE` shows what was recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub debug: HostDebug,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Model {
    /// Whether an account of this lineage (its name and its groups) may call a procedure.
    pub fn may_call(&self, lineage: &[Name], procedure: &str) -> bool {
        let allowed = lineage.iter().filter_map(|name| self.callers.get(name));
        allowed.flatten().any(|name| name == "*" || name == procedure)
    }

    /// Whether an account of this lineage may work at the screens of a session.
    pub fn may_use_terminals(&self, lineage: &[Name]) -> bool {
        lineage.iter().any(|name| self.terminals.contains(name))
    }

    /// Whether an account of this lineage may hold a session: to call something in it, or to work
    /// at its screens.
    pub fn may_hold_sessions(&self, lineage: &[Name]) -> bool {
        self.may_use_terminals(lineage)
            || lineage.iter().any(|name| self.callers.contains_key(name))
    }

    /// The values of sessions, one after the other.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the lines.
    pub fn sessions_of(users: &Secret) -> Result<Vec<BTreeMap<String, String>>, String> {
        let text = std::str::from_utf8(users.expose()).map_err(|_| "it is no UTF-8".to_owned())?;
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let names = cells(lines.next().ok_or("give a line of names, such as user,password")?)?;
        if names.iter().any(|name| name.is_empty() || name.contains(char::is_whitespace)) {
            return Err("the first line has the names of variables, such as user,password".into());
        }
        let mut sessions = Vec::new();
        for line in lines {
            let values = cells(line)?;
            if values.len() != names.len() {
                let (number, wanted) = (sessions.len() + 1, names.len());
                return Err(format!("session {number} has not {wanted} values"));
            }
            sessions.push(names.iter().cloned().zip(values).collect());
        }
        match sessions.len() {
            0 => Err("give a line for each session behind the names".to_owned()),
            count if count > MODEL_USERS => Err(format!("there are more than {MODEL_USERS} lines")),
            _ => Ok(sessions),
        }
    }
}

/// The cells of a line of CSV (RFC 4180); none goes over several lines.
fn cells(line: &str) -> Result<Vec<String>, String> {
    let unclosed = || "a quotation mark is not closed, or something follows it".to_owned();
    let (mut cells, mut rest) = (Vec::new(), line.trim_end_matches('\r'));
    loop {
        let quoted = rest.trim_start().strip_prefix('"');
        let Some(mut inner) = quoted else {
            let (cell, behind) = rest.split_once(',').map_or((rest, None), |(a, b)| (a, Some(b)));
            cells.push(cell.trim().to_owned());
            match behind {
                Some(behind) => rest = behind,
                None => return Ok(cells),
            }
            continue;
        };
        let mut cell = String::new();
        let behind = loop {
            let (part, behind) = inner.split_once('"').ok_or_else(unclosed)?;
            cell.push_str(part);
            match behind.strip_prefix('"') {
                Some(more) => {
                    cell.push('"');
                    inner = more;
                }
                None => break behind.trim_start(),
            }
        };
        cells.push(cell);
        match behind.strip_prefix(',') {
            Some(behind) => rest = behind,
            None if behind.is_empty() => return Ok(cells),
            None => return Err(unclosed()),
        }
    }
}

impl Noun for Model {
    const KIND: Kind = Kind::Model;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<Reference> {
        let endpoint = Reference::new("endpoint", Kind::Endpoint, &self.endpoint);
        let callers = self.callers.keys();
        let callers =
            callers.map(|name| Reference::new(format!("callers.{name}"), Kind::Account, name));
        let terminals = self.terminals.iter().enumerate();
        let terminals = terminals
            .map(|(at, name)| Reference::new(format!("terminals.{at}"), Kind::Account, name));
        std::iter::once(endpoint).chain(callers).chain(terminals).collect()
    }
    fn check(&self) -> Result<(), FieldError> {
        if self.definition.len() > MODEL_DEFINITION_BYTES {
            let what = format!("it has more than {MODEL_DEFINITION_BYTES} bytes");
            return Err(FieldError::new("definition", what));
        }
        if self.callers.len() > MODEL_CALLERS {
            let what = format!("there are more than {MODEL_CALLERS}: name a group");
            return Err(FieldError::new("callers", what));
        }
        if self.terminals.len() > MODEL_CALLERS {
            let what = format!("there are more than {MODEL_CALLERS}: name a group");
            return Err(FieldError::new("terminals", what));
        }
        if let Some((name, _)) = self.callers.iter().find(|(_, names)| names.is_empty()) {
            let what = "name procedures, or '*' for all of them";
            return Err(FieldError::new(format!("callers.{name}"), what));
        }
        self.debug.check("debug")?;
        self.pool.check("pool")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(text: &str) -> Result<Vec<BTreeMap<String, String>>, String> {
        Model::sessions_of(&Secret::from(text.to_owned()))
    }

    #[test]
    fn each_line_is_a_session() {
        let found =
            sessions("user,password\nA, secret\n\n\"B\",\"with, \"\"marks\"\"\"\r\n").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((&*found[0]["user"], &*found[0]["password"]), ("A", "secret"));
        assert_eq!(found[1]["password"], "with, \"marks\"");
        for bad in [
            "",
            "user,password\n",
            "user\nA,B",
            "user,\nA,B",
            "user\n\"A",
            "user\n\"A\"B",
            "a b\nc",
        ] {
            assert!(sessions(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn procedures_are_for_those_who_are_named() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let json = serde_json::json!({
            "name": "loans", "endpoint": "mainframe", "definition": "",
            "callers": {"clerks": ["find_loans"], "boss": ["*"]},
        });
        let model: Model = serde_json::from_value(json).unwrap();
        let (anna, clerks) = (name("anna"), name("clerks"));
        assert!(model.may_call(&[anna.clone(), clerks.clone()], "find_loans"));
        assert!(!model.may_call(&[anna.clone(), clerks], "renew_loan"));
        assert!(!model.may_call(&[anna], "find_loans"));
        assert!(model.may_call(&[name("boss")], "renew_loan"));
        assert!(
            !model.may_use_terminals(&[name("boss")]) && model.may_hold_sessions(&[name("boss")])
        );
        assert!(!model.may_hold_sessions(&[name("tom")]));
        let model = Model { terminals: vec![name("tom")], ..model };
        assert!(model.may_use_terminals(&[name("tom")]) && model.may_hold_sessions(&[name("tom")]));
        assert_eq!(model.references().len(), 4);
        let nothing = Model { callers: [(name("x"), Vec::new())].into(), ..model };
        assert_eq!(nothing.check().unwrap_err().field, "callers.x");
    }
}
