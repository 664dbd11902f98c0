//! Programs of rules, and rules that clients wait for. Real programs take real time, so the clock
//! of the runtime is not stopped here.

use std::convert::Infallible;
use std::future::pending;

use entrepot_nouns::noun::Noun as _;
use entrepot_nouns::rule::Retry;
use entrepot_nouns::{CommandOrigin, Fact, Job, JobState, Protocol, Rule};
use entrepot_vfs::{
    CommandAuthor, CommandClient, CommandNotRun, CommandRefusal, CommandReply, Hooks,
    IncomingCommand, RefusalClass, RunningCommand,
};
use serde_json::json;

use super::world::{SITE, World, content, name};

fn rule(document: serde_json::Value) -> Rule {
    let rule: Rule = serde_json::from_value(document).unwrap();
    rule.check().unwrap();
    rule
}

/// The job of an upload of `bytes` under a rule with this one program, when it has ended.
async fn ended(world: &mut World, argv: serde_json::Value, more: serde_json::Value) -> Job {
    let mut exec = json!({ "argv": argv });
    exec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut made = rule(json!({
        "name": "r", "when": {"event": "file.uploaded"}, "do": [{ "exec": exec }],
    }));
    made.retry = Retry { attempts: 1, ..Retry::default() };
    world.put(&made).await;
    let event = world.upload("/in/a b", &content(2, 5)).await;
    let job = world.job_of(&event, "r").await;
    world.start();
    loop {
        if let Some(job) = world.db.job(SITE, job).await.unwrap()
            && matches!(job.state, JobState::Done | JobState::Failed)
        {
            return job;
        }
    }
}

#[tokio::test]
async fn a_program_reads_the_file_and_gets_each_argument_whole() {
    let mut world = World::new(701).await;
    let out = world.bed.folder().join("out");
    let script = "cat > \"$1\"; printf '%s|' \"$#\" \"$2\" \"$ENTREPOT_SIZE\" >> \"$1\"; exit 1";
    let argv = json!(["/bin/sh", "-c", script, "sh", out.to_str().unwrap(), "{name}"]);
    let job = ended(&mut world, argv, json!({"stdin": "file"})).await;
    assert_eq!((job.state, &job.error), (JobState::Done, &None), "1 is done with a warning");
    let bytes = content(2, 5);
    let mut wanted = bytes.clone();
    wanted.extend_from_slice(format!("2|a b|{}|", bytes.len()).as_bytes());
    assert_eq!(std::fs::read(out).unwrap(), wanted);
    while world.engine().lag().records > 0 {
        world.events("program.ended").await;
    }
    let told = world.events("program.ended").await;
    let Fact::ProgramEnded { done, how, .. } = &told[0].fact else { panic!("{told:?}") };
    assert_eq!((told.len(), done, how.as_str()), (1, &true, "exit code 1"));
    assert_eq!(told[0].job, Some(job.id));
}

#[tokio::test]
async fn programs_that_do_not_end_well_fail_the_step_with_their_words() {
    let sh = |script: &str| json!(["/bin/sh", "-c", script]);
    let none = || json!({});
    for (seed, argv, more, wanted) in [
        (702, sh("echo broken >&2; exit 2"), none(), "EP0824: exit code 2: broken"),
        (703, sh("sleep 31"), json!({"timeout_seconds": 1}), "EP0824: killed, its time was over"),
        (704, json!(["/opt/other/scan"]), none(), "EP0820"),
        (705, json!(["/bin/entrepot-has-no-such"]), none(), "EP0823"),
        (706, json!(["/bin/true", "{file}"]), none(), "EP0825"),
        (707, json!(["/bin/true", "{verb}"]), none(), "EP0812"),
    ] {
        let mut world = World::new(seed).await;
        let job = ended(&mut world, argv, more).await;
        let error = job.error.clone().unwrap_or_default();
        assert!(job.state == JobState::Failed && error.starts_with(wanted), "{job:?}");
    }
}

/// A client of FTP that has not logged in, and never leaves.
struct Client;

impl CommandClient for Client {
    type Gone = Infallible;

    fn origin(&self) -> CommandOrigin {
        let (protocol, address) = (Protocol::Ftp, "192.0.2.7".to_owned());
        CommandOrigin { protocol, listener: name("ftp"), address }
    }

    fn author(&self) -> CommandAuthor {
        CommandAuthor::anonymous(SITE)
    }

    fn hold_drain(&self) -> impl Send {}

    async fn gone(&self) -> Infallible {
        pending().await
    }

    async fn session_ended(&self) -> Infallible {
        pending().await
    }

    fn code(&self, refusal: &CommandRefusal) -> u16 {
        refusal.ftp_code.unwrap_or(451)
    }
}

async fn before(
    hooks: &Hooks,
    verb: &'static str,
    path: &str,
) -> Result<RunningCommand, CommandRefusal> {
    let path = path.parse().unwrap();
    let command = IncomingCommand::writing(verb, "a", Some(&path));
    match hooks.before(&Client, command).await {
        Ok(command) => Ok(command),
        Err(CommandNotRun::Refused(refusal)) => Err(refusal),
        Err(CommandNotRun::ClientGone(never)) => match never {},
    }
}

/// What takes the place of the reply to a STOR.
async fn after_store(hooks: &Hooks, code: u16) -> Option<CommandRefusal> {
    let command = before(hooks, "STOR", "/in/a").await.unwrap();
    let reply = CommandReply { code, is_replaceable: code < 400 };
    match hooks.after(&Client, command, reply).await {
        Ok(refusal) => refusal,
        Err(never) => match never {},
    }
}

#[tokio::test]
async fn commands_are_asked_about_and_nothing_passes_unasked() {
    let mut world = World::new(710).await;
    let refuse = json!([{"refuse": {"code": 553, "text": "No."}}]);
    let program = |code: u8| json!([{"exec": {"argv": ["/bin/sh", "-c", format!("exit {code}")]}}]);
    for document in [
        json!({"name": "a", "when": {"before": ["ftp DELE"]}, "do": refuse.clone(),
               "if": "command.path.startsWith('/in/') && command.ip == '192.0.2.7'"}),
        json!({"name": "b", "when": {"before": ["ftp MKD"]}, "do": program(2)}),
        json!({"name": "c", "when": {"before": ["ftp RMD"]}, "do": program(1)}),
        json!({"name": "d", "when": {"before": ["ftp CWD"]}, "do": refuse.clone(),
               "if": "1 / 0 == 1"}),
        json!({"name": "e", "when": {"before": ["ftp PWD"]}, "do": refuse, "enabled": false}),
        json!({"name": "f", "when": {"after": ["ftp STOR"]}, "if": "command.code == 226",
               "do": [{"exec": {"argv": ["/bin/sh", "-c", "exit 9"], "reply": "wait",
                                "failure_code": 452}}]}),
        json!({"name": "g", "when": {"before": ["ftp SIZE"]},
               "do": [{"refuse": {"code": 450, "text": "Not now."}}]}),
    ] {
        world.put(&rule(document)).await;
    }
    let hooks = Hooks::new(world.recorder.clone());
    assert!(!hooks.are_any(SITE, Protocol::Ftp));
    before(&hooks, "DELE", "/in/a").await.expect("no engine answers yet");
    world.start();
    world.answer(hooks.clone());
    // What is not known is not let pass.
    let early = before(&hooks, "NOOP", "/").await;
    assert!(hooks.are_any(SITE, Protocol::Ftp));
    assert!(early.is_ok() || early.is_err_and(|refused| refused.class == RefusalClass::RuleFailed));
    world.engine().ready().await;
    assert!(!hooks.are_any(SITE, Protocol::Sftp));
    for (verb, path, wanted) in [
        ("DELE", "/in/a", Some((RefusalClass::Denied, Some(553), "a"))),
        ("SIZE", "/in/a", Some((RefusalClass::NotNow, Some(450), "g"))),
        ("DELE", "/out/a", None),
        ("MKD", "/d", Some((RefusalClass::RuleFailed, None, "b"))),
        ("RMD", "/d", None),
        ("CWD", "/d", Some((RefusalClass::RuleFailed, None, "d"))),
        ("PWD", "/d", None),
        ("NOOP", "/d", None),
    ] {
        let answer = before(&hooks, verb, path).await.err();
        let told =
            answer.as_ref().map(|it| (it.class, it.ftp_code, it.rule.as_ref().unwrap().as_str()));
        assert_eq!(told, wanted, "{verb}");
    }
    assert_eq!(after_store(&hooks, 553).await, None);
    let failed = after_store(&hooks, 226).await.unwrap();
    assert_eq!((failed.class, failed.ftp_code), (RefusalClass::NotNow, Some(452)));
    world.stop(std::time::Duration::from_secs(5)).await;
    let unasked = before(&hooks, "DELE", "/out/a").await.unwrap_err();
    assert_eq!((unasked.class, unasked.rule), (RefusalClass::RuleFailed, None));
    before(&hooks, "NOOP", "/out/a").await.expect("no rule looks at it");
}
