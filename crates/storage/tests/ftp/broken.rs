//! An FTP server of one folder in memory that breaks one rule at a time.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What it does wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Verbs and what they are answered with.
    pub(crate) replies: Vec<(&'static str, &'static str)>,
    /// So many downloads break the session after so many bytes.
    pub(crate) cut_downloads: (u32, usize),
    /// An upload breaks the session after so many bytes; what came stays.
    pub(crate) cut_upload: Option<usize>,
    /// Uploads are refused after the first bytes, with this.
    pub(crate) refuse_upload: Option<&'static str>,
    /// Added to every size in a reply.
    pub(crate) size_error: u64,
    /// Sends 150 and 226 for a download that stops here.
    pub(crate) short: Option<usize>,
    /// What it says at the end of a download in place of 226.
    pub(crate) end: Option<&'static str>,
    /// A 227 names this host.
    pub(crate) host: Option<&'static str>,
    /// What MLSD sends.
    pub(crate) facts: Option<&'static str>,
    /// What LIST sends; MLSD is unknown then.
    pub(crate) list: Option<&'static str>,
    /// MLST tells these names as symbolic links.
    pub(crate) links: &'static [&'static str],
    /// RNTO is done, and the session ends before its answer.
    pub(crate) forget_rename: bool,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) faults: Mutex<Faults>,
    pub(crate) files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// All lines that came.
    pub(crate) said: Mutex<Vec<String>>,
}

impl Shared {
    pub(crate) fn count(&self, verb: &str) -> usize {
        self.said.lock().unwrap().iter().filter(|line| line.starts_with(verb)).count()
    }
}

pub(crate) struct Broken {
    pub(crate) port: u16,
    pub(crate) shared: Arc<Shared>,
}

pub(crate) fn start(faults: Faults) -> Broken {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let shared = Arc::new(Shared { faults: Mutex::new(faults), ..Shared::default() });
    let known = Arc::clone(&shared);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&known);
            std::thread::spawn(move || Session::new(stream, shared).serve());
        }
    });
    Broken { port, shared }
}

struct Session {
    control: TcpStream,
    shared: Arc<Shared>,
    passive: Option<TcpListener>,
    offset: usize,
    from: String,
}

impl Session {
    fn new(control: TcpStream, shared: Arc<Shared>) -> Self {
        Session { control, shared, passive: None, offset: 0, from: String::new() }
    }

    fn say(&mut self, reply: &str) -> bool {
        self.control.write_all(format!("{reply}\r\n").as_bytes()).is_ok()
    }

    fn serve(mut self) {
        let Ok(control) = self.control.try_clone() else { return };
        self.say("220 ready");
        for line in BufReader::new(control).lines().map_while(Result::ok) {
            self.shared.said.lock().unwrap().push(line.clone());
            let (verb, argument) = line.split_once(' ').unwrap_or((&line, ""));
            let faults = self.shared.faults.lock().unwrap().clone();
            let told = faults.replies.iter().find(|(of, _)| *of == verb);
            let goes_on = match told {
                Some((_, reply)) => self.say(reply),
                None => self.answer(&faults, verb, argument),
            };
            if !goes_on {
                let _ = self.control.shutdown(Shutdown::Both);
                return;
            }
        }
    }

    fn answer(&mut self, faults: &Faults, verb: &str, argument: &str) -> bool {
        let size = |shared: &Shared| {
            let size = shared.files.lock().unwrap().get(argument).map(Vec::len);
            size.map(|size| size as u64 + faults.size_error)
        };
        match verb {
            "USER" => self.say("331 password"),
            "PASS" => self.say("230 in"),
            "FEAT" if faults.list.is_some() => self.say("211-F\r\n SIZE\r\n MDTM\r\n211 End"),
            "FEAT" => self.say("211-F\r\n MLST type*;size*;\r\n SIZE\r\n211 End"),
            "PWD" => self.say("257 \"/\""),
            "TYPE" | "NOOP" => self.say("200 ok"),
            "CWD" if argument == "/" => self.say("250 ok"),
            "REST" => {
                self.offset = argument.parse().unwrap_or(0);
                self.say("350 ok")
            }
            "EPSV" if faults.host.is_some() => self.say("502 no"),
            "EPSV" | "PASV" => self.open(faults.host),
            "MLST" if faults.links.contains(&argument) => {
                let facts = "type=OS.unix=slink:/x;size=2;";
                self.say(&format!("250-x\r\n {facts} {argument}\r\n250 End"))
            }
            "MLST" if argument == "/" => self.say("250-x\r\n type=dir; /\r\n250 End"),
            "MLST" => match size(&self.shared) {
                Some(size) => {
                    self.say(&format!("250-x\r\n type=file;size={size}; {argument}\r\n250 End"))
                }
                None => self.say("550 no such file"),
            },
            "SIZE" => match size(&self.shared) {
                Some(size) => self.say(&format!("213 {size}")),
                None => self.say("550 no such file"),
            },
            "RETR" => self.retrieve(faults, argument),
            "STOR" | "APPE" => self.store(faults, argument, verb == "APPE"),
            "MLSD" => self.list(faults.facts.unwrap_or("")),
            "LIST" => self.list(faults.list.unwrap_or("")),
            "DELE" => {
                let gone = self.shared.files.lock().unwrap().remove(argument).is_some();
                self.say(if gone { "250 gone" } else { "550 no such file" })
            }
            "RNFR" => {
                self.from = argument.to_owned();
                self.say("350 and now")
            }
            "RNTO" => {
                let mut files = self.shared.files.lock().unwrap();
                let Some(file) = files.remove(&self.from) else {
                    drop(files);
                    return self.say("550 no such file");
                };
                files.insert(argument.to_owned(), file);
                drop(files);
                !faults.forget_rename && self.say("250 done")
            }
            _ => self.say("550 no"),
        }
    }

    fn open(&mut self, host: Option<&str>) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        self.passive = Some(listener);
        match host {
            None => self.say(&format!("229 here (|||{port}|)")),
            Some(host) => {
                let host = host.replace('.', ",");
                self.say(&format!("227 here ({host},{},{})", port / 256, port % 256))
            }
        }
    }

    fn data(&mut self) -> Option<TcpStream> {
        let listener = self.passive.take()?;
        self.say("150 go");
        Some(listener.accept().ok()?.0)
    }

    fn list(&mut self, lines: &str) -> bool {
        let Some(mut data) = self.data() else { return self.say("425 no") };
        let _ = data.write_all(lines.as_bytes());
        drop(data);
        self.say("226 done")
    }

    fn retrieve(&mut self, faults: &Faults, name: &str) -> bool {
        let offset = std::mem::take(&mut self.offset);
        let Some(file) = self.shared.files.lock().unwrap().get(name).cloned() else {
            return self.say("550 no such file");
        };
        let Some(mut data) = self.data() else { return self.say("425 no") };
        let rest = &file[offset.min(file.len())..];
        let (left, bytes) = faults.cut_downloads;
        if left > 0 {
            self.shared.faults.lock().unwrap().cut_downloads.0 = left - 1;
            let _ = data.write_all(&rest[..bytes.min(rest.len())]);
            return false;
        }
        let _ = data.write_all(&rest[..faults.short.unwrap_or(rest.len())]);
        drop(data);
        self.say(faults.end.unwrap_or("226 done"))
    }

    fn store(&mut self, faults: &Faults, name: &str, append: bool) -> bool {
        let Some(mut data) = self.data() else { return self.say("425 no") };
        let mut bytes = Vec::new();
        let most = match (faults.refuse_upload, faults.cut_upload) {
            (Some(_), _) => 10,
            (None, Some(most)) => most,
            _ => usize::MAX,
        };
        let _ = (&mut data).take(most as u64).read_to_end(&mut bytes);
        let mut files = self.shared.files.lock().unwrap();
        let file = files.entry(name.to_owned()).or_default();
        let keep = if append { file.len() } else { std::mem::take(&mut self.offset) };
        file.truncate(keep);
        file.extend_from_slice(&bytes);
        drop(files);
        if let Some(reply) = faults.refuse_upload {
            // The data connection stays open: only the reply tells.
            let told = self.say(reply);
            let _ = data.read(&mut [0; 1]);
            return told;
        }
        if faults.cut_upload.is_some() {
            self.shared.faults.lock().unwrap().cut_upload = None;
            return false;
        }
        drop(data);
        self.say("226 done")
    }
}
