//! A disk in memory with two images, live and durable, that can lose its power at any call.

// Each test binary uses its own part of it.
#![allow(dead_code, unreachable_pub)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, Mutex};

use entrepot_journal::{Medium, MediumFile};

const PAGE: usize = 4096;

/// What a power cut leaves of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// Nothing.
    Strict,
    /// Any pages, and per directory any prefix of its changes.
    Mixed,
}

#[derive(Clone, Default)]
struct Bytes {
    live: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
    resized: bool,
}

#[derive(Clone)]
enum Change {
    Add(String, usize),
    Remove(String),
    /// The far half of a rename: gone from here once it is there.
    Moved(String, String, usize),
}

#[derive(Clone, Default)]
struct Image {
    files: Vec<Bytes>,
    live: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    pending: BTreeMap<String, Vec<Change>>,
    calls: u64,
    syncs: u64,
}

/// Called before each changing call with its number.
pub type Hook = Box<dyn FnMut(u64, Call, &SimDisk) -> io::Result<()> + Send>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Call {
    Create,
    Write,
    Reserve,
    Truncate,
    Sync,
    Rename,
    Remove,
    SyncDir,
}

#[derive(Clone, Default)]
pub struct SimDisk {
    image: Arc<Mutex<Image>>,
    hook: Arc<Mutex<Option<Hook>>>,
    locked: Arc<Mutex<bool>>,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

#[derive(Default)]
struct Gate {
    closed: bool,
    waiting: usize,
}

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn folder(name: &str) -> String {
    name.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
}

impl SimDisk {
    pub fn on_call(&self, hook: Hook) {
        *self.hook.lock().unwrap() = Some(hook);
    }

    pub fn no_hook(&self) {
        *self.hook.lock().unwrap() = None;
    }

    pub fn calls(&self) -> u64 {
        self.image.lock().unwrap().calls
    }

    pub fn syncs(&self) -> u64 {
        self.image.lock().unwrap().syncs
    }

    /// Lets no sync begin until opened.
    pub fn close_gate(&self) {
        self.gate.0.lock().unwrap().closed = true;
    }

    pub fn open_gate(&self) {
        self.gate.0.lock().unwrap().closed = false;
        self.gate.1.notify_all();
    }

    pub fn syncs_waiting(&self) -> usize {
        self.gate.0.lock().unwrap().waiting
    }

    fn called(&self, call: Call) -> io::Result<()> {
        let number = {
            let mut image = self.image.lock().unwrap();
            image.calls += 1;
            image.syncs += u64::from(call == Call::Sync);
            image.calls
        };
        let mut hook = self.hook.lock().unwrap();
        let Some(mut inner) = hook.take() else { return Ok(()) };
        let result = inner(number, call, self);
        *hook = Some(inner);
        result
    }

    /// The disk as it is after the power was cut now.
    pub fn cut(&self, seed: u64, mode: Cut) -> SimDisk {
        let mut random = Random(seed);
        let mut image = self.image.lock().unwrap().clone();
        for (_, changes) in std::mem::take(&mut image.pending) {
            let keep = match mode {
                Cut::Strict => 0,
                Cut::Mixed => random.below(changes.len() as u64 + 1) as usize,
            };
            for change in changes.into_iter().take(keep) {
                apply(&mut image.durable, change);
            }
        }
        for file in &mut image.files {
            if mode == Cut::Mixed {
                for page in std::mem::take(&mut file.dirty) {
                    if random.below(2) == 0 {
                        persist(file, page);
                    }
                }
                if file.resized && random.below(2) == 0 {
                    file.durable.resize(file.live.len(), 0);
                }
            }
            file.live = file.durable.clone();
            file.dirty.clear();
            file.resized = false;
        }
        image.live = image.durable.clone();
        image.calls = 0;
        image.syncs = 0;
        SimDisk { image: Arc::new(Mutex::new(image)), ..SimDisk::default() }
    }
}

fn persist(file: &mut Bytes, page: usize) {
    let (from, to) = (page * PAGE, ((page + 1) * PAGE).min(file.live.len()));
    if from < to {
        if file.durable.len() < to {
            file.durable.resize(to, 0);
        }
        file.durable[from..to].copy_from_slice(&file.live[from..to]);
    }
}

fn apply(names: &mut BTreeMap<String, usize>, change: Change) {
    match change {
        Change::Add(name, file) => {
            names.insert(name, file);
        }
        Change::Remove(name) => {
            names.remove(&name);
        }
        Change::Moved(name, to, file) => {
            // A rename is one change of the file system: never neither name.
            names.insert(to, file);
            names.remove(&name);
        }
    }
}

impl Medium for SimDisk {
    fn list(&self, wanted: &str) -> io::Result<Vec<String>> {
        let image = self.image.lock().unwrap();
        let names = image.live.keys().filter(|name| folder(name) == wanted);
        Ok(names.map(|name| name.rsplit('/').next().unwrap().to_owned()).collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        self.called(Call::Create)?;
        let mut image = self.image.lock().unwrap();
        if image.live.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        image.files.push(Bytes::default());
        let file = image.files.len() - 1;
        image.live.insert(name.to_owned(), file);
        image.pending.entry(folder(name)).or_default().push(Change::Add(name.to_owned(), file));
        Ok(Arc::new(SimFile { disk: self.clone(), file }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let image = self.image.lock().unwrap();
        let file = *image.live.get(name).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.called(Call::Rename)?;
        let mut image = self.image.lock().unwrap();
        let file = image.live.remove(from).ok_or(ErrorKind::NotFound)?;
        image.live.insert(to.to_owned(), file);
        let moved = Change::Moved(from.to_owned(), to.to_owned(), file);
        image.pending.entry(folder(from)).or_default().push(moved);
        image.pending.entry(folder(to)).or_default().push(Change::Add(to.to_owned(), file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.called(Call::Remove)?;
        let mut image = self.image.lock().unwrap();
        image.live.remove(name).ok_or(ErrorKind::NotFound)?;
        image.pending.entry(folder(name)).or_default().push(Change::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        self.called(Call::SyncDir)?;
        let mut image = self.image.lock().unwrap();
        for change in image.pending.remove(folder).unwrap_or_default() {
            apply(&mut image.durable, change);
        }
        Ok(())
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>> {
        struct Guard(Arc<Mutex<bool>>);
        impl Drop for Guard {
            fn drop(&mut self) {
                *self.0.lock().unwrap() = false;
            }
        }
        let mut locked = self.locked.lock().unwrap();
        if *locked {
            return Ok(None);
        }
        *locked = true;
        Ok(Some(Box::new(Guard(self.locked.clone()))))
    }

    fn describe(&self) -> String {
        "simulated".to_owned()
    }
}

struct SimFile {
    disk: SimDisk,
    file: usize,
}

impl MediumFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.image.lock().unwrap().files[self.file].live.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let image = self.disk.image.lock().unwrap();
        let live = &image.files[self.file].live;
        let from = (offset as usize).min(live.len());
        let count = into.len().min(live.len() - from);
        into[..count].copy_from_slice(&live[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.called(Call::Write)?;
        let mut image = self.disk.image.lock().unwrap();
        let file = &mut image.files[self.file];
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        if file.live.len() < to {
            file.live.resize(to, 0);
            file.resized = true;
        }
        file.live[from..to].copy_from_slice(bytes);
        file.dirty.extend(from / PAGE..=(to.max(1) - 1) / PAGE);
        Ok(())
    }

    fn reserve(&self, size: u64) -> io::Result<()> {
        self.disk.called(Call::Reserve)?;
        let mut image = self.disk.image.lock().unwrap();
        let file = &mut image.files[self.file];
        if file.live.len() < size as usize {
            file.live.resize(size as usize, 0);
            file.resized = true;
        }
        Ok(())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.disk.called(Call::Truncate)?;
        let mut image = self.disk.image.lock().unwrap();
        let file = &mut image.files[self.file];
        file.live.truncate(size as usize);
        file.resized = true;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        {
            let mut gate = self.disk.gate.0.lock().unwrap();
            gate.waiting += 1;
            while gate.closed {
                gate = self.disk.gate.1.wait(gate).unwrap();
            }
            gate.waiting -= 1;
        }
        let result = self.disk.called(Call::Sync);
        let mut image = self.disk.image.lock().unwrap();
        let file = &mut image.files[self.file];
        let dirty = std::mem::take(&mut file.dirty);
        // After an error the kernel may call pages clean that never reached the disk.
        result?;
        let size = file.live.len();
        file.durable.resize(size, 0);
        for page in dirty {
            persist(file, page);
        }
        file.resized = false;
        Ok(())
    }
}
