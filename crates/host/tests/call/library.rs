//! The sample application on a port of its own, in threads that a test can cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use entrepot_host::{SampleLibrary, SampleTerminal};
use tokio::sync::OwnedMutexGuard;

pub(crate) use entrepot_host::LastPage;

/// Opens the library on a free port, for as long as the process lives; answers its address.
pub(crate) fn open(last: LastPage) -> String {
    Library::open(last).address.clone()
}

/// The library while it is open.
pub(crate) struct Library {
    pub(crate) address: String,
    library: Arc<SampleLibrary>,
    state: Mutex<State>,
    /// Held by who answers a key.
    answering: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct State {
    /// Whether terminals are sent away at once.
    is_closed: bool,
    /// Terminals that came.
    came: usize,
    terminals: Vec<TcpStream>,
}

impl Library {
    pub(crate) fn open(last: LastPage) -> Arc<Library> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let library = Arc::new(SampleLibrary::new(last));
        let (state, answering) = (Mutex::default(), Arc::default());
        let library = Arc::new(Library { address, library, state, answering });
        let served = Arc::clone(&library);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut state = served.state.lock().unwrap();
                state.came += 1;
                if state.is_closed {
                    continue;
                }
                state.terminals.push(stream.try_clone().unwrap());
                drop(state);
                let library = Arc::clone(&served.library);
                let answering = Arc::clone(&served.answering);
                // A terminal that goes away ends its session.
                std::thread::spawn(move || drop(serve(stream, library, &answering)));
            }
        });
        library
    }

    /// Ends all connections; `Door::Closed`: and takes no new ones.
    pub(crate) fn cut(&self, door: Door) {
        let mut state = self.state.lock().unwrap();
        state.is_closed = matches!(door, Door::Closed);
        for terminal in state.terminals.drain(..) {
            // One that has gone already is cut too.
            let _ = terminal.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn reopen(&self) {
        self.state.lock().unwrap().is_closed = false;
    }

    pub(crate) fn came(&self) -> usize {
        self.state.lock().unwrap().came
    }

    pub(crate) fn screens(&self) -> u64 {
        self.library.screens()
    }

    /// Answers no key until the guard is dropped.
    pub(crate) async fn hold_back(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.answering).lock_owned().await
    }

    pub(crate) fn signed_on(&self) -> Vec<String> {
        self.library.signed_on()
    }
}

/// Whether the library takes terminals.
#[derive(Clone, Copy)]
pub(crate) enum Door {
    Open,
    Closed,
}

fn serve(
    mut stream: TcpStream,
    library: Arc<SampleLibrary>,
    answering: &tokio::sync::Mutex<()>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut terminal = SampleTerminal::new(library);
    let mut buffer = [0; 4096];
    loop {
        stream.write_all(&terminal.output())?;
        let length = stream.read(&mut buffer)?;
        let _answering = answering.blocking_lock();
        if length == 0 || !terminal.receive(&buffer[..length]) {
            return Ok(());
        }
    }
}
