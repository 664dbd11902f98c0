//! Keyboard-interactive as the transport sees it: rounds and the number of answers.

use russh::client::{Handle, Handler, KeyboardInteractiveAuthResponse as Answer, connect_stream};
use russh::keys::PublicKeyOrCertificate;

use super::*;
use crate::channels::ConnectionChannels;
use crate::handler::Connection;

pub(super) struct Trusting;

impl Handler for Trusting {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        _key: &PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        Ok(true)
    }
}

async fn knocking() -> (Pair, Handle<Trusting>) {
    let (pair, stream) = Pair::start(Script::default());
    let handle = connect_stream(Arc::default(), stream, Trusting).await.unwrap();
    (pair, handle)
}

async fn ask(handle: &mut Handle<Trusting>) -> Option<Vec<String>> {
    match handle.authenticate_keyboard_interactive_start("anna", None).await {
        Ok(Answer::InfoRequest { prompts, .. }) => {
            assert!(prompts.iter().all(|prompt| !prompt.echo), "what is typed would be shown");
            Some(prompts.into_iter().map(|prompt| prompt.prompt).collect())
        }
        _ => None,
    }
}

async fn answer(handle: &mut Handle<Trusting>, answers: &[&str]) -> bool {
    let answers = answers.iter().map(|answer| (*answer).to_owned()).collect();
    let answered = handle.authenticate_keyboard_interactive_respond(answers).await;
    matches!(answered, Ok(Answer::Success))
}

#[tokio::test]
async fn as_many_answers_count_as_were_asked_for() {
    for answers in [&[PASSWORD, PASSWORD][..], &[], &[PASSWORD, ""]] {
        let (_pair, mut handle) = knocking().await;
        assert_eq!(ask(&mut handle).await.unwrap(), ["Password: "]);
        assert!(!answer(&mut handle, answers).await, "{answers:?}");
        assert!(ask(&mut handle).await.is_some(), "it may try again");
        assert!(answer(&mut handle, &[PASSWORD]).await);
    }
}

#[tokio::test]
async fn wrong_answers_are_heard_three_times() {
    let (pair, mut handle) = knocking().await;
    for _ in 0..3 {
        assert!(ask(&mut handle).await.is_some());
        assert!(!answer(&mut handle, &["wrong"]).await);
    }
    assert_eq!(pair.finished().await.reason, "too many attempts to log in");
}

#[tokio::test]
async fn questions_are_asked_three_times_answered_or_not() {
    use russh::server::{Auth, Handler};

    let meter = Arc::new(SessionMeter::new(Env::real()));
    let peer = SocketAddr::from(([192, 0, 2, 1], 1));
    let toy = Toys(Arc::new(Script::default())).connect(peer, &meter);
    let unauthenticated =
        UnauthenticatedConnections::default().admit(peer.ip(), &[], &meter).unwrap();
    let shared = Arc::new(ConnectionChannels::new(Arc::clone(&meter)));
    let (back, _returned) = tokio::sync::oneshot::channel();
    let mut connection =
        Connection::new(toy, back, shared, unauthenticated, config().0.presentation);
    for round in 1..=4 {
        let asked = connection.auth_keyboard_interactive("anna", "", None).await.unwrap();
        assert_eq!(matches!(asked, Auth::Partial { .. }), round <= 3, "round {round}");
    }
    assert_eq!(meter.ended().unwrap().reason, "too many attempts to log in");
}
