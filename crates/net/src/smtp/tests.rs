//! The client against scripted servers.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;

use super::*;

/// A server that reads as many lines as each of its answers says, and then gives the answer. What
/// it was told comes back.
async fn serve(script: &'static [(usize, &'static str)]) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        let mut told = String::new();
        for (lines, answer) in script {
            for _ in 0..*lines {
                stream.read_line(&mut told).await.unwrap();
            }
            // A client that has given up is gone.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
        told
    });
    (port, serving)
}

fn server(port: u16, tls: SmtpTls) -> SmtpServer {
    SmtpServer {
        host: "127.0.0.1".to_owned(),
        port,
        tls,
        trust: ServerTrust::System,
        dial: DialPolicy { allow_private: true },
        login: None,
    }
}

const TO: [&str; 2] = ["a@example.com", "b@example.com"];

async fn submitted(server: &SmtpServer) -> Result<Vec<RefusedRecipient>, SmtpError> {
    let to = TO.map(str::to_owned);
    let content = b"Subject: s\r\n\r\n.a line\r\nlast";
    submit(server, &SmtpMessage { from: "us@example.com", to: &to, content }).await
}

#[tokio::test]
async fn a_recipient_who_is_refused_keeps_the_message_from_no_other() {
    let (port, serving) = serve(&[
        (0, "220-two\r\n220 lines\r\n"),
        (1, "250-here\r\n250-AUTH LOGIN PLAIN\r\n250 SIZE 1000\r\n"),
        (1, "235 in\r\n"),
        (1, "250 ok\r\n"),
        (1, "250 ok\r\n"),
        (1, "451 later\r\n"),
        (1, "354 go on\r\n"),
        (5, "250 taken\r\n"),
        (1, "221 bye\r\n"),
    ])
    .await;
    let login = SmtpLogin { user: "u".to_owned(), password: Secret::new("p") };
    let server = SmtpServer { login: Some(login), ..server(port, SmtpTls::Off) };
    let refused = submitted(&server).await.unwrap();
    let reply = SmtpReply { code: 451, text: "later".to_owned() };
    assert!(reply.is_temporary());
    assert_eq!(refused, [RefusedRecipient { address: TO[1].to_owned(), reply }]);
    let told = "EHLO [127.0.0.1]\r\nAUTH PLAIN AHUAcA==\r\nMAIL FROM:<us@example.com> SIZE=27\r\n\
                RCPT TO:<a@example.com>\r\nRCPT TO:<b@example.com>\r\nDATA\r\n\
                Subject: s\r\n\r\n..a line\r\nlast\r\n.\r\nQUIT\r\n";
    assert_eq!(serving.await.unwrap(), told);
}

#[tokio::test]
async fn a_server_without_tls_gets_neither_password_nor_message() {
    for hello in ["250 here\r\n", "250-here\r\n250 XSTARTTLS\r\n"] {
        let script = Box::leak(Box::new([(0, "220 hi\r\n"), (1, hello), (1, "")]));
        let (port, serving) = serve(script).await;
        let error = submitted(&server(port, SmtpTls::StartTls)).await.unwrap_err();
        assert!(matches!(error, SmtpError::NoTls), "{error}");
        assert_eq!(serving.await.unwrap(), "EHLO [127.0.0.1]\r\n");
    }
    // Words behind the answer, in the clear, would be taken for those of the server under TLS.
    let (port, serving) = serve(&[
        (0, "220 hi\r\n"),
        (1, "250-here\r\n250 STARTTLS\r\n"),
        (1, "220 go\r\n250 x\r\n"),
    ])
    .await;
    let error = submitted(&server(port, SmtpTls::StartTls)).await.unwrap_err();
    assert!(matches!(error, SmtpError::NoTls), "{error}");
    serving.await.unwrap();
}

#[tokio::test]
async fn what_the_server_says_decides_whether_it_is_tried_again() {
    let script =
        |greeting| -> &'static [(usize, &'static str)] { Box::leak(Box::new([(0, greeting)])) };
    for (greeting, temporary) in [
        ("554 no\r\n", false),
        ("421 busy\r\n", true),
        ("hello\r\n", true),
        ("220-hi\r\n554 no\r\n", true),
        ("", true),
    ] {
        let (port, _) = serve(script(greeting)).await;
        let error = submitted(&server(port, SmtpTls::Off)).await.unwrap_err();
        assert_eq!(error.is_temporary(), temporary, "{greeting:?}: {error}");
    }
}

#[tokio::test]
async fn an_address_ends_no_command() {
    let server = server(1, SmtpTls::Off);
    for bad in ["a@b>\r\nRCPT TO:<c@d", "a b@c", "", "ä@b"] {
        let to = [bad.to_owned()];
        let message = SmtpMessage { from: "us@example.com", to: &to, content: b"" };
        let error = submit(&server, &message).await.unwrap_err();
        assert!(matches!(error, SmtpError::Address(_)), "{bad:?}: {error}");
    }
}

/// A conversation with a server that agreed to everything up to this message.
fn half_way(room: usize) -> (Line<tokio::io::DuplexStream>, BufReader<tokio::io::DuplexStream>) {
    let (ours, theirs) = tokio::io::duplex(room);
    (Line::new(ours), BufReader::new(theirs))
}

/// Answers MAIL, RCPT and DATA; what MAIL said.
async fn agree(server: &mut BufReader<tokio::io::DuplexStream>) -> String {
    let mut told = String::new();
    for answer in ["250 ok", "250 ok", "354 go on"] {
        server.read_line(&mut told).await.unwrap();
        server.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
    }
    told.lines().next().unwrap().to_owned()
}

async fn sent(
    line: &mut Line<tokio::io::DuplexStream>,
    content: &[u8],
) -> Result<Vec<RefusedRecipient>, SmtpError> {
    let to = ["a@example.com".to_owned()];
    let message = SmtpMessage { from: "us@example.com", to: &to, content };
    line.send(&message, &Offers(vec!["SIZE 10000000".to_owned()])).await
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_has_time_for_each_part_of_a_long_message() {
    let (mut line, mut server) = half_way(SMTP_PART_BYTES);
    let content = vec![b'x'; 20 * SMTP_PART_BYTES];
    let serving = tokio::spawn(async move {
        let mail = agree(&mut server).await;
        let (mut whole, mut part) = (Vec::new(), vec![0; SMTP_PART_BYTES]);
        while !whole.ends_with(b"\r\n.\r\n") {
            tokio::time::advance(SMTP_TIME / 2).await;
            let read = tokio::io::AsyncReadExt::read(&mut server, &mut part).await.unwrap();
            whole.extend_from_slice(&part[..read]);
        }
        server.write_all(b"250 taken\r\n").await.unwrap();
        (mail, whole.len())
    });
    assert_eq!(sent(&mut line, &content).await.unwrap(), []);
    let (mail, bytes) = serving.await.unwrap();
    assert_eq!(bytes, content.len() + b"\r\n.\r\n".len());
    assert_eq!(mail, format!("MAIL FROM:<us@example.com> SIZE={}", content.len()));
}

#[tokio::test]
async fn why_a_server_closed_in_the_middle_of_a_message_is_said() {
    let (mut line, mut server) = half_way(SMTP_PART_BYTES);
    let serving = tokio::spawn(async move {
        agree(&mut server).await;
        server.write_all(b"552 too long for us\r\n").await.unwrap();
    });
    let error = sent(&mut line, &vec![b'x'; 20 * SMTP_PART_BYTES]).await.unwrap_err();
    serving.await.unwrap();
    assert_eq!(error.to_string(), "the server answered DATA with 552: too long for us");
    assert!(!error.is_temporary());
}
