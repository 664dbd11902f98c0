//! The bare server of FTP: the load generator passes, and what was sent comes back.

use entrepot_loadgen::ftp::{self, FtpBench, Step, Tls, Workload};
use entrepot_nouns::Env;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{bench_at, passive, run};

fn loopback() -> std::net::SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A session by hand.
struct Hand(BufReader<TcpStream>);

impl Hand {
    async fn log_in(address: std::net::SocketAddr) -> Hand {
        let mut hand = Hand(BufReader::new(TcpStream::connect(address).await.unwrap()));
        assert!(hand.reply().await.starts_with("220 "));
        assert!(hand.say("USER anybody").await.starts_with("331 "));
        assert!(hand.say("PASS anything").await.starts_with("230 "));
        assert!(hand.say("TYPE I").await.starts_with("200 "));
        hand
    }

    /// The last line of a reply.
    async fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).await.unwrap() > 0, "the server hung up");
            let head = line.get(..4).and_then(|head| head.strip_suffix(' '));
            if head.is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_digit())) {
                return line;
            }
        }
    }

    async fn say(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
        self.reply().await
    }

    async fn data(&mut self, verb: &str) -> TcpStream {
        let reply = self.say(verb).await;
        let address = match reply.split_once("(|||") {
            Some((_, rest)) => {
                let port = rest.split_once('|').unwrap().0.parse().unwrap();
                (self.0.get_ref().peer_addr().unwrap().ip(), port).into()
            }
            None => entrepot_ftp_proto::hostport::parse_227(&reply[3..]).unwrap(),
        };
        TcpStream::connect(address).await.unwrap()
    }

    async fn store(&mut self, name: &str, bytes: &[u8]) {
        let mut data = self.data("EPSV").await;
        assert!(self.say(&format!("STOR {name}")).await.starts_with("150 "));
        data.write_all(bytes).await.unwrap();
        drop(data);
        assert!(self.reply().await.starts_with("226 "));
    }

    async fn retrieve(&mut self, name: &str) -> Vec<u8> {
        let mut data = self.data("PASV").await;
        assert!(self.say(&format!("RETR {name}")).await.starts_with("150 "));
        let mut bytes = Vec::new();
        data.read_to_end(&mut bytes).await.unwrap();
        assert!(self.reply().await.starts_with("226 "));
        bytes
    }
}

#[tokio::test]
async fn every_workload_passes_against_the_bare_server() {
    let server = ftp::serve_bare(loopback()).unwrap();
    let bench = FtpBench { rounds: 1, ..bench_at(server.address(), Tls::Off) };
    let mut steps = Step::USUAL.to_vec();
    steps.extend([Workload::Mixed, Workload::Exec, Workload::IdleSessions].map(passive));
    let report = run(&bench, &steps).await;
    assert_eq!(report.rounds.len(), steps.len());
    for measure in &report.rounds {
        let counts = measure.counts.unwrap();
        assert!(counts.is_clean() && measure.failures.is_empty(), "{measure:?}");
        let wanted = match measure.unit.as_str() {
            "GiB" => 1,
            "session" => 4,
            _ => 12,
        };
        assert_eq!(counts.done, wanted, "{measure:?}");
    }
    let mut hand = Hand::log_in(server.address()).await;
    for name in ["bench-small", "bench-large", "bench-exec", "bench-stor-0-0"] {
        assert!(hand.say(&format!("SIZE {name}")).await.starts_with("550 "), "{name} is left");
    }
}

#[tokio::test]
async fn what_the_bare_server_of_ftp_takes_comes_back_whole() {
    let server = ftp::serve_bare(loopback()).unwrap();
    let mut hand = Hand::log_in(server.address()).await;
    for size in [0, 1, 1024, (1 << 20) - 1, 1 << 20, 3_000_007] {
        let mut bytes = vec![0; size];
        Env::real().fill_random(&mut bytes);
        hand.store("file", &bytes).await;
        assert_eq!(hand.say("SIZE file").await, format!("213 {size}\r\n"));
        assert!(hand.retrieve("file").await == bytes, "{size}");
    }
    // Another session sees it, also while the first is there.
    let mut other = Hand::log_in(server.address()).await;
    assert_eq!(other.retrieve("/file").await.len(), 3_000_007);
    assert!(hand.say("MKD folder").await.starts_with("257 "));
    assert!(hand.say("CWD folder").await.starts_with("250 "));
    hand.store("file", b"inner").await;
    assert_eq!(other.retrieve("folder/file").await, b"inner");
    assert!(hand.say("CWD nowhere").await.starts_with("550 "));
    assert!(hand.say("DELE file").await.starts_with("250 "));
    assert!(hand.say("DELE file").await.starts_with("550 "));
    drop(hand.data("EPSV").await);
    assert!(hand.say("RETR file").await.starts_with("550 "));
    for (line, code) in [("FEAT", "211 "), ("OPTS UTF8 ON", "200 "), ("QUIT", "221 ")] {
        let reply = hand.say(line).await;
        assert!(reply.starts_with(code), "{line}: {reply}");
    }
}

#[tokio::test]
async fn the_bare_server_of_ftp_keeps_nothing_of_a_client_that_goes() {
    let server = ftp::serve_bare(loopback()).unwrap();
    let mut gone = Hand::log_in(server.address()).await;
    let mut data = gone.data("EPSV").await;
    assert!(gone.say("STOR file").await.starts_with("150 "));
    data.write_all(b"half").await.unwrap();
    drop(gone);
    // The server has closed its end when it has given up.
    let _ = data.read(&mut [0; 1]).await;
    let mut hand = Hand::log_in(server.address()).await;
    assert!(hand.say("SIZE file").await.starts_with("550 "));
}
