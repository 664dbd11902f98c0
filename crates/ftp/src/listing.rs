//! LIST, NLST, MLSD, and STAT with a path.

use std::sync::atomic::{AtomicU64, Ordering};

use entrepot_ftp_proto::entry::{Kind, Stat};
use entrepot_ftp_proto::limits::STAT_LINES;
use entrepot_ftp_proto::listing::{Format, heading, is_listed, next_heading};
use entrepot_ftp_proto::{Answer, End, Refusal, Target, Time, pattern};
use entrepot_net::data::Lingerer;
use entrepot_nouns::VPath;
use entrepot_vfs::{Attributes, Entry, EntryKind, Listing, Vfs, VfsError};

use crate::limits::{LISTING_BYTES, LISTING_PAGE, SORTED_ENTRIES, TREE_DEPTH};
use crate::paths::path;
use crate::stats::View;
use crate::status::{refusal, refused};
use crate::transfer::{Outlet, SendFault};

/// What is going to be listed.
pub(crate) struct Listed {
    vfs: Vfs,
    what: What,
    format: Format,
    recursive: bool,
    view: View,
}

enum What {
    /// A file, under the name the client used.
    File(String, Stat),
    Directory(Directory),
}

struct Directory {
    path: VPath,
    stat: Stat,
    listing: Listing,
    /// Only names that match.
    pattern: Option<String>,
}

/// A listing on a data connection, as it was asked for.
pub(crate) struct ListRequest {
    pub(crate) target: Target,
    pub(crate) format: Format,
    /// With all directories below, as `LIST -R`.
    pub(crate) recursive: bool,
}

/// Looks at what is asked for, so that a refusal comes before 150.
pub(crate) async fn prepare(
    vfs: &Vfs,
    view: &View,
    ListRequest { target, format, recursive }: ListRequest,
) -> Result<Listed, Refusal> {
    let what = Finder { vfs, view }.find(target).await?;
    if matches!((&what, &format), (What::File(..), Format::Facts(_))) {
        return Err(refusal(&VfsError::NotDirectory));
    }
    Ok(Listed { vfs: vfs.clone(), view: view.clone(), what, format, recursive })
}

/// STAT with a path.
pub(crate) async fn here(vfs: &Vfs, view: &View, target: Target) -> Result<Answer, Refusal> {
    let now = view.now();
    let finder = Finder { vfs, view };
    let directory = match finder.find(target).await? {
        What::File(name, stat) => {
            return Ok(Answer::Listing { directory: false, entries: vec![(name, stat)], now });
        }
        What::Directory(directory) => directory,
    };
    let mut pages = Pages { vfs, view, directory };
    let mut entries = Vec::new();
    while entries.len() <= STAT_LINES {
        let page = refused(pages.next().await)?;
        if page.is_empty() {
            break;
        }
        entries.extend(page);
    }
    Ok(Answer::Listing { directory: true, entries, now })
}

/// Finds what the argument of a listing means.
struct Finder<'a> {
    vfs: &'a Vfs,
    view: &'a View,
}

impl Finder<'_> {
    /// The whole argument as a name, the name, the pattern: in this order.
    async fn find(&self, target: Target) -> Result<What, Refusal> {
        if let Some(literal) = &target.literal {
            let at = path(literal)?;
            if let Ok(found) = self.vfs.stat(&at).await {
                return self.open(at, &found, target.name).await;
            }
        }
        let at = path(&target.path)?;
        match self.vfs.stat(&at).await {
            Ok(found) => return self.open(at, &found, target.name).await,
            Err(VfsError::NotFound) if target.pattern => {}
            Err(error) => return Err(refusal(&error)),
        }
        let (directory, pattern) = target.pattern().unwrap_or_default();
        let (path, pattern) = (path(directory)?, Some(pattern.to_owned()));
        let stat = self.view.stat(&refused(self.vfs.stat(&path).await)?);
        let listing = refused(self.vfs.list(&path).await)?;
        Ok(What::Directory(Directory { path, stat, listing, pattern }))
    }

    /// What has the name `at`; a file is shown as `name`.
    async fn open(&self, at: VPath, found: &Attributes, name: String) -> Result<What, Refusal> {
        let stat = self.view.stat(found);
        match found.kind {
            EntryKind::Directory => {
                let listing = refused(self.vfs.list(&at).await)?;
                Ok(What::Directory(Directory { path: at, stat, listing, pattern: None }))
            }
            EntryKind::File | EntryKind::Link => Ok(What::File(name, stat)),
        }
    }
}

/// The entries of a directory that are shown, page by page.
struct Pages<'a> {
    vfs: &'a Vfs,
    view: &'a View,
    directory: Directory,
}

impl Pages<'_> {
    /// Empty at the end only.
    async fn next(&mut self) -> Result<Vec<(String, Stat)>, VfsError> {
        loop {
            let page = self.directory.listing.next_page(LISTING_PAGE).await?;
            if page.is_empty() {
                return Ok(Vec::new());
            }
            let mut shown = Vec::with_capacity(page.len());
            for entry in page {
                shown.extend(self.shown(entry).await);
            }
            if !shown.is_empty() {
                return Ok(shown);
            }
        }
    }

    /// A link is shown as what it leads to, one to nothing not at all.
    async fn shown(&self, entry: Entry) -> Option<(String, Stat)> {
        let pattern = self.directory.pattern.as_deref();
        let fits = pattern.is_none_or(|pattern| pattern::matches(pattern, &entry.name));
        if !fits || !is_listed(&entry.name) {
            return None;
        }
        if entry.attributes.kind != EntryKind::Link {
            return Some((entry.name, self.view.stat(&entry.attributes)));
        }
        let at = self.directory.path.join(&entry.name).ok()?;
        let found = self.vfs.stat(&at).await.ok()?;
        Some((entry.name, self.view.stat(&found)))
    }
}

impl Listed {
    pub(crate) async fn run(
        self,
        mut stream: Outlet,
        lingerer: &Lingerer,
        bytes: &AtomicU64,
    ) -> End {
        let mut lines = Lines { stream: &mut stream, bytes, out: Vec::new() };
        let sent = self.send(&mut lines).await;
        stream.conclude(sent, lingerer).await
    }

    async fn send(self, lines: &mut Lines<'_>) -> Result<(), SendFault> {
        match self.what {
            What::File(name, stat) => {
                self.format.write_file(&name, &stat, self.view.now(), &mut lines.out);
            }
            What::Directory(directory) if self.recursive => {
                let shape = Shape::of(&self.vfs, &self.view, &self.format);
                shape.tree(directory, lines).await?;
            }
            What::Directory(directory) => {
                let shape = Shape::of(&self.vfs, &self.view, &self.format);
                if directory.pattern.is_none() {
                    shape.itself(&directory, &mut lines.out).await;
                }
                shape.directory(directory, lines).await?;
            }
        }
        lines.flush().await
    }
}

/// How entries look.
struct Shape<'a> {
    vfs: &'a Vfs,
    view: &'a View,
    format: &'a Format,
    now: Time,
}

impl<'a> Shape<'a> {
    fn of(vfs: &'a Vfs, view: &'a View, format: &'a Format) -> Self {
        Shape { vfs, view, format, now: view.now() }
    }

    /// The first lines of MLSD.
    async fn itself(&self, directory: &Directory, out: &mut Vec<u8>) {
        let above = match (self.format, directory.path.parent()) {
            (Format::Facts(_), Some(above)) => self.vfs.stat(&above).await.ok(),
            _ => None,
        };
        let above = above.as_ref().map(|above| self.view.stat(above));
        self.format.write_self(&directory.stat, above.as_ref(), out);
    }

    /// The entries of one directory, sorted unless there are very many; gives its directories.
    async fn directory(
        &self,
        directory: Directory,
        lines: &mut Lines<'_>,
    ) -> Result<Vec<VPath>, SendFault> {
        let here = directory.path.clone();
        let mut pages = Pages { vfs: self.vfs, view: self.view, directory };
        let mut sorted = Vec::new();
        while sorted.len() < SORTED_ENTRIES {
            let page = pages.next().await?;
            if page.is_empty() {
                break;
            }
            sorted.extend(page);
        }
        sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut below = Vec::new();
        loop {
            for (name, stat) in &sorted {
                self.format.write(name, stat, self.now, &mut lines.out);
                if stat.kind == Kind::Directory {
                    below.extend(here.join(name));
                }
                lines.flush_full().await?;
            }
            // What came behind the sorted ones goes out as it comes.
            sorted = pages.next().await?;
            if sorted.is_empty() {
                return Ok(below);
            }
        }
    }

    /// `LIST -R`: a directory, then those below it, to a bounded depth.
    async fn tree(&self, root: Directory, lines: &mut Lines<'_>) -> Result<(), SendFault> {
        heading(root.path.as_str(), &mut lines.out);
        let mut waiting: Vec<(VPath, usize)> = Vec::new();
        let below = self.directory(root, lines).await?;
        waiting.extend(below.into_iter().rev().map(|path| (path, 1)));
        while let Some((at, depth)) = waiting.pop() {
            // One that went away meanwhile, or may not be listed, is left out.
            let Some(directory) = self.open(&at).await else { continue };
            next_heading(at.as_str(), &mut lines.out);
            let below = self.directory(directory, lines).await?;
            if depth < TREE_DEPTH {
                waiting.extend(below.into_iter().rev().map(|path| (path, depth + 1)));
            }
        }
        Ok(())
    }

    async fn open(&self, at: &VPath) -> Option<Directory> {
        let found = self.vfs.stat(at).await.ok()?;
        let listing = self.vfs.list(at).await.ok()?;
        Some(Directory { path: at.clone(), stat: self.view.stat(&found), listing, pattern: None })
    }
}

/// Lines on their way.
struct Lines<'a> {
    stream: &'a mut Outlet,
    bytes: &'a AtomicU64,
    out: Vec<u8>,
}

impl Lines<'_> {
    async fn flush_full(&mut self) -> Result<(), SendFault> {
        if self.out.len() < LISTING_BYTES {
            return Ok(());
        }
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), SendFault> {
        self.stream.write(&self.out).await?;
        self.bytes.fetch_add(self.out.len() as u64, Ordering::Relaxed);
        self.out.clear();
        Ok(())
    }
}
