//! Many partners, each with its files in order, over two nodes that die: no order is broken, no
//! limit is exceeded, and a partner that refuses stops only its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::server::Node;
use serde_json::{Value, json};

use crate::program;

/// Requests that the partners' server takes at a time.
const AT_ONCE: usize = 7;
/// The partner that refuses its first file, until somebody retries.
const DEAD: &str = "/p0";

/// What came, in the order in which it came: for each folder the files in it.
#[derive(Default)]
struct Came {
    files: BTreeMap<String, Vec<String>>,
    /// Keys of requests that came.
    keys: BTreeSet<String>,
    /// The dead one refuses no more.
    relents: bool,
}

/// The server of all partners; it ends with the process.
struct Partners {
    port: u16,
    came: Arc<Mutex<Came>>,
    /// Most requests at a time.
    most: Arc<AtomicUsize>,
}

impl Partners {
    fn start() -> Result<Partners> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let (came, now) = (Arc::<Mutex<Came>>::default(), Arc::<AtomicUsize>::default());
        let partners = Partners { port, came: Arc::clone(&came), most: Arc::default() };
        let most = Arc::clone(&partners.most);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let (came, now) = (Arc::clone(&came), Arc::clone(&now));
                // A request that ends in the middle is none.
                std::thread::spawn(move || drop(serve(stream, &came, &now)));
            }
        });
        Ok(partners)
    }

    fn look<T>(&self, look: impl FnOnce(&mut Came) -> T) -> T {
        look(&mut self.came.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many files came.
    fn count(&self) -> usize {
        self.look(|came| came.files.values().map(Vec::len).sum())
    }
}

/// Answers the request of a connection, which counts from its begin until it is answered.
fn serve(mut stream: TcpStream, came: &Mutex<Came>, now: &AtomicUsize) -> Result<()> {
    let answer = read(&mut stream).and_then(|head| answer(&head, came));
    now.fetch_sub(1, Ordering::SeqCst);
    let answer = answer?;
    let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    Ok(stream.write_all(answer.as_bytes())?)
}

/// The head of a request.
pub(crate) fn read(stream: &mut TcpStream) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(String::from_utf8(head)?)
}

/// Notes what came; the status of the answer. Each tenth request is refused the first time.
fn answer(head: &str, came: &Mutex<Came>) -> Result<&'static str> {
    let field = |name: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, it)| it.to_owned())
    };
    let target = head.split(' ').nth(1).context("a target")?.replace("%2F", "/");
    let (_, path) = target.split_once("/?file=").context("a path")?;
    let (folder, file) = path.rsplit_once('/').context("a file")?;
    let key = field("idempotency-key").context("a key")?;
    let mut came = came.lock().unwrap_or_else(PoisonError::into_inner);
    let is_new = came.keys.insert(key);
    if folder == DEAD && file == "f0" && !came.relents {
        return Ok("400 No");
    }
    if is_new && came.keys.len().is_multiple_of(10) {
        return Ok("503 Not Now");
    }
    let files = came.files.entry(folder.to_owned()).or_default();
    // What comes again, because a node died before it knew, is the one that came last.
    if files.last().is_none_or(|last| last != file) {
        files.push(file.to_owned());
    }
    Ok("200 OK")
}

fn number(name: &str, few: usize) -> Result<usize> {
    Ok(std::env::var(name).map_or(Ok(few), |count| count.parse())?)
}

fn documents(port: u16) -> String {
    let retry = json!({"attempts": 50, "first_delay_seconds": 1, "longest_delay_seconds": 1});
    let endpoint = json!({"endpoint": {"name": "partners", "at_once": AT_ONCE, "target": {"web": {
        "url": format!("http://127.0.0.1:{port}"), "allow_private": true}}}});
    let rule = json!({"rule": {"name": "send", "when": {"event": "file.uploaded"},
        "order": "{dir}", "retry": retry,
        "do": [{"http": {"endpoint": "partners", "method": "PUT", "path": "/?file={path}"}}]}});
    format!("{endpoint}\n---\n{rule}\n")
}

/// `PARTNERS=200 FILES=500` is the full length.
#[test]
fn files_of_many_partners_stay_in_order_over_two_nodes_that_die() -> Result<()> {
    let (partners, files) = (number("PARTNERS", 12)?, number("FILES", 12)?);
    let server = Partners::start()?;
    let postgres = Postgres::launch()?;
    let url = postgres.create_database()?;
    let mut first = Node::new_called(program(), &url, "n1")?;
    let login = Login::create(&first, "acme")?;
    first.cli_with_input(&["apply", "-"], &documents(server.port))?;
    let mut second = Node::joined(&first, &url, "n2")?;
    first.start()?;
    second.start()?;
    let local = text(&local_file(&first, "a", b"content")?)?.to_owned();
    let folders: String = (0..partners).map(|at| format!("mkdir p{at}\n")).collect();
    login.sftp_batch(&first, &folders)?;
    // All partners at once, as they come.
    let puts = |range: std::ops::Range<usize>| -> String {
        let files = range.flat_map(|file| (0..partners).map(move |at| (at, file)));
        files.map(|(at, file)| format!("put {local} p{at}/f{file}\n")).collect()
    };
    let half = files / 2;
    login.sftp_batch(&first, &puts(0..half))?;
    let pool = |size: &str| first.cli(&["node", "pools", "n2", "--target", size]);
    pool("1")?;
    second.kill()?;
    second.start()?;
    pool("25")?;
    login.sftp_batch(&first, &puts(half..files))?;
    first.kill()?;
    first.start()?;
    let all = (partners - 1) * files;
    let mut before = 0;
    while server.count() < all {
        first.until("more files to arrive", || {
            Ok((server.count() > before).then(|| before = server.count()))
        })?;
    }
    // The dead one stands still, and that was told once.
    let stopped = first.until("the stop to be told", || {
        let stopped = first.events("order.stopped")?;
        Ok((!stopped.is_empty()).then_some(stopped))
    })?;
    assert_eq!(stopped.len(), 1, "{stopped:?}");
    assert_eq!(stopped[0]["order"], DEAD);
    ensure!(!server.look(|came| came.files.contains_key(DEAD)), "a file passed the dead one");
    server.look(|came| came.relents = true);
    first.cli(&["node", "pools", "n1", "--target", "1"])?;
    first.cli(&["job", "retry", stopped[0]["job"].as_str().context("a job")?])?;
    while server.count() < all + files {
        first.until("the files behind it", || {
            Ok((server.count() > before).then(|| before = server.count()))
        })?;
    }
    let wanted: Vec<String> = (0..files).map(|file| format!("f{file}")).collect();
    server.look(|came| {
        for (folder, files) in &came.files {
            assert_eq!(files, &wanted, "{folder}");
        }
    });
    let most = server.most.load(Ordering::SeqCst);
    ensure!(most <= AT_ONCE, "{most} requests at a time");
    first.until("all jobs to be done", || {
        let waits = |state| -> Result<bool> {
            Ok(first.json(&["job", "list", "--state", state])? == json!([]))
        };
        Ok((waits("ready")? && waits("running")?).then_some(()))
    })?;
    let failed: Vec<Value> = first.events("job.failed")?;
    assert_eq!(failed.len(), 1, "{failed:?}");
    Ok(())
}
