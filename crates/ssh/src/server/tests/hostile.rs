//! Clients that skip a stage or hardly move, and bugs of ours: none reaches anybody else.

use russh::client::connect_stream;

use super::rounds::Trusting;
use super::*;

#[tokio::test]
async fn a_channel_before_login_is_never_opened() {
    for after_a_refusal in [false, true] {
        let (pair, stream) = Pair::start(Script::default());
        let mut handle = connect_stream(Arc::default(), stream, Trusting).await.unwrap();
        if after_a_refusal {
            let refused = handle.authenticate_password("anna", "wrong").await.unwrap();
            assert!(!refused.success());
        }
        let opening = tokio::time::timeout(Duration::from_secs(5), handle.channel_open_session());
        assert!(!matches!(opening.await, Ok(Ok(_))), "a channel was opened without a login");
        drop(handle);
        let seen = Arc::clone(&pair.script);
        pair.finished().await;
        let seen = seen.seen.lock();
        assert!(seen.is_empty(), "the service was called: {seen:?}");
    }
}

#[tokio::test]
async fn a_bug_ends_the_session_that_met_it_and_no_other() {
    let shop = Toyshop::open(Script::default());
    let mut clients = Vec::new();
    for _ in 0..2 {
        let stream = tokio::net::TcpStream::connect(shop.address).await.unwrap();
        let client = SshClient::connect(stream, &shop.options()).await.unwrap();
        let (sender, echoed) = mpsc::unbounded_channel();
        let receive = move |arrival: Arrival<'_>| {
            if let Arrival::Data(data) = arrival {
                let _ = sender.send(data.to_vec());
            }
        };
        let channel = client.open_sftp(Box::new(receive)).await.unwrap();
        clients.push((client, channel, echoed));
    }
    let (_, unlucky, broken) = &mut clients[0];
    unlucky.send(Bytes::from_static(b"boom")).await.unwrap();
    assert_eq!(broken.recv().await, None, "its connection is over");
    let (_, lucky, echoed) = &mut clients[1];
    lucky.send(Bytes::from_static(b"still here")).await.unwrap();
    assert_eq!(echoed.recv().await.unwrap(), b"still here");
    let stream = tokio::net::TcpStream::connect(shop.address).await.unwrap();
    SshClient::connect(stream, &shop.options()).await.unwrap();
    let ended = shop.script.ended.lock().len();
    assert!(ended >= 1, "the session that broke was handed back and closed");
    drop(clients);
    shop.close().await;
}

/// Signs what it is asked to, with a key of its own whatever it has offered.
struct Impostor {
    key: russh::keys::PrivateKey,
}

impl russh::Signer for Impostor {
    type Error = russh::SendError;

    async fn auth_sign(
        &mut self,
        _offered: &russh::keys::agent::AgentIdentity,
        _hash: Option<russh::keys::HashAlg>,
        mut data: Vec<u8>,
    ) -> Result<Vec<u8>, russh::SendError> {
        let signature = russh::keys::signature::Signer::try_sign(&self.key, &data).unwrap();
        let signature: russh::keys::ssh_key::Signature = signature;
        let signature = [&string(b"ssh-ed25519")[..], &string(signature.as_bytes())].concat();
        data.extend(string(&signature));
        Ok(data)
    }
}

/// RFC 4251 §5.
fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

#[tokio::test]
async fn who_offers_a_key_must_sign_with_it() {
    let [owned, other] = ["anna", "other"].map(|name| keys::generate(&Env::real(), name).unwrap());
    let offered = russh::keys::PublicKey::from_openssh(&owned.public).unwrap();
    for (signs, logs_in) in [(&other, false), (&owned, true)] {
        let script = Script { keys: vec![owned.public.clone()], ..Script::default() };
        let (_pair, stream) = Pair::start(script);
        let mut handle = connect_stream(Arc::default(), stream, Trusting).await.unwrap();
        let key = russh::keys::PrivateKey::from_openssh(signs.private.expose()).unwrap();
        let mut signer = Impostor { key };
        let offered = offered.clone();
        let answer = handle.authenticate_publickey_with("anna", offered, None, &mut signer).await;
        assert_eq!(answer.unwrap().success(), logs_in);
    }
}
