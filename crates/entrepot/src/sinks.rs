//! Where the signed heads of the journal are sent, as the process file says: files, syslog over TLS
//! (RFC 5424, framed as in RFC 5425), and endpoints, such as a bucket that locks its objects.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use entrepot_db::Db;
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::tls::{ClientTlsStream, ServerTrust, TlsClient};
use entrepot_nouns::{Endpoint, Env, Name, SiteId, StorePath};
use entrepot_proof::{HeadSink, Heads, SentHead, SinkTask};
use entrepot_storage::{Existing, Publish, StoreError, make_directories_above};
use entrepot_vfs::Service;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::audit_file::{SinkConfig, SinkTarget};
use crate::config::Config;
use crate::failure::Failure;
use crate::parts::Parts;

/// Priority of a message: facility 13, log audit, and severity 6, informational (RFC 5424 §6.2.1).
const PRIORITY: u8 = 13 * 8 + 6;
/// How long a collector may take for a connection, or to take heads.
const SINK_TIME: Duration = Duration::from_secs(10);

/// How often heads are written to an endpoint: each time makes a file, which a bucket may have to
/// keep for years. A head covers all before it.
const ENDPOINT_INTERVAL: Duration = Duration::from_secs(60);

/// What endpoints are reached by.
#[derive(Clone)]
pub(crate) struct SinkStores {
    pub(crate) db: Db,
    pub(crate) vfs: Service,
    pub(crate) env: Env,
}

impl SinkStores {
    /// Those of the node.
    pub(crate) fn new(parts: &Parts, vfs: &Service) -> SinkStores {
        SinkStores { db: parts.db.clone(), vfs: vfs.clone(), env: parts.env.clone() }
    }
}

/// Starts to send to every sink of the process file.
pub(crate) fn start(
    config: &Config,
    heads: &Heads,
    stores: &SinkStores,
    end: &CancellationToken,
) -> Result<Vec<JoinHandle<()>>, Failure> {
    let mut tasks = Vec::new();
    for SinkConfig { name, target } in &config.sinks {
        let sink: Box<dyn HeadSink> = match target {
            SinkTarget::File(path) => Box::new(FileSink { path: path.clone() }),
            SinkTarget::Syslog { .. } => Box::new(SyslogSink::new(&config.node, name, target)?),
            SinkTarget::Endpoint(endpoint) => Box::new(EndpointSink {
                stores: stores.clone(),
                endpoint: endpoint.clone(),
                node: config.node.clone(),
            }),
        };
        let meters = heads.sink_meters(name.as_str());
        let task = SinkTask { heads: heads.clone(), sink, meters };
        tasks.push(tokio::spawn(task.run(end.clone())));
    }
    Ok(tasks)
}

fn line(head: &SentHead) -> Result<String, String> {
    serde_json::to_string(head).map_err(|error| error.to_string())
}

/// A file that only grows; its owner may make it append-only (`chattr +a`).
struct FileSink {
    path: PathBuf,
}

#[async_trait]
impl HeadSink for FileSink {
    async fn send(&self, heads: &[SentHead]) -> Result<(), String> {
        let mut text = String::new();
        for head in heads {
            text.push_str(&line(head)?);
            text.push('\n');
        }
        let path = self.path.clone();
        let write = move || {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.create(true).append(true).mode(0o640).open(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        let written = tokio::task::spawn_blocking(write).await;
        let written = written.map_err(|_| "the thread that wrote has ended".to_owned())?;
        written.map_err(|error| format!("'{}': {error}", self.path.display()))
    }
}

/// An endpoint of the site `main`: a new file for what was signed since the last one, never a
/// change of one. Where the endpoint is a bucket with a default retention (object lock), nobody can
/// take it back.
struct EndpointSink {
    stores: SinkStores,
    endpoint: Name,
    node: Name,
}

impl EndpointSink {
    async fn write(&self, heads: &[SentHead]) -> Result<(), String> {
        let Some(last) = heads.last() else { return Ok(()) };
        let SinkStores { db, vfs, env } = &self.stores;
        let endpoint = db.find::<Endpoint>(SiteId::MAIN, &self.endpoint).await;
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        let endpoint = endpoint.ok_or("there is no such endpoint in the site 'main'")?;
        let store = vfs.store(&endpoint).await.map_err(|error| error.to_string())?;
        let path = format!("heads/{}/{:020}.ndjson", self.node, last.size);
        let path: StorePath = path.parse().map_err(|_| format!("'{path}' is no path"))?;
        let mut text = String::new();
        for head in heads {
            text.push_str(&line(head)?);
            text.push('\n');
        }
        let how = Publish {
            existing: Existing::Replace,
            accessed: None,
            modified: None,
            mode: None,
            size: text.len() as u64,
        };
        let written = async {
            make_directories_above(&store, &path).await?;
            let staged = store.stage(env.new_id(), &path).await?;
            staged.write_at(0, Bytes::from(text)).await?;
            staged.sync().await?;
            staged.publish(&how).await.map(drop)
        };
        written.await.map_err(|error: StoreError| format!("'{path}': {error}"))
    }
}

#[async_trait]
impl HeadSink for EndpointSink {
    async fn send(&self, heads: &[SentHead]) -> Result<(), String> {
        let written = self.write(heads).await;
        written.map_err(|problem| format!("endpoint '{}': {problem}", self.endpoint))
    }

    fn interval(&self) -> Duration {
        ENDPOINT_INTERVAL
    }
}

/// A collector of syslog. It acknowledges nothing: a head that was on its way when the connection
/// broke is missing there, and the next one covers what it covered.
struct SyslogSink {
    node: Name,
    host: String,
    port: u16,
    client: TlsClient,
    connection: Mutex<Option<ClientTlsStream>>,
}

impl SyslogSink {
    fn new(node: &Name, name: &Name, target: &SinkTarget) -> Result<Self, Failure> {
        let SinkTarget::Syslog { host, port, authorities } = target else {
            return Err(Failure::config(format!("the sink '{name}' is no collector of syslog")));
        };
        let trust = match authorities {
            Some(file) => ServerTrust::Authorities(std::fs::read(file).map_err(|error| {
                Failure::config(format!("audit.sinks: '{}': {error}", file.display()))
            })?),
            None => ServerTrust::System,
        };
        let client = TlsClient::new(host, &trust);
        let client = client
            .map_err(|error| Failure::config(format!("audit.sinks: the sink '{name}': {error}")))?;
        let (node, host, port) = (node.clone(), host.clone(), *port);
        Ok(SyslogSink { node, host, port, client, connection: Mutex::default() })
    }

    async fn connect(&self) -> Result<ClientTlsStream, String> {
        let anywhere = DialPolicy { allow_private: true };
        let stream = dial::tcp(&self.host, self.port, &anywhere, SINK_TIME).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let connected = self.client.session().connect(stream).await;
        connected.map(|(stream, _)| stream).map_err(|error| error.to_string())
    }

    /// The message of a head, with its length before it (RFC 5425 §4.3).
    fn frame(&self, head: &SentHead) -> Result<Vec<u8>, String> {
        let SentHead { at, .. } = head;
        let message = format!("<{PRIORITY}>1 {at} {} entrepot - head - {}", self.node, line(head)?);
        Ok(format!("{} {message}", message.len()).into_bytes())
    }
}

/// The connection, unless the collector has ended it: what is written then would be lost.
async fn still_open(stream: Option<ClientTlsStream>) -> Option<ClientTlsStream> {
    let mut stream = stream?;
    let mut said = [0; 64];
    let has_ended = tokio::select! {
        biased;
        read = stream.read(&mut said) => read.map_or(true, |count| count == 0),
        () = std::future::ready(()) => false,
    };
    (!has_ended).then_some(stream)
}

#[async_trait]
impl HeadSink for SyslogSink {
    async fn send(&self, heads: &[SentHead]) -> Result<(), String> {
        let mut frames = Vec::new();
        for head in heads {
            frames.extend(self.frame(head)?);
        }
        let mut held = self.connection.lock().await;
        let mut stream = match still_open(held.take()).await {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        let write = async {
            stream.write_all(&frames).await?;
            stream.flush().await
        };
        match tokio::time::timeout(SINK_TIME, write).await {
            Ok(Ok(())) => {
                *held = Some(stream);
                Ok(())
            }
            Ok(Err(error)) => Err(format!("{}:{}: {error}", self.host, self.port)),
            Err(_) => Err(format!("{}:{} takes nothing", self.host, self.port)),
        }
    }
}

#[cfg(test)]
mod tests {
    use entrepot_net::listen::{TcpAcceptor, bind};
    use entrepot_net::tls::{ClientCertificates, TlsConfig, TlsOptions, TlsVersion, self_signed};
    use entrepot_nouns::{Env, Timestamp};
    use entrepot_proof::read_heads;

    use super::*;

    fn head(size: u64) -> SentHead {
        let note = format!("entrepot/n1/id\n{size}\nroot\n\n\u{2014} entrepot/n1/id AAAA\n");
        SentHead { size, at: Timestamp(1_795_420_800_000_000), note }
    }

    /// Messages of one connection, without their lengths; the connection is then closed.
    async fn received(collector: &TcpAcceptor, tls: &TlsConfig, count: usize) -> Vec<String> {
        let (stream, _) = collector.accept().await;
        let mut stream = tls.session().accept_control(stream).await.unwrap();
        let mut messages = Vec::new();
        while messages.len() < count {
            let mut length = String::new();
            loop {
                match stream.read_u8().await.unwrap() {
                    b' ' => break,
                    digit => length.push(char::from(digit)),
                }
            }
            let mut message = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut message).await.unwrap();
            messages.push(String::from_utf8(message).unwrap());
        }
        messages
    }

    #[tokio::test]
    async fn a_file_only_grows_and_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heads");
        let sink = FileSink { path: path.clone() };
        sink.send(&[head(3), head(9)]).await.unwrap();
        sink.send(&[head(12)]).await.unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(read_heads("file", &text).unwrap(), [head(3), head(9), head(12)]);
        let missing = FileSink { path: folder.path().join("none/heads") };
        assert!(missing.send(&[head(1)]).await.unwrap_err().contains("none/heads"));
    }

    #[tokio::test]
    async fn a_collector_gets_messages_as_rfc_5424_has_them_also_on_a_new_connection() {
        let folder = tempfile::tempdir().unwrap();
        let own = self_signed(vec!["localhost".to_owned()]).unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, &own.chain).unwrap();
        let options = TlsOptions {
            chain: own.chain.into_bytes(),
            key: own.key,
            clients: ClientCertificates::default(),
            least: TlsVersion::Tls12,
        };
        let tls = TlsConfig::new(&options, &Env::real()).unwrap();
        let collector = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (node, name): (Name, Name) = ("n1".parse().unwrap(), "logs".parse().unwrap());
        let target = |authorities| SinkTarget::Syslog {
            host: "localhost".to_owned(),
            port: collector.local_address().port(),
            authorities,
        };
        let sink = SyslogSink::new(&node, &name, &target(Some(ca))).unwrap();
        let heads = [head(3), head(9)];
        let (sent, got) = tokio::join!(sink.send(&heads), received(&collector, &tls, 2));
        sent.unwrap();
        let lead = "<110>1 2026-11-23T08:00:00.000000Z n1 entrepot - head - {\"size\":3,";
        assert!(got[0].starts_with(lead), "{}", got[0]);
        assert_eq!(read_heads("syslog", &got.join("\n")).unwrap(), heads);
        // The collector has ended the connection: what is sent then comes over a new one.
        let again = async {
            loop {
                let _ = sink.send(&[head(12)]).await;
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            got = received(&collector, &tls, 1) => assert!(got[0].contains("\"size\":12,")),
            () = again => {}
        }
        // Somebody else's certificate: nothing is sent.
        let other = self_signed(vec!["localhost".to_owned()]).unwrap();
        let ca = folder.path().join("other.pem");
        std::fs::write(&ca, &other.chain).unwrap();
        let sink = SyslogSink::new(&node, &name, &target(Some(ca))).unwrap();
        let refused = async {
            let (stream, _) = collector.accept().await;
            tls.session().accept_control(stream).await.is_err()
        };
        let heads = [head(1)];
        let (sent, refused) = tokio::join!(sink.send(&heads), refused);
        assert!(sent.is_err() && refused, "{sent:?}");
    }
}
