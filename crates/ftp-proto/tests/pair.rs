//! Our client against our server over files in memory, cut at every byte.

mod common;

use std::net::SocketAddr;

use common::model::{Model, now};
use entrepot_ftp_proto::client::{
    Account, Client, Event, Fault, Form, Mode, Moves, Op, Parser, RemoteEntry, Tls,
};
use entrepot_ftp_proto::{Settings, Time, TlsMode};

fn peer() -> SocketAddr {
    "127.0.0.1:40000".parse().unwrap()
}

/// Cuts a stream at one place, in bytes from its beginning.
#[derive(Clone, Default)]
struct Cut {
    at: Option<usize>,
    passed: usize,
}

impl Cut {
    fn pieces<'a>(&mut self, bytes: &'a [u8]) -> [&'a [u8]; 2] {
        let inside = self.at.and_then(|at| at.checked_sub(self.passed));
        self.passed += bytes.len();
        bytes.split_at(inside.unwrap_or(0).min(bytes.len())).into()
    }
}

/// Both machines, the wire between them, and the client's adapter.
struct Pair {
    client: Client,
    model: Model,
    up: Cut,
    down: Cut,
    abort: bool,
    told: Vec<String>,
    entries: Vec<RemoteEntry>,
    got: Vec<u8>,
}

impl Pair {
    fn new(account: Account, settings: Settings) -> Pair {
        let mut model = Model::new(settings);
        model.files.insert("/a".into(), b"0123456789".to_vec());
        model.files.insert("/d/f".into(), b"x".to_vec());
        model.directories.insert("/d".into());
        Pair {
            client: Client::new(account, peer()),
            model,
            up: Cut::default(),
            down: Cut::default(),
            abort: false,
            told: Vec::new(),
            entries: Vec::new(),
            got: Vec::new(),
        }
    }

    /// Passes bytes to and fro until neither side has any.
    fn run(&mut self) -> Result<(), Fault> {
        self.model.run();
        loop {
            while let Some(event) = self.client.poll_event()? {
                self.react(event);
            }
            let up = self.client.output().to_vec();
            self.client.written(up.len());
            for piece in self.up.clone().pieces(&up) {
                self.model.receive(piece);
            }
            self.up.passed += up.len();
            let down = std::mem::take(&mut self.model.wire);
            if up.is_empty() && down.is_empty() {
                return Ok(());
            }
            for piece in self.down.pieces(&down) {
                self.client.receive(piece);
                while let Some(event) = self.client.poll_event()? {
                    self.react(event);
                }
            }
        }
    }

    fn react(&mut self, event: Event) {
        self.told.push(format!("{event:?}"));
        match event {
            Event::StartTls => self.client.tls_stands(),
            Event::Listen { .. } => self.client.listening("127.0.0.1:50000".parse().unwrap()),
            Event::Transfer(_) if self.abort => self.client.abort(),
            Event::Transfer(moves) => {
                let bytes = std::mem::take(&mut self.model.download);
                let form = match moves {
                    Moves::Facts => Some(Form::Facts),
                    Moves::Long => Some(Form::Long { now: now() }),
                    Moves::Download | Moves::Upload => None,
                };
                if let Some(form) = form {
                    let mut parser = Parser::new(form);
                    parser.push(&bytes, &mut self.entries).unwrap();
                    self.entries.extend(parser.finish());
                } else {
                    self.got.extend(bytes);
                }
                self.client.data_moved();
            }
            _ => {}
        }
    }

    fn op(&mut self, op: Op) -> Result<(), Fault> {
        self.client.begin(op).unwrap();
        self.run()
    }

    fn last(&self) -> &str {
        self.told.last().unwrap()
    }
}

fn path(text: &str) -> String {
    text.to_owned()
}

/// A session that does everything; what it told.
fn everything(account: Account, settings: Settings, cuts: (Option<usize>, Option<usize>)) -> Pair {
    let mut pair = Pair::new(account, settings);
    (pair.up.at, pair.down.at) = cuts;
    pair.run().unwrap();
    pair.model.upload = b"new".to_vec();
    let ops = [
        Op::Size(path("a")),
        Op::Retrieve { path: path("a"), offset: 0 },
        Op::Retrieve { path: path("a"), offset: 7 },
        Op::Retrieve { path: path("none"), offset: 0 },
        Op::Store { path: path("b c"), offset: 0 },
        Op::Append { path: path("b c") },
        Op::Store { path: path("a"), offset: 5 },
        Op::List { path: path("/d") },
        Op::List { path: path("/none") },
        Op::Entry(path("d")),
        Op::SetModified(path("a"), Time::from_seconds(1_577_836_800)),
        Op::Modified(path("a")),
        Op::Rename { from: path("a"), to: path("ä\"b") },
        Op::Rename { from: path("a"), to: path("x") },
        Op::MakeDir(path("m")),
        Op::ChangeDir(path("m")),
        Op::Delete(path("none")),
        Op::RemoveDir(path("/m")),
        Op::Noop,
        Op::Quit,
    ];
    for op in ops {
        pair.op(op).unwrap();
    }
    pair
}

fn server() -> Settings {
    Settings::new(peer(), "127.0.0.1:21".parse().unwrap())
}

#[test]
fn everything_works_between_the_two() {
    let pair = everything(Account::new("alice", "secret"), server(), (None, None));
    let done: Vec<&str> = pair
        .told
        .iter()
        .map(String::as_str)
        .filter(|told| told.starts_with("Done") || told.starts_with("Failed"))
        .collect();
    let [login, size, .., quit] = done.as_slice() else { panic!("{done:?}") };
    assert!(login.contains("mlst: true") && login.contains("utf8: true"), "{login}");
    assert_eq!((*size, *quit), ("Done(Size(10))", "Done(Done)"));
    let failed: Vec<&&str> = done.iter().filter(|told| told.starts_with("Failed")).collect();
    assert_eq!(failed.len(), 4, "{failed:#?}");
    assert_eq!(pair.got, b"0123456789789");
    assert_eq!(pair.entries.len(), 1);
    assert_eq!((pair.entries[0].name.as_str(), pair.entries[0].size), ("f", Some(1)));
    assert_eq!(pair.model.files["/ä\"b"], b"01234");
    assert_eq!(pair.model.files["/b c"], b"new");
    assert!(pair.told.iter().any(|told| told.contains("Modified(Time { seconds: 1577836800")));
    assert!(pair.told.iter().any(|told| told.contains("Entry(RemoteEntry { name: \"/d\"")));
}

#[test]
fn no_cut_changes_anything() {
    let account = Account::new("alice", "secret");
    let whole = everything(account.clone(), server(), (None, None));
    for at in 0..whole.up.passed.max(whole.down.passed) {
        let cut = everything(account.clone(), server(), (Some(at), Some(at)));
        assert_eq!(cut.told, whole.told, "cut at {at}");
        assert_eq!((&cut.got, &cut.entries), (&whole.got, &whole.entries), "cut at {at}");
        assert_eq!(cut.model.files, whole.model.files, "cut at {at}");
    }
}

#[test]
fn tls_comes_before_the_password_and_no_cut_changes_that() {
    let mut settings = server();
    settings.tls = TlsMode::Explicit;
    settings.require_tls = true;
    settings.protect_data = true;
    let account = Account { tls: Tls::Explicit, ..Account::new("alice", "secret") };
    let whole = everything(account.clone(), settings.clone(), (None, None));
    assert_eq!(whole.told[0], "StartTls");
    assert!(
        whole.told.iter().any(|told| told.contains("Connect") && told.contains("protected: true"))
    );
    // The login and what goes before it.
    for at in 0..300 {
        let cut = everything(account.clone(), settings.clone(), (Some(at), Some(at)));
        assert_eq!(cut.told, whole.told, "cut at {at}");
    }
}

#[test]
fn active_mode() {
    let account = Account { mode: Mode::Active, ..Account::new("alice", "secret") };
    let pair = everything(account, server(), (None, None));
    assert!(pair.told.iter().any(|told| told.starts_with("Listen")));
    assert_eq!(pair.got, b"0123456789789");
}

#[test]
fn logins_of_all_kinds() {
    for (user, password, last) in [
        ("alice", "secret", "Done(LoggedIn"),
        ("alice", "wrong", "Failed(Refused(Reply { code: 530"),
        ("cert", "", "Done(LoggedIn"),
        ("accounted", "secret", "Failed(AccountNeeded)"),
        ("home", "secret", "Done(LoggedIn"),
    ] {
        let mut settings = server();
        settings.ask_user = true;
        let mut pair = Pair::new(Account::new(user, password), settings);
        pair.run().unwrap();
        assert!(pair.last().starts_with(last), "{user}: {}", pair.last());
    }
    let account = Account::new("accounted", "secret").with_account("red");
    let mut pair = Pair::new(Account { negotiate: false, ..account }, server());
    pair.run().unwrap();
    assert!(pair.last().starts_with("Done(LoggedIn"));
    assert_eq!(pair.told.len(), 1, "nothing was asked besides");
}

#[test]
fn credentials_that_break_lines_are_never_sent() {
    for account in [
        Account::new("a\r\nUSER alice", "secret"),
        Account::new("alice", "secret\nDELE a"),
        Account::new("accounted", "secret").with_account("red\rx"),
    ] {
        let mut pair = Pair::new(account, server());
        pair.run().unwrap();
        assert_eq!(pair.last(), "Failed(Credential)");
        assert!(pair.client.begin(Op::Noop).is_err(), "the login failed");
    }
}

#[test]
fn an_aborted_transfer_leaves_the_connection_usable() {
    let mut pair = Pair::new(Account::new("alice", "secret"), server());
    pair.run().unwrap();
    (pair.model.hold, pair.abort) = (true, true);
    pair.op(Op::Retrieve { path: path("a"), offset: 0 }).unwrap();
    assert_eq!(pair.last(), "Failed(Aborted)");
    (pair.model.hold, pair.abort) = (false, false);
    pair.op(Op::Retrieve { path: path("a"), offset: 0 }).unwrap();
    assert_eq!((pair.last(), pair.got.as_slice()), ("Done(Transferred)", &b"0123456789"[..]));
}

/// A server by hand: what it says, and what the client then does.
fn scripted(account: Account, steps: &[(&str, &str)], op: Option<Op>) -> Vec<String> {
    let mut client = Client::new(account, peer());
    let (mut told, mut op) = (Vec::new(), op);
    for (says, want) in steps {
        client.receive(says.as_bytes());
        loop {
            match client.poll_event() {
                Ok(Some(event)) => {
                    told.push(format!("{event:?}"));
                    match event {
                        Event::Done(_) if op.is_some() => client.begin(op.take().unwrap()).unwrap(),
                        Event::Transfer(_) => client.data_moved(),
                        Event::StartTls => client.tls_stands(),
                        Event::Listen { .. } => {
                            client.listening("127.0.0.1:50000".parse().unwrap())
                        }
                        _ => {}
                    }
                }
                Ok(None) => break,
                Err(fault) => {
                    told.push(format!("Fault: {fault}"));
                    break;
                }
            }
        }
        assert_eq!(String::from_utf8_lossy(client.output()), *want, "after {says}");
        client.written(usize::MAX);
    }
    told
}

fn bare() -> Account {
    Account { negotiate: false, ..Account::new("u", "p") }
}

const LOGIN: [(&str, &str); 2] = [("220 hi\r\n", "USER u\r\n"), ("331 p\r\n", "PASS p\r\n")];

#[test]
fn old_servers_are_served() {
    let steps = [
        LOGIN[0],
        LOGIN[1],
        ("230 in\r\n", "TYPE I\r\n"),
        ("200 I\r\n", "EPSV\r\n"),
        ("500 what?\r\n", "PASV\r\n"),
        ("227 =192,0,2,9,200,1\r\n", "MLSD /x\r\n"),
        ("502 no\r\n", "CWD /x\r\n"),
        ("250 there\r\n", "PASV\r\n"),
        ("227 ok (192,0,2,9,200,2)\r\n", "LIST -a\r\n"),
        ("125 go\r\n226 done\r\n", ""),
    ];
    let told = scripted(bare(), &steps, Some(Op::List { path: path("/x") }));
    assert_eq!(
        told[1..],
        [
            "Connect { address: 127.0.0.1:51201, protected: false }",
            "DropData",
            "Connect { address: 127.0.0.1:51202, protected: false }",
            "Transfer(Long)",
            "Done(Transferred)"
        ]
    );
}

#[test]
fn old_active_servers_are_served() {
    let account = Account { mode: Mode::Active, ..bare() };
    let steps = [
        LOGIN[0],
        LOGIN[1],
        ("230 in\r\n", "TYPE I\r\n"),
        ("200 I\r\n", "EPRT |1|127.0.0.1|50000|\r\n"),
        ("502 no\r\n", "PORT 127,0,0,1,195,80\r\n"),
        ("200 ok\r\n", "REST 9\r\n"),
        ("350 ok\r\n", "RETR f\r\n"),
        ("150 go\r\n", ""),
        ("426 cut\r\n", ""),
    ];
    let told = scripted(account, &steps, Some(Op::Retrieve { path: path("f"), offset: 9 }));
    assert!(told.last().unwrap().starts_with("Failed(Refused(Reply { code: 426"), "{told:?}");
}

/// vsftpd keeps the offset of a download that it refused, and begins the next upload there.
#[test]
fn an_offset_that_was_not_used_is_taken_back() {
    let mut client = Client::new(bare(), peer());
    let said = |client: &mut Client, says: &str| {
        client.receive(says.as_bytes());
        while let Some(event) = client.poll_event().unwrap() {
            if let Event::Transfer(_) = event {
                client.data_moved();
            }
        }
        let out = String::from_utf8(client.output().to_vec()).unwrap();
        client.written(out.len());
        out
    };
    let login = [LOGIN[0], LOGIN[1], ("230 in\r\n", "")];
    login.iter().for_each(|(says, _)| drop(said(&mut client, says)));
    let refused = vec![
        ("", "TYPE I\r\n"),
        ("200 I\r\n", "EPSV\r\n"),
        ("229 ok (|||50001|)\r\n", "REST 9\r\n"),
        ("350 ok\r\n", "RETR f\r\n"),
        ("550 no\r\n", ""),
    ];
    let taken_back = vec![
        ("", "EPSV\r\n"),
        ("229 ok (|||50001|)\r\n", "REST 0\r\n"),
        ("350 ok\r\n", "STOR g\r\n"),
        ("150 go\r\n226 done\r\n", ""),
    ];
    let as_usual = vec![("", "EPSV\r\n"), ("229 ok (|||50001|)\r\n", "STOR h\r\n")];
    for (op, steps) in [
        (Op::Retrieve { path: path("f"), offset: 9 }, refused),
        (Op::Store { path: path("g"), offset: 0 }, taken_back),
        (Op::Store { path: path("h"), offset: 0 }, as_usual),
    ] {
        client.begin(op).unwrap();
        for (says, want) in steps {
            assert_eq!(said(&mut client, says), want);
        }
    }
}

#[test]
fn what_a_server_must_not_do_ends_the_connection() {
    let tls = Account { tls: Tls::Explicit, ..bare() };
    let slow = "120 wait\r\n".repeat(17);
    for (account, steps, fault) in [
        (bare(), vec![("421 full\r\n", "")], "the server closes: full"),
        (bare(), vec![LOGIN[0], ("230 in\r\n", ""), ("226 more\r\n", "")], "an unexpected 226"),
        (bare(), vec![("hello\r\n", "")], "'hello', which is no reply"),
        (bare(), vec![(slow.as_str(), "")], "an unexpected 120"),
        (tls.clone(), vec![("220 hi\r\n", "AUTH TLS\r\n"), ("500 no\r\n", "")], "not offer TLS"),
        (
            tls,
            vec![("220 hi\r\n", "AUTH TLS\r\n"), ("234 go\r\n331 now\r\n", "")],
            "clear text behind its 234",
        ),
    ] {
        let told = scripted(account, &steps, None);
        assert!(told.last().unwrap().contains(fault), "{told:?}");
    }
}

#[test]
fn names_that_break_lines_are_never_sent() {
    let mut pair = Pair::new(Account::new("alice", "secret"), server());
    pair.run().unwrap();
    for name in ["a\r\nDELE b", "a\nb", "a\0", &"a".repeat(256)] {
        assert!(pair.client.begin(Op::Delete(name.to_owned())).is_err(), "{name:?}");
    }
    assert_eq!(pair.told.len(), 1);
    assert!(matches!(pair.client.begin(Op::Noop), Ok(())));
    assert!(pair.client.begin(Op::Noop).is_err(), "two at a time");
}
