//! Write locks (RFC 4918 §6, §7): who has which, and who may change what. Paths begin with `/` and
//! do not end with one; the root is `/`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::element::{Element, Node};
use crate::headers::Depth;
use crate::limits::LOCKS;

/// Whether others may have a lock on the same resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Nobody else may have one.
    Exclusive,
    /// Others with shared locks may.
    Shared,
}

/// A lock that an account has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// What its owner submits to change what it covers.
    pub token: String,
    /// The resource that was locked.
    pub path: String,
    /// Zero, or infinity: with everything below it.
    pub depth: Depth,
    /// Whether others may have one too.
    pub scope: Scope,
    /// The account whose lock it is: a token counts in its requests only.
    pub account: String,
    /// What the client says about itself.
    pub owner: Vec<Node>,
    /// For how long it was asked.
    pub timeout: Duration,
    /// When it ends, by the clock that `now` comes from.
    pub ends: Duration,
}

impl Lock {
    fn covers(&self, path: &str) -> bool {
        self.path == path || self.depth == Depth::Infinity && is_below(path, &self.path)
    }

    /// As it stands in the property `lockdiscovery` (§15.8); `href` is the percent-encoded path of
    /// [`Lock::path`].
    pub fn to_element(&self, href: &str, now: Duration) -> Element {
        let text =
            |name: &str, text: String| Node::Element(Element::dav(name, vec![Node::Text(text)]));
        let inside = |name: &str, nodes: Vec<Node>| Node::Element(Element::dav(name, nodes));
        let scope = match self.scope {
            Scope::Exclusive => "exclusive",
            Scope::Shared => "shared",
        };
        let left = self.ends.saturating_sub(now).as_secs();
        let mut nodes = vec![
            inside("locktype", vec![inside("write", Vec::new())]),
            inside("lockscope", vec![inside(scope, Vec::new())]),
            text("depth", self.depth.as_str().to_owned()),
        ];
        if !self.owner.is_empty() {
            nodes.push(inside("owner", self.owner.clone()));
        }
        nodes.push(text("timeout", format!("Second-{left}")));
        nodes.push(inside("locktoken", vec![text("href", self.token.clone())]));
        nodes.push(inside("lockroot", vec![text("href", href.to_owned())]));
        Element::dav("activelock", nodes)
    }
}

/// What somebody wants to do to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Write to what is there.
    Contents,
    /// Make something of this name: its folder changes too.
    New,
    /// Take the name away, with all that lies below: its folder changes too.
    Tree,
}

/// A lock that is asked for.
#[derive(Clone, Debug)]
pub struct WantedLock {
    /// A new token that nobody has: `urn:uuid:…`.
    pub token: String,
    /// The resource that is to be locked.
    pub path: String,
    /// [`Depth::One`] counts as infinity.
    pub depth: Depth,
    /// Whether others may have one too.
    pub scope: Scope,
    /// Whose lock it will be.
    pub account: String,
    /// What the client says about itself.
    pub owner: Vec<Node>,
    /// For how long it is asked.
    pub timeout: Duration,
}

/// Why there is no lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// These resources are locked by others.
    Locked(Vec<String>),
    /// There are as many locks as there may be.
    Full,
}

/// All locks of a tree of files.
#[derive(Debug, Default)]
pub struct Locks {
    by_token: BTreeMap<String, Lock>,
    /// Path and token, in the order of paths.
    by_path: BTreeSet<(String, String)>,
    /// When each ends, and its token.
    by_end: BTreeSet<(Duration, String)>,
}

impl Locks {
    /// Gives a lock, unless others have one that keeps it out.
    ///
    /// # Errors
    /// See [`Taken`].
    pub fn take(&mut self, wanted: WantedLock, now: Duration) -> Result<&Lock, Taken> {
        self.forget_ended(now);
        let depth = if wanted.depth == Depth::Zero { Depth::Zero } else { Depth::Infinity };
        let mut in_the_way: Vec<&Lock> = self.covering(&wanted.path).collect();
        if depth == Depth::Infinity {
            in_the_way.extend(self.below(&wanted.path));
        }
        in_the_way
            .retain(|lock| lock.scope == Scope::Exclusive || wanted.scope == Scope::Exclusive);
        if !in_the_way.is_empty() {
            return Err(Taken::Locked(paths(in_the_way)));
        }
        if self.by_token.len() >= LOCKS {
            return Err(Taken::Full);
        }
        let WantedLock { token, path, scope, account, owner, timeout, .. } = wanted;
        let ends = now + timeout;
        self.by_path.insert((path.clone(), token.clone()));
        self.by_end.insert((ends, token.clone()));
        let lock = Lock { token: token.clone(), path, depth, scope, account, owner, timeout, ends };
        Ok(self.by_token.entry(token).or_insert(lock))
    }

    /// Begins the time of the lock again that covers `path` and whose owner asks, with its token.
    pub fn refresh(
        &mut self,
        path: &str,
        asks: Asks<'_>,
        timeout: Duration,
        now: Duration,
    ) -> Option<&Lock> {
        self.forget_ended(now);
        let own = |token: &&&str| {
            let lock = self.by_token.get(**token);
            lock.is_some_and(|lock| lock.account == asks.account && lock.covers(path))
        };
        let token = *asks.tokens.iter().find(own)?;
        let lock = self.by_token.get_mut(token)?;
        self.by_end.remove(&(lock.ends, token.to_owned()));
        lock.timeout = timeout;
        lock.ends = now + timeout;
        self.by_end.insert((lock.ends, token.to_owned()));
        Some(lock)
    }

    /// Ends a lock, if `account` has it and it covers `path`; false if there is none.
    pub fn release(&mut self, token: &str, path: &str, account: &str) -> bool {
        let known = self.by_token.get(token);
        let own = known.is_some_and(|lock| lock.account == account && lock.covers(path));
        own && self.drop_lock(token)
    }

    /// The locks on a resource, its own and those from above.
    pub fn on(&mut self, path: &str, now: Duration) -> Vec<&Lock> {
        self.forget_ended(now);
        self.covering(path).collect()
    }

    /// Whether `account`, which submits these tokens, may change a path.
    ///
    /// # Errors
    /// The locked resources whose tokens are missing.
    pub fn check(
        &mut self,
        path: &str,
        change: Change,
        asks: Asks<'_>,
        now: Duration,
    ) -> Result<(), Vec<String>> {
        self.forget_ended(now);
        let mut missing = missing(self.covering(path).collect(), asks);
        if change != Change::Contents {
            // The folder has one member more or less.
            missing.extend(self::missing(self.covering(parent(path)).collect(), asks));
        }
        if change == Change::Tree {
            for lock in self.below(path) {
                let beside = self.covering(&lock.path).collect();
                missing.extend(self::missing(beside, asks));
            }
        }
        missing.sort();
        missing.dedup();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// True if this token is that of a lock on the resource.
    pub fn is_locked_with(&mut self, path: &str, token: &str, now: Duration) -> bool {
        self.forget_ended(now);
        self.by_token.get(token).is_some_and(|lock| lock.covers(path))
    }

    /// Ends the locks at a path and below it: what they were on is gone or has another name.
    pub fn forget_tree(&mut self, path: &str) {
        let at = self.at(path).map(|lock| lock.token.clone());
        let tokens: Vec<String> = at.chain(self.below(path).map(|it| it.token.clone())).collect();
        for token in tokens {
            self.drop_lock(&token);
        }
    }

    fn drop_lock(&mut self, token: &str) -> bool {
        let Some(lock) = self.by_token.remove(token) else { return false };
        self.by_end.remove(&(lock.ends, lock.token.clone()));
        self.by_path.remove(&(lock.path, lock.token))
    }

    fn forget_ended(&mut self, now: Duration) {
        while let Some((ends, token)) = self.by_end.pop_first() {
            if ends > now {
                self.by_end.insert((ends, token));
                return;
            }
            self.drop_lock(&token);
        }
    }

    fn at(&self, path: &str) -> impl Iterator<Item = &Lock> {
        let first = (path.to_owned(), String::new());
        let own = path.to_owned();
        let range = self.by_path.range(first..).take_while(move |(at, _)| *at == own);
        range.filter_map(|(_, token)| self.by_token.get(token))
    }

    /// On the resource and on folders above it that cover it.
    fn covering(&self, path: &str) -> impl Iterator<Item = &Lock> {
        let mut places = vec![path];
        while let Some(last) = places.last().copied().filter(|last| *last != "/") {
            places.push(parent(last));
        }
        let path = path.to_owned();
        places
            .into_iter()
            .flat_map(|place| self.at(place).collect::<Vec<_>>())
            .filter(move |lock| lock.covers(&path))
    }

    fn below(&self, path: &str) -> impl Iterator<Item = &Lock> {
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        let first = (prefix.clone(), String::new());
        let range = self.by_path.range(first..);
        let inside = range.take_while(move |(at, _)| at.starts_with(&prefix));
        let locks = inside.filter_map(|(_, token)| self.by_token.get(token));
        let own = path.to_owned();
        locks.filter(move |lock| lock.path != own)
    }
}

/// Who asks for a change, with the tokens that were submitted.
#[derive(Clone, Copy, Debug)]
pub struct Asks<'a> {
    /// The account that asks.
    pub account: &'a str,
    /// The tokens that its request carries.
    pub tokens: &'a [&'a str],
}

/// Of locks that cover one resource one must be submitted by its owner: of shared ones any.
fn missing(covering: Vec<&Lock>, asks: Asks<'_>) -> Vec<String> {
    let is_submitted =
        |lock: &&Lock| lock.account == asks.account && asks.tokens.contains(&&*lock.token);
    if covering.iter().any(is_submitted) { Vec::new() } else { paths(covering) }
}

fn paths(locks: Vec<&Lock>) -> Vec<String> {
    let mut paths: Vec<String> = locks.into_iter().map(|lock| lock.path.clone()).collect();
    paths.sort();
    paths.dedup();
    paths
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    folder == "/" && path != "/" || rest.is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn wanted(path: &str, depth: Depth, scope: Scope, account: &str, token: &str) -> WantedLock {
        WantedLock {
            token: token.to_owned(),
            path: path.to_owned(),
            depth,
            scope,
            account: account.to_owned(),
            owner: Vec::new(),
            timeout: Duration::from_secs(60),
        }
    }

    fn may(locks: &mut Locks, path: &str, change: Change, account: &str, tokens: &[&str]) -> bool {
        locks.check(path, change, Asks { account, tokens }, NOW).is_ok()
    }

    #[test]
    fn an_exclusive_lock_keeps_others_and_its_owner_without_token_out() {
        let mut locks = Locks::default();
        let lock = wanted("/a/f", Depth::Zero, Scope::Exclusive, "anna", "t1");
        locks.take(lock.clone(), NOW).unwrap();
        for (account, tokens, allowed) in [
            ("anna", &["t1"][..], true),
            ("anna", &[], false),
            ("anna", &["t2"], false),
            ("bob", &["t1"], false),
        ] {
            let may = may(&mut locks, "/a/f", Change::Contents, account, tokens);
            assert_eq!(may, allowed, "{account} {tokens:?}");
        }
        assert!(may(&mut locks, "/a/g", Change::New, "bob", &[]), "the folder is free");
        assert!(!may(&mut locks, "/a", Change::Tree, "bob", &[]), "the file below is not");
        assert!(may(&mut locks, "/a", Change::Tree, "anna", &["t1"]));
        let second = WantedLock { token: "t2".to_owned(), ..lock };
        let taken = locks.take(second.clone(), NOW).unwrap_err();
        assert_eq!(taken, Taken::Locked(vec!["/a/f".to_owned()]));
        // It ends by itself.
        locks.take(second, NOW + Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn a_deep_lock_covers_what_is_below_and_a_flat_one_its_members_names() {
        let mut locks = Locks::default();
        locks.take(wanted("/a", Depth::Infinity, Scope::Exclusive, "anna", "t1"), NOW).unwrap();
        assert!(!may(&mut locks, "/a/b/c", Change::Contents, "bob", &[]));
        assert!(may(&mut locks, "/ab", Change::New, "bob", &[]), "another name");
        assert!(locks.take(wanted("/a/b", Depth::Zero, Scope::Shared, "bob", "t2"), NOW).is_err());
        assert!(locks.take(wanted("/", Depth::Infinity, Scope::Shared, "bob", "t2"), NOW).is_err());
        assert!(locks.release("t1", "/a/b", "anna"));
        locks.take(wanted("/a", Depth::Zero, Scope::Exclusive, "anna", "t1"), NOW).unwrap();
        assert!(may(&mut locks, "/a/b", Change::Contents, "bob", &[]));
        assert!(!may(&mut locks, "/a/b", Change::New, "bob", &[]));
        assert!(!may(&mut locks, "/a/b", Change::Tree, "bob", &[]));
        locks.take(wanted("/a/b", Depth::Infinity, Scope::Exclusive, "bob", "t2"), NOW).unwrap();
        assert!(may(&mut locks, "/a/b/c", Change::New, "bob", &["t2"]));
    }

    #[test]
    fn shared_locks_share() {
        let mut locks = Locks::default();
        locks.take(wanted("/f", Depth::Zero, Scope::Shared, "anna", "t1"), NOW).unwrap();
        locks.take(wanted("/f", Depth::Zero, Scope::Shared, "bob", "t2"), NOW).unwrap();
        let alone = wanted("/f", Depth::Zero, Scope::Exclusive, "carl", "t3");
        assert!(locks.take(alone, NOW).is_err());
        assert!(may(&mut locks, "/f", Change::Contents, "bob", &["t2"]));
        assert!(!may(&mut locks, "/f", Change::Contents, "carl", &["t1", "t2"]));
        assert_eq!(locks.on("/f", NOW).len(), 2);
        assert!(!locks.release("t1", "/f", "bob"), "it is another's");
        assert!(!locks.release("t1", "/g", "anna"), "it is on another resource");
        let longer = Duration::from_secs(90);
        let anna = Asks { account: "anna", tokens: &["t1"] };
        assert_eq!(locks.refresh("/f", anna, longer, NOW).unwrap().ends, NOW + longer);
        let bob = Asks { account: "bob", ..anna };
        assert!(locks.refresh("/f", bob, longer, NOW).is_none());
        locks.forget_tree("/f");
        assert!(locks.on("/f", NOW).is_empty());
        assert!(may(&mut locks, "/f", Change::Contents, "carl", &[]));
    }

    #[test]
    fn there_are_only_so_many() {
        let mut locks = Locks::default();
        for number in 0..LOCKS {
            let (path, token) = (format!("/{number}"), number.to_string());
            locks.take(wanted(&path, Depth::Zero, Scope::Shared, "a", &token), NOW).unwrap();
        }
        let more = wanted("/more", Depth::Zero, Scope::Shared, "a", "more");
        assert_eq!(locks.take(more, NOW).unwrap_err(), Taken::Full);
    }

    #[test]
    fn what_others_see_of_a_lock() {
        let mut locks = Locks::default();
        let lock = wanted("/a b", Depth::Infinity, Scope::Shared, "anna", "urn:uuid:1");
        let lock = locks.take(lock, NOW).unwrap();
        let element = lock.to_element("/dav/a%20b", NOW + Duration::from_secs(10));
        let mut text = String::new();
        element.write(&mut text);
        let read = Element::parse(text.as_bytes()).unwrap();
        assert_eq!(read.child("timeout").unwrap().text(), "Second-50");
        assert_eq!(read.child("lockroot").unwrap().child("href").unwrap().text(), "/dav/a%20b");
    }
}
