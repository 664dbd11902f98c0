//! Questions of jobs, and answers to them, on both databases.

use std::time::Duration;

use entrepot_nouns::approval::{Approval, ApprovalAnswer, ApprovalState, ApprovalVerdict};
use entrepot_nouns::{Env, JobStep, SiteId, StepAddress, StepState};

use super::{HeldJobs, both, job, name, project, started, step, take};
use crate::{AnswerOutcome, ApprovalKey, Db, HandOver, JobChange, JobHold, LaneKey, RestsFor};

const HOUR: Duration = Duration::from_secs(3600);

async fn say(
    db: &Db,
    asked: &Approval,
    who: &str,
    verdict: ApprovalVerdict,
    env: &Env,
) -> AnswerOutcome {
    let answer = ApprovalAnswer { account: name(who), verdict, why: None, at: env.now() };
    let mut tx = db.begin().await.unwrap();
    let said = tx.answer_approval(&ApprovalKey::of(asked), &answer).await.unwrap();
    if said == AnswerOutcome::Counted {
        tx.wake_job(asked.job, env.now()).await.unwrap();
        tx.commit().await.unwrap();
    }
    said
}

/// Lists of a `parallel` ask at the same time, and are answered each for itself.
async fn several_steps_of_a_job_may_ask(db: Db) {
    let env = Env::simulated(12);
    let made = job(&env, "route", env.now());
    project(&db, "n1", &[], std::slice::from_ref(&made)).await;
    let n1 = started(&db, "n1").await;
    let held = take(&db, &n1, 1, env.now(), HOUR).await.unwrap().remove(0);
    let asked = |step: &str| Approval {
        job: held.id,
        step: StepAddress(step.to_owned()),
        life: held.life(),
        rule: held.rule.clone(),
        text: step.to_owned(),
        by: vec![name("boss")],
        need: 1,
        yes: 0,
        asked_at: env.now(),
        until: env.now().plus(HOUR),
        decided_at: None,
        answers: Vec::new(),
    };
    let (one, two) = (asked("one"), asked("two"));
    for asked in [&two, &one] {
        db.ask_approval(SiteId::MAIN, asked).await.unwrap();
    }
    assert_eq!(db.approvals_of_job(held.id).await.unwrap(), [one.clone(), two.clone()]);
    assert_eq!(db.open_approvals(SiteId::MAIN, 9).await.unwrap().len(), 2);
    let said = say(&db, &one, "boss", ApprovalVerdict::Approved, &env).await;
    assert_eq!(said, AnswerOutcome::Counted);
    assert_eq!(db.approvals_of_job(held.id).await.unwrap(), std::slice::from_ref(&two));
    let steps = [two.step.clone()];
    db.close_approvals(held.id, held.life(), &steps, env.now()).await.unwrap();
    assert!(db.approvals_of_job(held.id).await.unwrap().is_empty());
}

async fn answers_are_counted_once_each_and_wake_the_job(db: Db) {
    let env = Env::simulated(11);
    let made = job(&env, "route", env.now());
    project(&db, "n1", &[], std::slice::from_ref(&made)).await;
    let n1 = started(&db, "n1").await;
    let held = take(&db, &n1, 1, env.now(), HOUR).await.unwrap().remove(0);
    let hold = JobHold::from(&held);
    let begun = step(&hold, 0, &env);
    let begun = JobStep { state: StepState::Begun, ended_at: None, ..begun };
    let asked = Approval {
        job: held.id,
        step: begun.address.clone(),
        life: held.life(),
        rule: held.rule.clone(),
        text: "may it go?".to_owned(),
        by: vec![name("boss")],
        need: 3,
        yes: 0,
        asked_at: env.now(),
        until: env.now().plus(HOUR),
        decided_at: None,
        answers: Vec::new(),
    };
    db.ask_approval(SiteId::MAIN, &asked).await.unwrap();
    let later = Approval { asked_at: env.now().plus(HOUR), ..asked.clone() };
    db.ask_approval(SiteId::MAIN, &later).await.unwrap();
    assert!(db.write_job(&hold, JobChange::Begin(begun)).await.unwrap());
    let key = ApprovalKey::of(&asked);
    let over = HandOver {
        lane: LaneKey::of(&held),
        at: env.now(),
        due_at: Some(env.now().plus(HOUR)),
        passed: None,
        rests_for: vec![RestsFor::Answered(key.clone())],
    };
    assert!(db.write_job(&hold, JobChange::HandOver(over)).await.unwrap());
    assert_eq!(db.open_approvals(SiteId::MAIN, 9).await.unwrap(), std::slice::from_ref(&asked));
    assert!(take(&db, &n1, 1, env.now(), HOUR).await.unwrap().is_empty());
    let yes = ApprovalVerdict::Approved;
    let past = Approval { life: 2, until: asked.asked_at, ..asked.clone() };
    db.ask_approval(SiteId::MAIN, &past).await.unwrap();
    for verdict in [yes, ApprovalVerdict::Refused] {
        let said = say(&db, &past, "a", verdict, &env).await;
        assert_eq!(said, AnswerOutcome::Closed, "an answer counted behind the end of its time");
    }
    let three = ["a", "b", "c"].map(|who| say(&db, &asked, who, yes, &env));
    let [a, b, c] = three;
    let (a, b, c) = tokio::join!(a, b, c);
    assert_eq!([a, b, c], [AnswerOutcome::Counted; 3]);
    let found = db.approval(&key).await.unwrap().unwrap();
    assert_eq!((found.yes, found.answers.len()), (3, 3));
    assert_eq!(found.state(), ApprovalState::Approved);
    assert_eq!(say(&db, &asked, "a", yes, &env).await, AnswerOutcome::Before);
    assert_eq!(say(&db, &asked, "d", yes, &env).await, AnswerOutcome::Closed);
    assert!(!db.close_approval(&key, env.now()).await.unwrap());
    assert_eq!(db.open_approvals(SiteId::MAIN, 9).await.unwrap(), []);
    let held = take(&db, &n1, 1, env.now(), HOUR).await.unwrap();
    assert_eq!(held.len(), 1, "it was not woken");
    // Nor does it rest on where it is handed over to another lane.
    let (lane, at) = (LaneKey::of(&made), env.now());
    let over = HandOver { lane, at, due_at: None, passed: None, rests_for: Vec::new() };
    assert!(db.write_job(&JobHold::from(&held[0]), JobChange::HandOver(over)).await.unwrap());
    assert_eq!(take(&db, &n1, 1, env.now(), HOUR).await.unwrap().len(), 1, "it rests again");
}

both!(several_steps_of_a_job_may_ask, answers_are_counted_once_each_and_wake_the_job);
