//! Rules on the commands of a client, whatever its protocol.

use std::sync::Arc;
use std::time::Duration;

use entrepot_journal::{Journal, Options, Recorder};
use entrepot_nouns::{CommandFact, CommandOrigin, CommandProtocol, Env, Fact, SiteId};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::{name, path};
use crate::{
    CommandAuthor, CommandClient, CommandNotRun, CommandRefusal, CommandReply, CommandRuleWatch,
    Hook, Hooks, IncomingCommand, Moment, RefusalClass, RuleQuestion, RunningCommand,
};

/// A client of a protocol in which a refusal is 40 and up.
#[derive(Default)]
struct Client {
    gone: CancellationToken,
    ended: CancellationToken,
    /// Shared once more while a server that stops waits for the client.
    held: Arc<()>,
}

impl Client {
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.held) > 1
    }
}

impl CommandClient for Client {
    type Gone = &'static str;

    fn origin(&self) -> CommandOrigin {
        let (protocol, address) = (CommandProtocol::Ftp, "192.0.2.7".to_owned());
        CommandOrigin { protocol, listener: name("l"), address }
    }

    fn author(&self) -> CommandAuthor {
        CommandAuthor::anonymous(SiteId::MAIN)
    }

    fn hold_drain(&self) -> impl Send {
        Arc::clone(&self.held)
    }

    async fn gone(&self) -> &'static str {
        self.gone.cancelled().await;
        "gone"
    }

    async fn session_ended(&self) -> &'static str {
        self.ended.cancelled().await;
        "ended"
    }

    fn code(&self, refusal: &CommandRefusal) -> u16 {
        match refusal.class {
            RefusalClass::Denied => 40,
            RefusalClass::NotNow => 41,
            RefusalClass::RuleFailed => 42,
        }
    }
}

/// Rules that look at every command, and the questions about them.
struct World {
    hooks: Hooks,
    env: Env,
    journal: Journal,
    questions: Receiver<RuleQuestion>,
    client: Client,
    _folder: tempfile::TempDir,
}

fn hook(site: SiteId, moment: Moment) -> Hook {
    let commands = vec!["ftp *".parse().unwrap()];
    Hook { site, moment, commands, limit: Duration::from_secs(60) }
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let (env, node) = (Env::simulated(9), name("n1"));
    let (journal, _) =
        Journal::open(folder.path(), &node, env.clone(), Options::default()).unwrap();
    let hooks = Hooks::new(Recorder::new(journal.clone(), env.clone(), node));
    let questions = hooks.attach().unwrap();
    hooks.set([Moment::Before, Moment::Reply].map(|it| hook(SiteId::MAIN, it)).into());
    World { hooks, env, journal, questions, client: Client::default(), _folder: folder }
}

fn refusal(class: RefusalClass) -> CommandRefusal {
    CommandRefusal { class, text: "No.".to_owned(), rule: None, ftp_code: Some(553) }
}

fn rename() -> IncomingCommand {
    IncomingCommand::writing("RNTO", "b", Some(&path("/b"))).and(Some(&path("/a")))
}

fn asked(question: &RuleQuestion) -> CommandFact {
    question.event.fact.command().unwrap().clone()
}

impl World {
    /// A command that the rules let pass.
    async fn pass(&mut self, command: IncomingCommand) -> RunningCommand {
        let asking = self.hooks.before(&self.client, command);
        let answering = async {
            let question = self.questions.recv().await.unwrap();
            question.answer.send(Ok(())).unwrap();
        };
        let (passed, ()) = tokio::join!(asking, answering);
        passed.unwrap_or_else(|_| panic!("the rule let it pass"))
    }

    /// The refusals that were recorded: path and code.
    async fn refusals(&self) -> Vec<(Option<String>, Option<u16>)> {
        self.journal.sync(self.journal.usage().appended).await.unwrap();
        let events = entrepot_testbed::events(&self.journal).into_iter();
        let refused = events.filter_map(|event| match event.fact {
            Fact::CommandRefused { command, .. } => Some((command.path, command.code)),
            _ => None,
        });
        refused.collect()
    }
}

#[tokio::test]
async fn each_path_is_asked_about_and_a_refusal_is_recorded_as_the_client_gets_it() {
    let mut world = world();
    let asking = world.hooks.before(&world.client, rename());
    let answering = async {
        let new = world.questions.recv().await.unwrap();
        assert_eq!(asked(&new).path.as_deref(), Some("/b"));
        assert!(world.client.is_held(), "a server that stops waits for the answer");
        new.answer.send(Ok(())).unwrap();
        let old = world.questions.recv().await.unwrap();
        assert_eq!(asked(&old).path.as_deref(), Some("/a"));
        old.answer.send(Err(refusal(RefusalClass::NotNow))).unwrap();
    };
    let (refused, ()) = tokio::join!(asking, answering);
    let Err(CommandNotRun::Refused(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!(refused, refusal(RefusalClass::NotNow));
    assert_eq!(world.refusals().await, [(Some("/a".to_owned()), Some(41))]);
    assert!(!world.client.is_held());
}

#[tokio::test]
async fn a_command_whose_client_leaves_is_given_up_and_no_refusal_is_recorded() {
    let mut world = world();
    let asking = world.hooks.before(&world.client, rename());
    let leaving = async {
        let question = world.questions.recv().await.unwrap();
        world.client.gone.cancel();
        question
    };
    let (given_up, mut question) = tokio::join!(asking, leaving);
    assert!(matches!(given_up, Err(CommandNotRun::ClientGone("gone"))), "{given_up:?}");
    question.answer.closed().await;
    assert_eq!(world.refusals().await, []);
}

#[tokio::test]
async fn only_a_reply_that_may_change_is_replaced_and_it_waits_for_the_session_alone() {
    let mut world = world();
    for (is_replaceable, wanted) in [(true, Some(refusal(RefusalClass::Denied))), (false, None)] {
        let command = world.pass(IncomingCommand::reading("CWD", "d", Some(&path("/d")))).await;
        world.client.gone.cancel();
        let reply = CommandReply { code: 250, is_replaceable };
        let informing = world.hooks.after(&world.client, command, reply);
        let answering = async {
            let question = world.questions.recv().await.unwrap();
            assert_eq!((question.moment, asked(&question).code), (Moment::Reply, Some(250)));
            assert!(world.client.is_held());
            question.answer.send(Err(refusal(RefusalClass::Denied))).unwrap();
        };
        assert_eq!(tokio::join!(informing, answering).0, Ok(wanted));
        world.client.gone = CancellationToken::new();
    }
    let command = world.pass(IncomingCommand::reading("CWD", "d", None)).await;
    world.client.ended.cancel();
    let reply = CommandReply { code: 250, is_replaceable: true };
    assert_eq!(world.hooks.after(&world.client, command, reply).await, Err("ended"));
    assert_eq!(
        world.questions.recv().await.unwrap().moment,
        Moment::Reply,
        "it was asked all the same"
    );
    assert_eq!(world.refusals().await, [], "the command has run");
}

#[tokio::test]
async fn a_command_lasts_from_its_arrival_to_its_reply() {
    let mut world = world();
    let asking = world.hooks.before(&world.client, IncomingCommand::reading("CWD", "d", None));
    let answering = async {
        let question = world.questions.recv().await.unwrap();
        world.env.advance(Duration::from_millis(300));
        question.answer.send(Ok(())).unwrap();
    };
    let (passed, ()) = tokio::join!(asking, answering);
    world.env.advance(Duration::from_millis(20));
    let reply = CommandReply { code: 250, is_replaceable: true };
    let informing = world.hooks.after(&world.client, passed.unwrap(), reply);
    let answering = async {
        let question = world.questions.recv().await.unwrap();
        assert_eq!(asked(&question).duration_ms, Some(320));
        question.answer.send(Ok(())).unwrap();
    };
    assert_eq!(tokio::join!(informing, answering).0, Ok(None));
}

#[tokio::test]
async fn a_watch_notices_rules_and_follows_its_site() {
    let world = world();
    let mut watch = CommandRuleWatch::new(world.hooks.clone(), CommandProtocol::Ftp, SiteId::MAIN);
    assert!(!watch.are_any(), "nothing was looked at");
    assert!(watch.refresh() && watch.are_any());
    let elsewhere = SiteId(uuid::Uuid::from_u128(7));
    watch.set_site(elsewhere);
    assert!(!watch.refresh());
    world.hooks.set(vec![hook(elsewhere, Moment::Done)]);
    assert!(watch.refresh());
    let mut sftp = CommandRuleWatch::new(world.hooks.clone(), CommandProtocol::Sftp, elsewhere);
    assert!(!sftp.refresh());
}

#[tokio::test]
async fn rules_on_one_protocol_cost_the_others_nothing() {
    let world = world();
    let any = |protocol| world.hooks.are_any(SiteId::MAIN, protocol);
    let all = || CommandProtocol::ALL.map(any);
    assert_eq!(all(), [true, false, false, false], "those of this world are on FTP");
    let on = |pattern: &str| Hook {
        commands: vec![pattern.parse().unwrap()],
        ..hook(SiteId::MAIN, Moment::Before)
    };
    for (pattern, wanted) in [
        ("ftp DELE", [true, false, false, false]),
        ("sftp *", [false, true, false, false]),
        ("http write", [false, false, true, false]),
        ("as2 write", [false, false, false, true]),
        ("* *", [true; 4]),
    ] {
        world.hooks.set(vec![on(pattern)]);
        assert_eq!(all(), wanted, "{pattern}");
    }
    world.hooks.set(Vec::new());
    assert_eq!(all(), [false; 4]);
}

#[tokio::test]
async fn a_command_that_goes_on_is_told_of_and_not_asked_about() {
    let mut world = world();
    world.hooks.set(vec![hook(SiteId::MAIN, Moment::Before), hook(SiteId::MAIN, Moment::Reply)]);
    let command = IncomingCommand::writing("STOR", "b", Some(&path("/a")));
    let running = world.hooks.asked_before(&world.client, command);
    assert!(world.questions.try_recv().is_err(), "nobody is asked");
    let reply = CommandReply { code: 226, is_replaceable: true };
    let informing = world.hooks.after(&world.client, running, reply);
    let answering = async {
        let question = world.questions.recv().await.unwrap();
        assert_eq!(question.moment, Moment::Reply);
        assert_eq!(asked(&question).path.as_deref(), Some("/a"));
        question.answer.send(Ok(())).unwrap();
    };
    assert_eq!(tokio::join!(informing, answering).0, Ok(None));
}
