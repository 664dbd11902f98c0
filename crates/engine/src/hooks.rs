//! Rules that clients wait for: before a command, and before its reply leaves.
//!
//! Each question is answered in a task of its own, under the limit of its rules
//! ([`crate::waited`] is what one of them does). What is asked before a command is given up when
//! whoever asked is gone; what runs after one runs to its end, for the command has happened. A stop
//! waits for that as it does for jobs. The rules are read beside the answers: a database that says
//! nothing holds up nobody, the rules known last count meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use entrepot_nouns::{Name, SiteId};
use entrepot_vfs::{Hooks, Moment, RuleQuestion};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

use crate::limits::{HOOKS_AT_ONCE, HOOKS_POLL, HOOKS_READ};
use crate::rules::Rules;
use crate::shared::Shared;
use crate::waited;

/// What the answering task works with.
pub(crate) struct Desk {
    pub(crate) hooks: Hooks,
    pub(crate) questions: mpsc::Receiver<RuleQuestion>,
    /// True once the rules are known.
    pub(crate) ready: watch::Sender<bool>,
    pub(crate) stop: CancellationToken,
}

/// Answers until `stop`, then what was asked by then.
pub(crate) async fn run(shared: Arc<Shared>, mut desk: Desk) {
    let mut rules = Arc::new(Rules::none());
    // Of the readers there is one at a time.
    let (mut answering, mut reading) = (JoinSet::new(), JoinSet::new());
    let mut told = Unrunnable::new();
    let mut ticks = tokio::time::interval(HOOKS_POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let has_room = answering.len() < HOOKS_AT_ONCE;
        tokio::select! {
            () = desk.stop.cancelled() => break,
            _ = ticks.tick(), if reading.is_empty() => {
                reading.spawn(read(shared.clone(), rules.clone()));
            }
            // What was known goes on to count where nothing could be read.
            Some(read) = reading.join_next() => if let Ok(Some(read)) = read {
                told = warned(&shared, &read, &told);
                rules = read;
                desk.hooks.set(rules.hooks.clone());
                desk.ready.send_replace(true);
            },
            Some(question) = desk.questions.recv(), if has_room => {
                answering.spawn(answer(shared.clone(), rules.clone(), question));
            }
            Some(_) = answering.join_next() => {}
        }
    }
    desk.questions.close();
    while let Some(question) = desk.questions.recv().await {
        answering.spawn(answer(shared.clone(), rules.clone(), question));
    }
    while answering.join_next().await.is_some() {}
}

async fn read(shared: Arc<Shared>, rules: Arc<Rules>) -> Option<Arc<Rules>> {
    match timeout(HOOKS_READ, rules.refreshed(&shared.db)).await {
        Ok(Ok(read)) => return Some(read),
        Ok(Err(error)) => tracing::debug!(%error, "the rules cannot be read"),
        Err(_) => tracing::debug!("the rules cannot be read in time"),
    }
    None
}

/// Programs of enabled rules that this node does not start.
type Unrunnable = BTreeSet<(SiteId, Name, String)>;

/// Says of new ones, whoever stored the rule and on whatever node, that they will not run here.
fn warned(shared: &Shared, rules: &Rules, told: &Unrunnable) -> Unrunnable {
    let mut now = Unrunnable::new();
    for (site, rule, program) in &rules.programs {
        let Err(error) = shared.spawner.permits(program) else { continue };
        let found = (*site, rule.clone(), program.clone());
        if !told.contains(&found) {
            tracing::warn!(code = error.code(), %rule, %error, "a rule will not run on this node");
        }
        now.insert(found);
    }
    now
}

async fn answer(shared: Arc<Shared>, rules: Arc<Rules>, question: RuleQuestion) {
    let RuleQuestion { moment, event, limit, mut answer } = question;
    let decided = timeout(limit, waited::decide(&shared, &rules, moment, &event));
    tokio::select! {
        // Whoever asked is gone: dropping the program kills it.
        () = answer.closed(), if moment == Moment::Before => {}
        decided = decided => match decided {
            // Whoever asked may be gone.
            Ok(decided) => drop(answer.send(decided)),
            Err(_) => tracing::error!(code = "EP0826", ?limit, "rules on a command took too long"),
        },
    }
}
