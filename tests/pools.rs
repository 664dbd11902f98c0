//! The size of a pool is changed while jobs run: as many requests are under way at a receiver as
//! the pool has places, and no more.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::Node;
use serde_json::json;

use crate::budgets::metric;
use crate::hooks::apply;
use crate::partners::read;
use crate::program;

/// Requests that came and have no answer yet, in the order in which they came.
#[derive(Default)]
struct Waiting {
    requests: VecDeque<TcpStream>,
    /// Most of them at a time since it was asked last.
    most: usize,
    came: usize,
}

/// A receiver that answers when it is told to; it ends with the process.
struct Receiver {
    port: u16,
    waiting: Arc<Mutex<Waiting>>,
}

impl Receiver {
    fn start() -> Result<Receiver> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let receiver = Receiver { port: listener.local_addr()?.port(), waiting: Arc::default() };
        let waiting = Arc::clone(&receiver.waiting);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // A connection without a request is none.
                if read(&mut stream).is_ok() {
                    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    waiting.requests.push_back(stream);
                    waiting.came += 1;
                    waiting.most = waiting.most.max(waiting.requests.len());
                }
            }
        });
        Ok(receiver)
    }

    fn look<T>(&self, look: impl FnOnce(&mut Waiting) -> T) -> T {
        look(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until so many requests have come, from the begin on.
    fn came(&self, node: &Node, count: usize) -> Result<()> {
        node.until(&format!("request {count}"), || {
            Ok(self.look(|waiting| waiting.came >= count).then_some(()))
        })
    }

    /// Answers the requests that waited longest.
    fn answer(&self, count: usize) -> Result<()> {
        for stream in self.look(|waiting| waiting.requests.drain(..count).collect::<Vec<_>>()) {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            (&stream).write_all(answer)?;
        }
        Ok(())
    }

    /// Most requests at a time, since this was asked last.
    fn most(&self) -> usize {
        self.look(|waiting| std::mem::replace(&mut waiting.most, waiting.requests.len()))
    }
}

/// Endpoints to which each file is sent.
const PARTNERS: usize = 30;
const FILES: usize = 3;

#[test]
fn a_pool_has_the_places_that_it_is_given_while_jobs_run() -> Result<()> {
    let receiver = Receiver::start()?;
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.start()?;
    let pool = |size: &str| node.cli(&["node", "pools", "--target", size]).map(drop);
    // What the node itself goes by.
    let size = |size: u64| {
        node.until(&format!("a pool of {size}"), || {
            let places = metric(&node, r#"entrepot_pool_places{pool="target"}"#)?;
            Ok((places == size).then_some(()))
        })
    };
    pool("1")?;
    size(1)?;
    // Jobs of one endpoint leave half of what is free to those of others.
    let partner = |name: &str| {
        let url = format!("http://127.0.0.1:{}", receiver.port);
        let endpoint = json!({"endpoint": {"name": name, "at_once": 64, "target": {"web": {
            "url": url, "allow_private": true}}}});
        let rule = json!({"rule": {"name": name, "when": {"event": "file.uploaded"},
            "do": [{"http": {"endpoint": name, "method": "PUT", "path": "/{name}"}}]}});
        format!("{endpoint}\n---\n{rule}\n---\n")
    };
    let partners = (0..PARTNERS).map(|at| partner(&format!("p{at}")));
    apply(&node, &partners.collect::<String>())?;
    let local = text(&local_file(&node, "a", b"content")?)?.to_owned();
    let puts: String = (0..FILES).map(|file| format!("put {local} f{file}\n")).collect();
    login.sftp_batch(&node, &puts)?;
    // One after the other.
    for count in 1..=5 {
        receiver.came(&node, count)?;
        ensure!(receiver.most() == 1, "one place, and several requests");
        receiver.answer(1)?;
    }
    pool("25")?;
    receiver.came(&node, 5 + 25)?;
    for count in 31..=40 {
        receiver.answer(1)?;
        receiver.came(&node, count)?;
    }
    let most = receiver.most();
    ensure!(most == 25, "25 places, and {most} requests at a time");
    // Those that are under way go on; none begins until all but one place is free.
    pool("1")?;
    size(1)?;
    receiver.look(|waiting| waiting.came = 0);
    receiver.answer(24)?;
    receiver.most();
    for count in 1..=10 {
        receiver.answer(1)?;
        receiver.came(&node, count)?;
        ensure!(receiver.most() == 1, "one place again, and several requests");
    }
    pool("25")?;
    node.until("the other files", || {
        let waits = receiver.look(|waiting| waiting.requests.len());
        receiver.answer(waits)?;
        Ok((node.events("job.done")?.len() == PARTNERS * FILES).then_some(()))
    })?;
    ensure!(node.events("job.retrying")?.is_empty(), "a request was made again");
    node.stop()
}
