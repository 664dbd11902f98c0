//! What transcripts cannot show: limits, order of answers, an adapter that answers nonsense.

use std::time::Duration;

use entrepot_ftp_proto::limits::{KEPT_BYTES, OUTPUT_BYTES};
use entrepot_ftp_proto::{Answer, End, Login, Refusal, Request, Server, Settings, TlsMode, Why};

const ZERO: Duration = Duration::ZERO;

fn settings() -> Settings {
    Settings::new("127.0.0.1:40000".parse().unwrap(), "127.0.0.1:21".parse().unwrap())
}

/// A server with an account logged in and nothing to be written.
fn logged_in(settings: Settings) -> Server {
    let mut server = Server::new(settings, ZERO);
    server.receive(b"USER alice\r\nPASS secret\r\n", ZERO);
    loop {
        match server.poll_request() {
            Some(Request::Before(_)) => server.answer(Answer::Proceed, ZERO),
            Some(Request::Password { .. }) => {
                server.answer(Answer::LoggedIn(Login::at_root()), ZERO);
            }
            Some(_) => {}
            None => break,
        }
    }
    written(&mut server);
    server
}

fn written(server: &mut Server) -> String {
    let text = String::from_utf8(server.output().to_vec()).unwrap();
    server.written(text.len());
    text
}

fn requests(server: &mut Server) -> Vec<Request> {
    std::iter::from_fn(|| server.poll_request()).collect()
}

/// Nothing comes after it that would make the adapter ask once more.
#[test]
fn an_endless_line_closes_the_connection_at_once() {
    for mut server in [Server::new(settings(), ZERO), logged_in(settings())] {
        written(&mut server);
        server.receive(&[b'a'; 8192], ZERO);
        assert_eq!(requests(&mut server), []);
        server.receive(&[b'a'; 100], ZERO);
        assert_eq!(requests(&mut server).first(), Some(&Request::Close));
        assert!(written(&mut server).starts_with("500 "));
    }
}

/// With RETR running.
fn transferring(settings: Settings) -> Server {
    let mut server = logged_in(settings);
    server.receive(b"EPSV\r\nRETR a\r\n", ZERO);
    loop {
        match server.poll_request() {
            Some(Request::Before(_)) => server.answer(Answer::Proceed, ZERO),
            Some(Request::Passive { .. }) => {
                server.answer(Answer::Passive("127.0.0.1:1025".parse().unwrap()), ZERO);
            }
            Some(_) => {}
            None => break,
        }
    }
    let started = Answer::TransferStarted { connected: true, size: None, name: None };
    server.answer(started, ZERO);
    assert!(written(&mut server).ends_with("125 Opening ASCII mode data connection for a\r\n"));
    server
}

#[test]
fn commands_of_a_transfer_are_kept_up_to_a_limit_and_all_run_after_it() {
    let mut server = transferring(settings());
    let mut sent = 0;
    while server.wants_input() {
        server.receive(b"SYST\r\n\r\n", ZERO);
        assert_eq!(requests(&mut server), []);
        sent += 1;
        assert!(sent < KEPT_BYTES, "it never stops reading");
    }
    assert_eq!(written(&mut server), "");
    server.answer(Answer::TransferEnded(End::Complete), ZERO);
    let mut replies = String::new();
    while !server.output().is_empty() {
        replies += &written(&mut server);
        assert_eq!(requests(&mut server), []);
    }
    assert_eq!(replies.matches("215 ").count(), sent);
    assert_eq!(replies.matches("500 ").count(), sent);
    assert!(server.wants_input());
}

#[test]
fn replies_nobody_reads_stop_the_session_and_reading_them_starts_it_again() {
    let mut server = logged_in(settings());
    let mut sent = 0;
    while server.wants_input() {
        server.receive(&b"HELP\r\n".repeat(50), ZERO);
        requests(&mut server);
        sent += 50;
    }
    assert!(server.output().len() < OUTPUT_BYTES + 1000);
    let mut replies = String::new();
    while !server.output().is_empty() {
        replies += &written(&mut server);
        requests(&mut server);
    }
    assert_eq!(replies.matches("214-").count(), sent);
}

#[test]
fn a_transfer_may_end_while_a_hook_thinks() {
    let mut server = transferring(Settings { hooked: true, ..settings() });
    server.receive(b"NOOP\r\nPWD\r\n", ZERO);
    assert!(matches!(server.poll_request(), Some(Request::Before(_))));
    assert_eq!(server.poll_request(), None);
    server.answer(Answer::TransferEnded(End::Complete), ZERO);
    assert_eq!(requests(&mut server), [Request::After { verb: "RETR", code: 226 }]);
    server.answer(Answer::Proceed, ZERO);
    assert_eq!(server.poll_request(), Some(Request::After { verb: "NOOP", code: 200 }));
    assert!(matches!(server.poll_request(), Some(Request::Before(_))));
    server.answer(Answer::Refused(Refusal::told(553, "no\r\n226 yes")), ZERO);
    assert_eq!(requests(&mut server), [Request::After { verb: "PWD", code: 553 }]);
    let replies = written(&mut server);
    assert_eq!(
        replies,
        "226 The transfer is complete.\r\n200 Nothing was done.\r\n553-no?\r\n553 226 yes\r\n"
    );
}

#[test]
fn abor_too_late_is_answered_behind_the_transfer() {
    let mut server = transferring(settings());
    server.receive(b"ABOR\r\nABOR\r\n", ZERO);
    assert_eq!(requests(&mut server), [Request::Abort]);
    server.answer(Answer::TransferEnded(End::Complete), ZERO);
    let replies = written(&mut server);
    let codes: Vec<&str> = replies.lines().map(|line| &line[..3]).collect();
    assert_eq!(codes, ["226", "225", "225"]);
}

#[test]
fn abor_before_the_150_ends_the_transfer() {
    let mut server = logged_in(settings());
    server.receive(b"PORT 127,0,0,1,8,0\r\nSTOR a\r\nABOR\r\n", ZERO);
    let asked = requests(&mut server);
    assert!(matches!(asked.as_slice(), [Request::Store { .. }, Request::Abort]), "{asked:?}");
    server.answer(Answer::TransferEnded(End::Aborted), ZERO);
    let replies = written(&mut server);
    let codes: Vec<&str> = replies.lines().map(|line| &line[..3]).collect();
    assert_eq!(codes, ["200", "426", "226"]);
}

#[test]
fn quit_during_a_transfer_is_noticed() {
    let mut server = transferring(settings());
    assert!(!server.is_quitting());
    server.receive(b"PWD\r\nQUIT\r\nPWD\r\n", ZERO);
    assert_eq!(requests(&mut server), []);
    assert!(server.is_quitting());
    server.answer(Answer::TransferEnded(End::Complete), ZERO);
    assert_eq!(requests(&mut server), [Request::Close]);
    let replies = written(&mut server);
    let codes: Vec<&str> = replies.lines().map(|line| &line[..3]).collect();
    assert_eq!(codes, ["226", "257", "221"]);
    assert!(!server.wants_input() && server.deadline().is_none());
}

#[test]
fn a_long_digest_keeps_the_client_waiting() {
    let mut server = logged_in(settings());
    server.receive(b"HASH a\r\n", ZERO);
    assert_eq!(requests(&mut server).len(), 1);
    server.still_hashing();
    server.still_hashing();
    server.answer(Answer::Digest { digest: vec![1], start: 0, end: 1 }, ZERO);
    assert_eq!(
        written(&mut server),
        "213-The digest is being made.\r\n Still at it.\r\n213 SHA-256 0-0 01 a\r\n"
    );
    server.receive(b"XCRC a\r\n", ZERO);
    assert_eq!(requests(&mut server).len(), 1);
    server.still_hashing();
    assert_eq!(written(&mut server), "", "only HASH has such a form");
    server.answer(Answer::Digest { digest: vec![1], start: 0, end: 1 }, ZERO);
    server.receive(b"HASH a\r\n", ZERO);
    requests(&mut server);
    server.still_hashing();
    server.answer(Answer::Refused(Refusal::new(Why::Store)), ZERO);
    assert!(written(&mut server).ends_with("421 The store failed: try again later.\r\n"));
    assert_eq!(requests(&mut server), [Request::Close]);
}

#[test]
fn an_answer_that_does_not_fit_is_451_and_one_too_many_is_nothing() {
    let mut server = logged_in(settings());
    server.receive(b"SIZE a\r\n", ZERO);
    assert_eq!(requests(&mut server).len(), 1);
    server.answer(Answer::Proceed, ZERO);
    assert!(written(&mut server).starts_with("451 "));
    for answer in [
        Answer::Done,
        Answer::Denied,
        Answer::Refused(Refusal::new(Why::Store)),
        Answer::TransferEnded(End::Complete),
        Answer::TransferStarted { connected: false, size: None, name: None },
    ] {
        server.answer(answer, ZERO);
    }
    assert_eq!(written(&mut server), "");
    server.receive(b"NOOP\r\n", ZERO);
    assert_eq!(requests(&mut server), []);
    assert!(written(&mut server).starts_with("200 "));
}

#[test]
fn nothing_is_read_between_auth_and_tls() {
    let mut server = Server::new(Settings { tls: TlsMode::Explicit, ..settings() }, ZERO);
    server.receive(b"AUTH TLS\r\nUS", ZERO);
    assert_eq!(requests(&mut server), [Request::StartTls]);
    assert!(!server.wants_input() && !server.is_secure());
    server.receive(b"ER alice\r\n", ZERO);
    server.answer(Answer::TlsStands, ZERO);
    assert!(server.wants_input() && server.is_secure());
    assert_eq!(requests(&mut server), []);
    let replies = written(&mut server);
    assert!(replies.ends_with("234 Begin TLS now.\r\n"), "{replies}");
    server.receive(b"NOOP\r\n", ZERO);
    assert_eq!(requests(&mut server), []);
    assert_eq!(written(&mut server), "200 Nothing was done.\r\n");
}

#[test]
fn what_came_inside_tls_is_not_run_in_clear() {
    for turn in ["CCC", "REIN"] {
        let settings = Settings { tls: TlsMode::Explicit, clear_control: true, ..settings() };
        let mut server = Server::new(settings, ZERO);
        server.receive(b"AUTH TLS\r\n", ZERO);
        assert_eq!(requests(&mut server), [Request::StartTls]);
        server.answer(Answer::TlsStands, ZERO);
        server.receive(b"USER alice\r\nPASS secret\r\n", ZERO);
        assert_eq!(requests(&mut server).len(), 1);
        server.answer(Answer::LoggedIn(Login::at_root()), ZERO);
        written(&mut server);
        server.receive(format!("{turn}\r\nNOOP\r\nSY").as_bytes(), ZERO);
        assert_eq!(requests(&mut server).last(), Some(&Request::ClearControl));
        server.answer(Answer::Done, ZERO);
        server.receive(b"SYST\r\n", ZERO);
        assert_eq!(requests(&mut server), []);
        let replies = written(&mut server);
        assert!(replies.ends_with("215 UNIX Type: L8\r\n"), "{replies}");
        assert_eq!(replies.lines().count(), 2, "{replies}");
    }
}

#[test]
fn auth_gives_a_new_login_its_time() {
    let mut server = logged_in(Settings { tls: TlsMode::Explicit, ..settings() });
    let later = Duration::from_secs(500);
    server.receive(b"AUTH TLS\r\n", later);
    requests(&mut server);
    assert_eq!(server.deadline(), Some(later + Duration::from_secs(60)));
}

#[test]
fn stat_of_a_path_has_a_limit() {
    use entrepot_ftp_proto::entry::{Kind, Rights, Stat};
    let stat = Stat {
        kind: Kind::File,
        size: 1,
        modified: None,
        created: None,
        mode: 0o644,
        rights: Rights(0),
        unique: None,
    };
    let mut server = logged_in(settings());
    server.receive(b"STAT /\r\n", ZERO);
    assert_eq!(requests(&mut server).len(), 1);
    let mut entries: Vec<_> = (0..1200).map(|number| (format!("f{number}"), stat)).collect();
    entries.insert(0, ("bad\r\n212 End".to_owned(), stat));
    let now = entrepot_ftp_proto::Time::default();
    server.answer(Answer::Listing { directory: true, entries, now }, ZERO);
    let replies = written(&mut server);
    assert_eq!(replies.lines().count(), 1002);
    assert!(replies.ends_with("212 End of the first 1000\r\n"));
}

#[test]
fn an_idle_session_holds_little() {
    let mut server = logged_in(settings());
    server.receive(&b"HELP\r\n".repeat(1000), ZERO);
    assert_eq!(requests(&mut server), []);
    while !server.output().is_empty() {
        written(&mut server);
        assert_eq!(requests(&mut server), []);
    }
    assert!(server.buffered() > 10_000);
    server.shrink();
    assert!(server.buffered() <= 3 * 512, "{}", server.buffered());
}

#[test]
fn a_closing_refusal_ends_everything_at_once() {
    let mut server = transferring(settings());
    server.receive(b"ABOR\r\nPWD\r\n", ZERO);
    assert_eq!(requests(&mut server), [Request::Abort]);
    server.answer(Answer::TransferEnded(End::Refused(Refusal::new(Why::Closing))), ZERO);
    assert_eq!(requests(&mut server), [Request::Close]);
    assert_eq!(written(&mut server), "421 The server is closing: come back later.\r\n");
}

#[test]
fn a_failed_handshake_closes() {
    let mut server = Server::new(Settings { tls: TlsMode::Explicit, ..settings() }, ZERO);
    server.receive(b"AUTH TLS\r\n", ZERO);
    assert_eq!(requests(&mut server), [Request::StartTls]);
    written(&mut server);
    server.answer(Answer::Refused(Refusal::new(Why::Store)), ZERO);
    assert_eq!(requests(&mut server), [Request::Close]);
    assert_eq!(written(&mut server), "", "nothing is said in clear");
}

#[test]
fn words_of_a_login_hook_are_said_and_count() {
    let mut server = Server::new(settings(), ZERO);
    for _ in 0..3 {
        server.receive(b"USER alice\r\nPASS x\r\n", ZERO);
        assert!(matches!(server.poll_request(), Some(Request::Password { .. })));
        server.answer(Answer::Refused(Refusal::told(530, "Use your key.")), ZERO);
    }
    let replies = written(&mut server);
    assert_eq!(replies.matches("530 Use your key.").count(), 3);
    assert!(replies.contains("421 "));
    let mut server = Server::new(settings(), ZERO);
    server.receive(b"USER alice\r\nPASS x\r\n", ZERO);
    assert_eq!(requests(&mut server).len(), 1);
    server.answer(Answer::Refused(Refusal::new(Why::NotFound)), ZERO);
    assert!(written(&mut server).contains("530 The login is not right."), "names look alike");
}

#[test]
fn a_reply_that_has_not_left_can_be_replaced() {
    let hooked = || logged_in(Settings { hooked: true, ..settings() });
    let run = |server: &mut Server, line: &[u8]| {
        server.receive(line, ZERO);
        assert!(matches!(server.poll_request(), Some(Request::Before(_))));
        server.answer(Answer::Proceed, ZERO);
    };
    let mut server = hooked();
    run(&mut server, b"TYPE I\r\nNOOP\r\n");
    assert_eq!(server.poll_request(), Some(Request::After { verb: "TYPE", code: 200 }));
    server.instead(451, "It failed.");
    server.instead(452, "Once only.");
    assert!(matches!(server.poll_request(), Some(Request::Before(_))));
    server.answer(Answer::Proceed, ZERO);
    assert_eq!(requests(&mut server), [Request::After { verb: "NOOP", code: 200 }]);
    server.instead(200, "No refusal.");
    assert_eq!(written(&mut server), "451 It failed.\r\n451 No refusal.\r\n");

    // What was written is said.
    run(&mut server, b"NOOP\r\n");
    assert_eq!(server.poll_request(), Some(Request::After { verb: "NOOP", code: 200 }));
    server.written(1);
    server.instead(451, "Too late.");
    assert_eq!(written(&mut server), "00 Nothing was done.\r\n");

    // What follows from a reply is not undone.
    run(&mut server, b"QUIT\r\n");
    assert_eq!(server.poll_request(), Some(Request::After { verb: "QUIT", code: 221 }));
    server.instead(451, "Stay.");
    assert_eq!(written(&mut server), "221 Goodbye.\r\n");

    let mut server = hooked();
    run(&mut server, b"NOOP\r\n");
    assert_eq!(server.poll_request(), Some(Request::After { verb: "NOOP", code: 200 }));
    server.instead(421, "Go.");
    assert_eq!(written(&mut server), "421 Go.\r\n");
    assert_eq!(requests(&mut server), [Request::Close]);
}

#[test]
fn a_hook_sees_the_whole_path_however_it_is_written() {
    let mut server = logged_in(Settings { hooked: true, ..settings() });
    server.settings_mut().site.chmod = true;
    server.settings_mut().site.copy = true;
    let mut path = |line: &str| {
        server.receive(format!("{line}\r\n").as_bytes(), ZERO);
        let Some(Request::Before(command)) = server.poll_request() else { panic!("{line}") };
        server.answer(Answer::Refused(Refusal::told(550, "no")), ZERO);
        requests(&mut server);
        written(&mut server);
        command.path
    };
    for (line, wanted) in [
        ("DELE a/../b c", Some("/b c")),
        ("dele //x", Some("/x")),
        ("LIST -la x", Some("/x")),
        ("LIST", Some("/")),
        ("MFMT 20200101000000 a b", Some("/a b")),
        ("XCRC \"a b\" 0 4", Some("/a b")),
        ("XCRC a 0 4", Some("/a")),
        ("MD5 \"a b\"", Some("/a b")),
        ("COMB \"t u\" p q", Some("/t u")),
        ("SITE CHMOD 644 a b", Some("/a b")),
        ("SITE UTIME 20200101000000 a", Some("/a")),
        ("SITE COPY a \"b c\"", Some("/b c")),
        ("SITE MKDIR d/e", Some("/d/e")),
        ("CDUP", Some("/")),
        ("NOOP a", None),
        ("PASS a", None),
        ("SITE HELP", None),
    ] {
        assert_eq!(path(line).as_deref(), wanted, "{line}");
    }
}
