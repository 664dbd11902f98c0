//! Who may use a key, an endpoint or an account: each can name them, and then nobody else changes
//! it or what names it.
//!
//! Whoever writes a rule that names a key has the key do what the rule says, and so it is with the
//! files of an endpoint and the rights of an account: so each change of such a noun is looked at,
//! not only the one that first names the other.

use std::collections::HashSet;

use entrepot_auth::groups_of;
use entrepot_db::Db;
use entrepot_nouns::noun::Reference;
use entrepot_nouns::{Account, AnyNoun, Kind, Name};

use crate::actor::Actor;
use crate::error::{AdminError, Result};
use crate::plan::Step;
use crate::planned_change::Action;
use crate::reader::{self, NounKey, State};

/// Refuses changes of such nouns, and of what names them, to an actor whom they do not name.
pub(crate) async fn check(db: &Db, actor: &Actor, before: &State, steps: &[Step]) -> Result<()> {
    // Whoever works on the machine of a node reads what it can.
    if actor.account().is_none() {
        return Ok(());
    }
    let (mut known, mut seen) = (None, HashSet::new());
    for step in steps {
        let shown = &step.shown;
        if matches!(shown.action, Action::Unchanged | Action::Compare) {
            continue;
        }
        let changed = NounKey::new(shown.kind, &shown.name);
        let mut nouns: Vec<AnyNoun> = Vec::new();
        nouns.extend(before.get(&changed).map(|stored| stored.noun.clone()));
        let named = step.noun.as_ref().map(AnyNoun::references).unwrap_or_default();
        for reference in named.iter().filter(|reference| uses(reference)) {
            let key = NounKey::new(reference.kind, &reference.name);
            if seen.insert(key.clone()) {
                // One that this very change makes is its author's.
                let found = reader::find(db, actor.site, &key).await?;
                nouns.extend(found.map(|stored| stored.noun));
            }
        }
        for noun in nouns {
            let (_, users) = noun.users();
            if users.is_empty() {
                continue;
            }
            let names = match &known {
                Some(names) => names,
                None => known.insert(names_of(db, actor).await?),
            };
            if !users.iter().any(|user| names.contains(user)) {
                return Err(AdminError::OfOthers {
                    actor: actor.name.clone(),
                    kind: noun.kind(),
                    name: noun.name().to_string(),
                    users: users.iter().map(Name::as_str).collect::<Vec<_>>().join(", "),
                });
            }
        }
    }
    Ok(())
}

/// Whether a noun that has this reference works with what it names. Whom it asks, whom it lets
/// call, and who may use it, it only names.
fn uses(reference: &Reference) -> bool {
    match reference.kind {
        Kind::Key | Kind::Endpoint => true,
        Kind::Account => {
            let field = &reference.field;
            let asks = ["users.", "managers.", "callers.", "terminals."];
            !asks.iter().any(|start| field.starts_with(start)) && !field.contains(".approve.by.")
        }
        Kind::Site | Kind::Policy | Kind::Mount | Kind::Model | Kind::Rule | Kind::Listener => {
            false
        }
    }
}

/// The account behind the actor, and its groups; none where it is one of another site.
async fn names_of(db: &Db, actor: &Actor) -> Result<Vec<Name>> {
    let Some(name) = actor.own_account() else { return Ok(Vec::new()) };
    let Some(account) = db.find::<Account>(actor.site, &name).await? else {
        return Ok(Vec::new());
    };
    let groups = groups_of(db, actor.site, &account.noun).await?;
    Ok(groups.into_iter().chain([name]).collect())
}
