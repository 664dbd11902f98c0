//! Search by name below a folder, page by page. Nothing of a search stays on the server: its cursor
//! is the entry that was looked at last, in an order that every page walks alike.

use std::collections::BTreeMap;

use entrepot_nouns::VPath;
use entrepot_storage::EntryKind;

use crate::error::{Result, VfsError};
use crate::limits;
use crate::vfs::{Attributes, Vfs};

/// What is searched for: a part of the name, or with `*` and `?` a pattern for all of it. Upper and
/// lower case are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameQuery {
    letters: Vec<char>,
    is_pattern: bool,
}

/// An entry whose name fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Where it is, as the session sees it.
    pub path: VPath,
    /// What is known of it.
    pub attributes: Attributes,
}

/// A page of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPage {
    /// The entries that fit, in the order of the walk; a page may have none and not be the last.
    pub found: Vec<Found>,
    /// Goes on with the next page; `None`: this was the last.
    pub next: Option<String>,
    /// How many entries were looked at.
    pub looked_at: u64,
}

/// What a page of a search may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit {
    /// Most entries that are found.
    pub found: usize,
}

impl NameQuery {
    /// A query by its text; `None`: it is empty or too long.
    pub fn of(text: &str) -> Option<NameQuery> {
        if text.is_empty() || text.len() > limits::QUERY_BYTES {
            return None;
        }
        let letters = text.chars().flat_map(char::to_lowercase).collect();
        Some(NameQuery { letters, is_pattern: text.contains(['*', '?']) })
    }

    fn fits(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
        if self.is_pattern {
            return fits_pattern(&self.letters, &name);
        }
        name.windows(self.letters.len()).any(|part| part == self.letters)
    }
}

/// Whether all of a name fits a pattern: `*` is any letters, `?` one.
fn fits_pattern(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut letter) = (0, 0);
    // Where the last star stands, and the first letter that it does not take yet.
    let mut star: Option<(usize, usize)> = None;
    while let Some(found) = name.get(letter) {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, letter));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == found => {
                at += 1;
                letter += 1;
            }
            _ => match &mut star {
                Some((star, taken)) => {
                    *taken += 1;
                    (at, letter) = (*star + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|rest| *rest == '*')
}

/// A directory on the way to where the walk is.
struct Frame {
    path: VPath,
    /// What is to be looked at next in it: directories, and what fits.
    waiting: BTreeMap<String, Attributes>,
    /// The names up to this one were looked at.
    after: Option<String>,
    /// False until all names behind `after` are in `waiting`.
    is_complete: bool,
}

/// A walk for one page.
struct Walk<'a> {
    vfs: &'a Vfs,
    folder: &'a VPath,
    query: &'a NameQuery,
    frames: Vec<Frame>,
    looked_at: u64,
}

/// The entry at which a page ended.
struct Position {
    path: VPath,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The entry was looked at, and nothing below it.
    Entered,
    /// The entry and all below it are done.
    Left,
}

impl Vfs {
    /// Searches a folder and all below it, as far as this session may list it. Links are found by
    /// their name and not followed. `cursor` is [`FoundPage::next`] of the page before.
    ///
    /// A page looks at so many entries, and takes so long, as [`limits::SEARCH_ENTRIES`] and
    /// [`limits::SEARCH_TIME`] say; a directory is always listed to its end.
    ///
    /// # Errors
    /// The folder is none or may not be listed, or the cursor is not one of this folder.
    pub async fn search(
        &self,
        folder: &VPath,
        query: &NameQuery,
        cursor: Option<&str>,
        limit: PageLimit,
    ) -> Result<FoundPage> {
        if self.stat(folder).await?.kind != EntryKind::Directory {
            return Err(VfsError::NotDirectory);
        }
        let mut walk = Walk { vfs: self, folder, query, frames: Vec::new(), looked_at: 0 };
        walk.begin(cursor)?;
        let begun = self.data_plane().env.elapsed();
        let most = limit.found.clamp(1, limits::PAGE);
        let (mut found, mut last) = (Vec::new(), None);
        while let Some(position) = walk.step(&mut found).await? {
            let took = self.data_plane().env.elapsed().saturating_sub(begun);
            let is_full = found.len() >= most
                || walk.looked_at >= limits::SEARCH_ENTRIES
                || took >= limits::SEARCH_TIME;
            if is_full {
                last = Some(position);
                break;
            }
        }
        let next = last.and_then(|position| position.cursor(folder));
        Ok(FoundPage { found, next, looked_at: walk.looked_at })
    }
}

impl Position {
    /// The position as text, relative to the folder.
    fn cursor(&self, folder: &VPath) -> Option<String> {
        let rest = self.path.below(folder)?;
        let stage = if self.stage == Stage::Left { '-' } else { '+' };
        Some(format!("{stage}{}", rest.as_str()))
    }
}

impl Walk<'_> {
    /// To the beginning, or behind a cursor.
    fn begin(&mut self, cursor: Option<&str>) -> Result<()> {
        let Some(cursor) = cursor else {
            self.enter(self.folder.clone());
            return Ok(());
        };
        let (is_left, rest) = match (cursor.strip_prefix('-'), cursor.strip_prefix('+')) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(VfsError::NotFound),
        };
        let mut path = self.folder.clone();
        for name in rest.split('/') {
            let (waiting, after) = (BTreeMap::new(), Some(name.to_owned()));
            let frame = Frame { path: path.clone(), waiting, after, is_complete: false };
            self.frames.push(frame);
            path = path.join(name)?;
        }
        // Its own children come next; of a file there are none.
        if !is_left {
            self.enter(path);
        }
        Ok(())
    }

    fn enter(&mut self, path: VPath) {
        let waiting = BTreeMap::new();
        self.frames.push(Frame { path, waiting, after: None, is_complete: false });
    }

    /// Looks at the next entry, or leaves a directory. `None`: all was looked at.
    async fn step(&mut self, found: &mut Vec<Found>) -> Result<Option<Position>> {
        let Some(mut frame) = self.frames.pop() else { return Ok(None) };
        if frame.waiting.is_empty() && !frame.is_complete {
            self.fill(&mut frame).await?;
        }
        let Some((name, attributes)) = frame.waiting.pop_first() else {
            if !frame.is_complete {
                self.frames.push(frame);
                return Box::pin(self.step(found)).await;
            }
            let is_all = frame.path == *self.folder;
            let position = Position { path: frame.path, stage: Stage::Left };
            return Ok((!is_all).then_some(position));
        };
        let path = frame.path.join(&name)?;
        frame.after = Some(name.clone());
        self.frames.push(frame);
        let is_directory = attributes.kind == EntryKind::Directory;
        if self.query.fits(&name) {
            found.push(Found { path: path.clone(), attributes });
        }
        if is_directory && self.frames.len() < limits::SEARCH_DEPTH {
            self.enter(path.clone());
            return Ok(Some(Position { path, stage: Stage::Entered }));
        }
        Ok(Some(Position { path, stage: Stage::Left }))
    }

    /// Lists a directory: of what is behind the last name, the first that are directories or fit.
    async fn fill(&mut self, frame: &mut Frame) -> Result<()> {
        frame.is_complete = true;
        let mut listing = match self.vfs.list(&frame.path).await {
            Ok(listing) => listing,
            // Below the folder, what may not be listed or is gone is not there.
            Err(
                VfsError::Denied { .. }
                | VfsError::NotFound
                | VfsError::NotDirectory
                | VfsError::LinkOutside,
            ) if frame.path != *self.folder => return Ok(()),
            Err(error) => return Err(error),
        };
        loop {
            let page = listing.next_page(limits::PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            self.looked_at += page.len() as u64;
            for entry in page {
                let is_behind = frame.after.as_ref().is_none_or(|after| entry.name > *after);
                let is_directory = entry.attributes.kind == EntryKind::Directory;
                if is_behind && (is_directory || self.query.fits(&entry.name)) {
                    frame.waiting.insert(entry.name, entry.attributes);
                }
                if frame.waiting.len() > limits::SEARCH_NAMES {
                    frame.waiting.pop_last();
                    frame.is_complete = false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_parts_and_patterns() {
        for (text, name, fits) in [
            ("inv", "Invoice.pdf", true),
            ("INV", "invoice.pdf", true),
            ("größe", "GRÖSSE", false),
            ("GRÖ", "größe.txt", true),
            ("x", "invoice", false),
            ("*.pdf", "a.PDF", true),
            ("*.pdf", "a.pdf.txt", false),
            ("a*b*c", "aXXbYYbZc", true),
            ("a*b*c", "aXXbYYbZ", false),
            ("?.txt", "ä.txt", true),
            ("?.txt", ".txt", false),
            ("**", "", true),
        ] {
            assert_eq!(NameQuery::of(text).unwrap().fits(name), fits, "{text} {name}");
        }
        assert_eq!(NameQuery::of(""), None);
        assert_eq!(NameQuery::of(&"a".repeat(limits::QUERY_BYTES + 1)), None);
    }
}
