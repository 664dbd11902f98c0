//! Programs of rules, and rules that clients wait for. Real programs take real time, so the clock
//! of the runtime is not stopped here.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;

use entrepot_nouns::noun::Noun as _;
use entrepot_nouns::rule::Retry;
use entrepot_nouns::{CommandOrigin, CommandProtocol, Fact, Job, JobId, JobState, Rule, StepState};
use entrepot_vfs::{
    CommandAuthor, CommandClient, CommandNotRun, CommandRefusal, CommandReply, Hooks,
    IncomingCommand, RefusalClass, RunningCommand,
};
use serde_json::json;

use super::world::{SITE, World, content, files, memory_store, name};

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
    at_its_end(world, job).await
}

async fn at_its_end(world: &World, job: JobId) -> Job {
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
    let Fact::ProgramEnded { program } = &told[0].fact else { panic!("{told:?}") };
    assert_eq!((told.len(), program.done, program.how.as_str()), (1, true, "exit code 1"));
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

/// The file that a program makes is the one that later steps work on.
#[tokio::test]
async fn the_output_of_a_program_is_the_file_of_later_steps() {
    let mut world = World::new(731).await;
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let sh = |script: &str, more: serde_json::Value| {
        let mut exec = json!({"argv": ["/bin/sh", "-c", script], "stdin": "file",
            "stdout": "file", "name": "{stem}.up"});
        exec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut made = rule(json!({
            "name": "r", "when": {"event": "file.uploaded"}, "do": [
                {"name": "made", "exec": exec},
                {"deliver": {"endpoint": "out", "path": "{name}.{steps.made.code}"}},
            ],
        }));
        crate::check_rule(&made).unwrap();
        made.retry = Retry { attempts: 1, ..Retry::default() };
        made
    };
    world.start();
    // More than is kept of an output, and than a pipe holds.
    let bytes = content(20, 5);
    let mut tried = async |rule: Rule, name: &str| {
        world.put(&rule).await;
        let event = world.upload(&format!("/in/{name}"), &bytes).await;
        let job = world.job_of(&event, "r").await;
        at_its_end(&world, job).await
    };
    let job = tried(sh("cat; echo said >&2; exit 1", json!({})), "a.txt").await;
    assert_eq!((job.state, &job.error), (JobState::Done, &None));
    let job = tried(sh("exec cat; exit 3", json!({})), "b").await;
    assert_eq!((job.state, &job.error), (JobState::Done, &None));
    let job = tried(sh("true", json!({})), "empty").await;
    assert_eq!((job.state, &job.error), (JobState::Done, &None));
    for (script, more, wanted) in [
        ("cat; echo no >&2; exit 3", json!({"exit": {"3": "fail"}}), "EP0824: exit code 3: no"),
        ("cat /dev/zero", json!({"output_mib": 3}), "EP0871: it wrote more than 3 MiB"),
        ("setsid sleep 20 & cat", json!({}), "EP0819: it has ended, and something"),
    ] {
        let job = tried(sh(script, more), "c").await;
        let error = job.error.clone().unwrap_or_default();
        assert!(job.state == JobState::Failed && error.starts_with(wanted), "{job:?}");
    }
    let found = files(&out).await;
    let names = ["a.up.1", "b.up.0", "empty.up.0"];
    assert_eq!(found.keys().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(names));
    assert!(found["a.up.1"] == bytes && found["b.up.0"] == bytes);
    assert!(found["empty.up.0"].is_empty());
}

#[test]
fn an_output_that_is_the_file_goes_with_what_it_is_said_of() {
    for (exec, more, field) in [
        (json!({"name": "a"}), json!({}), "do.0.exec.stdout"),
        (json!({"output_mib": 1, "stdout": "text"}), json!({}), "do.0.exec.stdout"),
        (json!({"output_mib": 0, "stdout": "file"}), json!({}), "do.0.exec.output_mib"),
        (json!({"stdout": "file"}), json!({"after_crash": "ask"}), "do.0.after_crash"),
        (json!({"name": "{nme}", "stdout": "file"}), json!({}), "do.0.exec.name"),
    ] {
        let mut step = json!({"exec": {"argv": ["/bin/true"]}});
        step["exec"].as_object_mut().unwrap().extend(exec.as_object().unwrap().clone());
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let rule = json!({"name": "r", "when": {"event": "file.uploaded"}, "do": [step]});
        let rule: Rule = serde_json::from_value(rule).unwrap();
        let checked = rule.check().and_then(|()| crate::check_rule(&rule));
        assert_eq!(checked.unwrap_err().field, field, "{exec}");
    }
}

/// A client of FTP that has not logged in, and never leaves.
struct Client;

impl CommandClient for Client {
    type Gone = Infallible;

    fn origin(&self) -> CommandOrigin {
        let (protocol, address) = (CommandProtocol::Ftp, "192.0.2.7".to_owned());
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

pub(super) async fn before(
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
    assert!(!hooks.are_any(SITE, CommandProtocol::Ftp));
    before(&hooks, "DELE", "/in/a").await.expect("no engine answers yet");
    world.start();
    world.answer(hooks.clone());
    // What is not known is not let pass.
    let early = before(&hooks, "NOOP", "/").await;
    assert!(hooks.are_any(SITE, CommandProtocol::Ftp));
    assert!(early.is_ok() || early.is_err_and(|refused| refused.class == RefusalClass::RuleFailed));
    world.engine().ready().await;
    assert!(!hooks.are_any(SITE, CommandProtocol::Sftp));
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

#[tokio::test]
async fn an_exit_code_says_what_the_rule_says_of_it() {
    let exit = |code: u8| json!(["/bin/sh", "-c", format!("echo said >&2; exit {code}")]);
    let said = json!({"exit": {"0": "fail", "3": "done", "75": "retry", "*": "fail"}});
    for (seed, code, wanted) in [
        (720, 3, Ok(())),
        (721, 0, Err("EP0824: exit code 0: said")),
        (722, 75, Err("EP0824: exit code 75: said")),
        (723, 9, Err("EP0824: exit code 9: said")),
    ] {
        let mut world = World::new(seed).await;
        let job = ended(&mut world, exit(code), said.clone()).await;
        assert_eq!(job.error.as_deref().map_or(Ok(()), Err), wanted);
    }
    // The one attempt of these rules hides the difference; many show it.
    for (seed, code, attempts) in [(724, 75, 2), (725, 9, 1)] {
        let mut world = World::new(seed).await;
        let exec = json!({"exec": {"argv": exit(code), "exit": {"75": "retry", "*": "fail"}}});
        let mut made = rule(json!({"name": "r", "when": {"event": "file.uploaded"}, "do": [exec]}));
        made.retry = Retry { attempts: 2, first_delay_seconds: 0, ..Retry::default() };
        world.put(&made).await;
        let event = world.upload("/in/a", b"a").await;
        let id = world.job_of(&event, "r").await;
        world.start();
        let job = at_its_end(&world, id).await;
        assert_eq!(job.attempts, attempts, "{code}");
    }
}

#[tokio::test]
async fn what_a_program_writes_is_there_for_later_steps() {
    let program = |stdout: &str, script: &str| {
        let argv = ["/bin/sh", "-c", script];
        json!({"name": "ask", "exec": {"argv": argv, "stdout": stdout}})
    };
    let big = "head -c 70000 /dev/zero | tr '\\0' x";
    for (seed, step, that, wanted) in [
        (
            730,
            program("json", "echo '[1, 2]'; exit 1"),
            "steps.ask.out.size() == 2 && steps.ask.code == 1",
            None,
        ),
        (731, program("text", "echo; echo 'a b'; echo"), "steps.ask.out == '\\na b'", None),
        (732, program("json", "echo no"), "true", Some("EP0819: ")),
        (733, program("text", "printf '\\377'"), "true", Some("is no UTF-8")),
        (734, program("text", big), "true", Some("more than 65536 bytes")),
    ] {
        let mut world = World::new(seed).await;
        let check = json!({"check": {"that": that, "message": "{steps.ask.out}"}});
        let made = rule(json!({
            "name": "r", "when": {"event": "file.uploaded"}, "do": [step, check],
        }));
        world.put(&made).await;
        let event = world.upload("/in/a", b"a").await;
        let id = world.job_of(&event, "r").await;
        world.start();
        let job = at_its_end(&world, id).await;
        match wanted {
            None => assert_eq!((job.state, &job.error), (JobState::Done, &None)),
            Some(said) => {
                assert_eq!((job.state, job.attempts), (JobState::Failed, 1));
                assert!(job.error.as_ref().unwrap().contains(said), "{:?}", job.error);
            }
        }
    }
}

/// A job whose node dies while its program runs, as `after_crash` says; how often it ran.
async fn dies_within(seed: u64, after_crash: &str) -> (World, JobId, std::path::PathBuf) {
    let mut world = World::new(seed).await;
    let ran = world.bed.folder().join("ran");
    let script = "echo x >> \"$1\"; [ $(wc -l < \"$1\") -gt 1 ] || sleep 3000";
    let argv = ["/bin/sh", "-c", script, "sh", ran.to_str().unwrap()];
    let exec = json!({"exec": {"argv": argv, "timeout_seconds": 3600},
        "after_crash": after_crash});
    let steps = json!([exec, {"exec": {"argv": ["/bin/true"]}}]);
    let made = rule(json!({"name": "r", "when": {"event": "file.uploaded"}, "do": steps}));
    world.put(&made).await;
    let event = world.upload("/in/a", b"a").await;
    let id = world.job_of(&event, "r").await;
    world.start();
    while !std::fs::read(&ran).is_ok_and(|lines| lines == b"x\n") {
        tokio::task::yield_now().await;
    }
    world.kill().await;
    world.start();
    (world, id, ran)
}

#[tokio::test]
async fn a_program_of_a_node_that_died_runs_again_only_if_the_rule_says_so() {
    let lines = |path: &std::path::Path| std::fs::read_to_string(path).unwrap().lines().count();
    let (world, id, ran) = dies_within(740, "run").await;
    let job = at_its_end(&world, id).await;
    assert_eq!((job.state, lines(&ran)), (JobState::Done, 2));

    let (world, id, ran) = dies_within(741, "skip").await;
    let job = at_its_end(&world, id).await;
    assert_eq!((job.state, lines(&ran)), (JobState::Done, 1));
    let steps = world.db.job_steps(id).await.unwrap();
    let states: Vec<_> = steps.iter().map(|step| step.state).collect();
    assert_eq!(states, [StepState::Begun, StepState::Skipped, StepState::Done]);

    let (world, id, ran) = dies_within(742, "ask").await;
    let job = at_its_end(&world, id).await;
    assert!(job.error.as_ref().unwrap().starts_with("EP0844: it was begun"), "{:?}", job.error);
    assert_eq!((job.state, lines(&ran)), (JobState::Failed, 1));
    // Whoever looked into it lets it run again.
    let mut tx = world.db.begin().await.unwrap();
    assert!(tx.retry_job(SITE, id, world.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    world.engine().wake();
    while world.db.job(SITE, id).await.unwrap().unwrap().state != JobState::Done {}
    assert_eq!(lines(&ran), 2);
}

#[test]
fn only_steps_that_nobody_can_look_at_have_something_to_do_after_a_crash() {
    let made = |step: serde_json::Value, when: serde_json::Value| -> Result<(), String> {
        let rule = json!({"name": "r", "when": when, "do": [step]});
        let rule: Rule = serde_json::from_value(rule).unwrap();
        rule.check().map_err(|error| error.field)
    };
    let exec = json!({"exec": {"argv": ["/bin/true"]}, "after_crash": "skip"});
    let moved = json!({"move": {"to": "/x"}, "after_crash": "ask"});
    let upload = json!({"event": "file.uploaded"});
    assert_eq!(made(exec.clone(), upload.clone()), Ok(()));
    assert_eq!(made(moved, upload), Err("do.0.after_crash".to_owned()));
    assert_eq!(made(exec, json!({"before": ["ftp STOR"]})), Err("do.0.after_crash".to_owned()));
}
