//! `bench sftp` against the bare server, which keeps files in memory and lets everybody in.

use std::net::SocketAddr;

use bytes::Bytes;
use entrepot_loadgen::sftp::{self, BenchError, Login, Mix, SftpBench, Workload};
use entrepot_loadgen::{BareServer, WatchError};
use entrepot_net::dial::{self, DialPolicy};
use entrepot_nouns::{Env, Secret};
use entrepot_sftp_proto::client::{
    Answer, Client, Depth, Event, Extent, Op, OpError, RemoteHandle,
};
use entrepot_sftp_proto::{Attrs, OpenFlags, Status};
use entrepot_ssh::algorithms::Preset;
use entrepot_ssh::client::{
    Arrival, ChannelWriter, ClientOptions, Credential, HostKeyPins, SshClient,
};
use entrepot_ssh::keys;
use tokio::sync::mpsc;

const CIPHER: &str = "aes128-gcm@openssh.com";

fn server(host_key: Option<Secret>) -> BareServer {
    sftp::serve_bare("127.0.0.1:0".parse().unwrap(), host_key, &Env::real()).unwrap()
}

fn bench(server: &BareServer, login: Login) -> SftpBench {
    let address = server.address();
    SftpBench {
        host: address.ip().to_string(),
        port: address.port(),
        user: "anybody".to_owned(),
        login,
        folder: ".".to_owned(),
        cipher: CIPHER.to_owned(),
        size: 5_000_003,
        small_size: 1024,
        count: 6,
        concurrency: 2,
        server_pid: Some(std::process::id()),
        server_group: None,
        rounds: 1,
        mix: Mix { uploads: 5, downloads: 3, scale: 1_000 },
        wan: None,
    }
}

fn by_password() -> Login {
    Login::Password(Secret::new("anything"))
}

#[tokio::test]
async fn every_workload_passes_against_the_bare_server() {
    let key = keys::generate(&Env::real(), "user").unwrap().private;
    let all = [&Workload::USUAL[..], &[Workload::Mixed]].concat();
    for login in [Login::Key(key), by_password()] {
        let server = server(None);
        let bench = bench(&server, login);
        let report = sftp::run(&bench, &all, &Env::real(), |_| ()).await.unwrap();
        assert_eq!(report.rounds.len(), all.len());
        for measure in &report.rounds {
            assert!(measure.failures.is_empty() && measure.units > 0.0, "{measure:?}");
            assert!(measure.server_cpu_seconds_per_unit.is_some(), "{measure:?}");
            assert!(measure.client_cpu_seconds_per_unit.is_some(), "{measure:?}");
        }
        assert!(report.groups.iter().all(|group| group.failed == 0), "{report}");
        // What it stored is removed.
        let mut hand = Hand::log_in(server.address(), HostKeyPins::Any).await;
        let op = hand.client.list(".").unwrap();
        hand.end_of(op).await.unwrap();
        assert!(hand.names.is_empty(), "{:?}", hand.names);
    }
}

#[tokio::test]
async fn a_control_group_that_does_not_exist_is_told() {
    let server = server(None);
    let group = Some("/nowhere".into());
    let bench = SftpBench { server_group: group, ..bench(&server, by_password()) };
    let error = sftp::run(&bench, &[Workload::Handshakes], &Env::real(), |_| ()).await;
    assert!(matches!(error, Err(BenchError::Watch(WatchError::NoGroup(_)))), "{error:?}");
}

/// A session by hand.
struct Hand {
    // The connection lives as long.
    _ssh: SshClient,
    writer: ChannelWriter,
    arrived: mpsc::UnboundedReceiver<Vec<u8>>,
    client: Client,
    /// What came of the file that was read last.
    data: Vec<u8>,
    /// What came of listings.
    names: Vec<Vec<u8>>,
}

impl Hand {
    async fn log_in(address: SocketAddr, pins: HostKeyPins) -> Hand {
        let policy = DialPolicy { allow_private: true };
        let soon = std::time::Duration::from_secs(20);
        let stream = dial::tcp("127.0.0.1", address.port(), &policy, soon).await.unwrap();
        let options = ClientOptions {
            user: "anybody".to_owned(),
            credential: Credential::Password(Secret::new("anything")),
            pins,
            preset: Preset::Modern,
            cipher: Some(CIPHER.to_owned()),
            software: None,
            env: Env::real(),
        };
        let ssh = SshClient::connect(stream, &options).await.unwrap();
        let (sender, arrived) = mpsc::unbounded_channel();
        let receiver = Box::new(move |arrival: Arrival<'_>| {
            if let Arrival::Data(bytes) = arrival {
                let _ = sender.send(bytes.to_vec());
            }
        });
        let writer = ssh.open_sftp(receiver).await.unwrap();
        let client = Client::new(Depth::default());
        Hand { _ssh: ssh, writer, arrived, client, data: Vec::new(), names: Vec::new() }
    }

    /// Sends and receives until an operation is over.
    async fn end_of(&mut self, op: Op) -> Result<Answer, OpError> {
        // An operation may end without an answer.
        let mut piece = Vec::new();
        loop {
            let (mut input, mut over) = (piece.as_slice(), None);
            while let Some(event) = self.client.next(&mut input).unwrap() {
                match event {
                    Event::Data { offset, data, .. } => {
                        let from = usize::try_from(offset).unwrap();
                        let to = from + data.len();
                        self.data.resize(self.data.len().max(to), 0);
                        self.data[from..to].copy_from_slice(data);
                    }
                    Event::Names { op, names } => {
                        self.names.extend(names.into_iter().map(|entry| entry.name));
                        self.client.list_more(op);
                    }
                    Event::Ended { op: ended, result } if ended == op => over = Some(result),
                    Event::Ended { .. } | Event::Ready => {}
                }
            }
            if let Some(result) = over {
                return result;
            }
            while let Some(bytes) = self.client.poll_output() {
                self.writer.send(bytes).await.unwrap();
            }
            piece = self.arrived.recv().await.unwrap();
        }
    }

    async fn open(&mut self, path: &str, flags: OpenFlags) -> Result<RemoteHandle, OpError> {
        let op = self.client.open(path, flags, &Attrs::default()).unwrap();
        match self.end_of(op).await? {
            Answer::Handle(handle) => Ok(handle),
            other => panic!("{other:?}"),
        }
    }

    async fn put(&mut self, path: &str, bytes: &Bytes, from: u64) -> Result<(), OpError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let handle = self.open(path, flags).await?;
        let op = self.client.put(&handle, from);
        // All of it may be under way at once.
        while let Some(wanted) = self.client.want_data(op) {
            let at = usize::try_from(wanted.start - from).unwrap();
            if at == bytes.len() {
                self.client.put_end(op);
                break;
            }
            self.client.supply(op, bytes.slice(at..));
        }
        self.end_of(op).await?;
        let op = self.client.close(&handle).unwrap();
        self.end_of(op).await.map(drop)
    }

    async fn get(&mut self, path: &str, expected: u64) -> Result<Vec<u8>, OpError> {
        let handle = self.open(path, OpenFlags::READ).await?;
        self.data.clear();
        let op = self.client.get(&handle, Extent::whole(expected));
        self.end_of(op).await?;
        let op = self.client.close(&handle).unwrap();
        self.end_of(op).await?;
        Ok(std::mem::take(&mut self.data))
    }
}

#[tokio::test]
async fn what_the_bare_server_of_sftp_takes_comes_back_whole() {
    let pair = keys::generate(&Env::real(), "host").unwrap();
    let server = server(Some(pair.private));
    let pins = HostKeyPins::Pinned(vec![pair.public]);
    let mut hand = Hand::log_in(server.address(), pins).await;
    for size in [0, 1, 1024, (1 << 20) - 1, 1 << 20, 3_000_007] {
        let mut bytes = vec![0; size];
        Env::real().fill_random(&mut bytes);
        let bytes = Bytes::from(bytes);
        hand.put("./file", &bytes, 0).await.unwrap();
        // Whether or not the client knows how long it is.
        for expected in [0, size as u64] {
            assert!(hand.get("/file", expected).await.unwrap() == bytes, "{size}");
        }
        let op = hand.client.stat("file").unwrap();
        let Answer::Attrs(attrs) = hand.end_of(op).await.unwrap() else { panic!("no attributes") };
        assert_eq!((attrs.size, attrs.is_directory()), (Some(size as u64), Some(false)));
    }
    let gap = hand.put("gap", &Bytes::from_static(b"x"), 5).await.unwrap_err();
    assert!(gap.is(Status::OpUnsupported), "{gap}");
    let op = hand.client.mkdir("folder").unwrap();
    hand.end_of(op).await.unwrap();
    hand.put("folder/inner", &Bytes::from_static(b"x"), 0).await.unwrap();
    let op = hand.client.list("folder").unwrap();
    hand.end_of(op).await.unwrap();
    assert_eq!(hand.names, [b"inner"]);
    let op = hand.client.realpath("folder/../x/.").unwrap();
    assert!(matches!(hand.end_of(op).await, Ok(Answer::Name(name)) if name == b"/x"));
    let op = hand.client.remove("folder/inner").unwrap();
    hand.end_of(op).await.unwrap();
    let op = hand.client.rmdir("folder").unwrap();
    hand.end_of(op).await.unwrap();
    for gone in ["folder", "folder/inner"] {
        let op = hand.client.lstat(gone).unwrap();
        assert!(hand.end_of(op).await.is_err_and(|error| error.is(Status::NoSuchFile)), "{gone}");
    }
}
