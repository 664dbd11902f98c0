//! A line to a server that counts what comes back, and that can go dead without a word.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub(crate) struct Line {
    /// Bytes that came from the server.
    pub(crate) came: AtomicU64,
    /// A connection on which the client says this is dead from there on; the next one is not.
    pub(crate) dies_at: Mutex<Option<&'static str>>,
    /// One has died.
    pub(crate) died: tokio::sync::Notify,
}

impl Line {
    /// The line, and the port at its near end.
    pub(crate) fn to(server: u16) -> (Arc<Line>, u16) {
        let near = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = near.local_addr().unwrap().port();
        let line = Arc::new(Line::default());
        let known = Arc::clone(&line);
        std::thread::spawn(move || {
            for client in near.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (there, back) = (Arc::clone(&known), Arc::clone(&known));
                std::thread::spawn(move || there.carry_there(ends.0, ends.1));
                std::thread::spawn(move || back.carry_back(server, client));
            }
        });
        (line, port)
    }

    fn carry_there(&self, mut client: TcpStream, mut server: TcpStream) {
        let (mut buffer, mut said, mut is_dead) = ([0; 4096], Vec::new(), false);
        while let Ok(count) = client.read(&mut buffer)
            && count > 0
        {
            said.extend_from_slice(&buffer[..count]);
            let mut dies_at = self.dies_at.lock().unwrap();
            let word = dies_at.unwrap_or_default().as_bytes();
            if !word.is_empty() && said.windows(word.len()).any(|it| it == word) {
                (*dies_at, is_dead) = (None, true);
                self.died.notify_one();
            }
            drop(dies_at);
            let keep = said.len().saturating_sub(64);
            said.drain(..keep);
            if !is_dead && server.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    }

    fn carry_back(&self, mut server: TcpStream, mut client: TcpStream) {
        let mut buffer = [0; 65_536];
        while let Ok(count) = server.read(&mut buffer)
            && count > 0
        {
            self.came.fetch_add(count as u64, Ordering::SeqCst);
            if client.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }
}
