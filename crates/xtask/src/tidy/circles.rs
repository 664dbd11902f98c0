//! Import circles between the files of a crate. A file that needs another, which needs it back,
//! can only be read together with it. Where two files need the same type, it moves to a file of
//! its own, which both import.
//!
//! Circles that are not broken yet are listed in `allowed_circles.rs`. A listed circle may shrink
//! or fall apart; a file or a pair that joins it is a finding, and so is an entry that no circle
//! needs any more.

use std::collections::{BTreeMap, BTreeSet};

use super::allowed_circles::{ALLOWED, Allowed, below_crates};
use super::finding::Finding;
use super::imports::{CrateFiles, Imports, crate_and_module};
use super::workspace::SourceFile;

const RULE: &str = "circles";

/// Checks each crate by itself: between crates the compiler allows no circle.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut crates: BTreeMap<String, CrateFiles> = BTreeMap::new();
    for file in files.iter().filter(|file| !is_test_file(&file.name)) {
        if let Some((name, module)) = crate_and_module(&file.name) {
            crates.entry(name).or_default().add(module, file);
        }
    }
    let circles: Vec<Circle> =
        crates.values().flat_map(|files| circles(&files.imports())).collect();
    judge(&circles, ALLOWED)
}

/// The test kit and this program are sources here, not tests: circles cost their readers too.
fn is_test_file(file: &str) -> bool {
    let is_folder_of_tests = |part: &str| matches!(part, "tests" | "benches" | "examples");
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.split('/').any(is_folder_of_tests)
        || file.ends_with("/tests.rs")
        || file.ends_with("/fixture.rs")
}

/// Files of which each reaches each other by imports.
#[derive(Debug, PartialEq)]
struct Circle {
    files: BTreeSet<String>,
    /// Files that import each other directly, with the line of the import in each.
    pairs: BTreeMap<(String, String), (usize, usize)>,
    /// All imports inside the circle, with their lines.
    imports: Vec<(String, usize, String)>,
}

fn circles(imports: &Imports) -> Vec<Circle> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, reached_from(imports, file))).collect();
    let circle_of = |file: &&String| -> BTreeSet<String> {
        let others = imports
            .keys()
            .filter(|other| reached[*file].contains(other) && reached[other].contains(*file));
        others.cloned().collect()
    };
    let all: BTreeSet<BTreeSet<String>> =
        reached.keys().map(circle_of).filter(|files| files.len() > 1).collect();
    all.into_iter().map(|files| circle(files, imports)).collect()
}

fn reached_from<'a>(imports: &'a Imports, from: &String) -> BTreeSet<&'a String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        for next in imports.get(file).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}

fn circle(files: BTreeSet<String>, imports: &Imports) -> Circle {
    let line = |from: &String, to: &String| imports.get(from).and_then(|targets| targets.get(to));
    let mut inside = Vec::new();
    let mut pairs = BTreeMap::new();
    for from in &files {
        for to in &files {
            let Some(there) = line(from, to) else { continue };
            inside.push((from.clone(), *there, to.clone()));
            if let Some(back) = line(to, from).filter(|_| from < to) {
                pairs.insert((from.clone(), to.clone()), (*there, *back));
            }
        }
    }
    Circle { files, pairs, imports: inside }
}

fn judge(found: &[Circle], allowed: &[Allowed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut needed = vec![false; allowed.len()];
    for circle in found {
        let shared =
            |entry: &Allowed| circle.files.iter().filter(|file| entry.has_file(file)).count();
        let nearest = (0..allowed.len()).max_by_key(|index| shared(&allowed[*index]));
        match nearest.filter(|index| shared(&allowed[*index]) > 1) {
            None => findings.push(unlisted(circle)),
            Some(index) => {
                needed[index] = true;
                findings.extend(joined(circle, &allowed[index]));
            }
        }
    }
    let unneeded = allowed.iter().zip(needed).filter(|(_, is_needed)| !is_needed);
    findings.extend(unneeded.map(|(entry, _)| Finding {
        file: "crates/xtask/src/tidy/allowed_circles.rs".to_owned(),
        line: 1,
        rule: RULE,
        what: format!(
            "the circle of {} is broken: remove its entry from the list",
            entry.files.join(", ")
        ),
    }));
    findings
}

fn unlisted(circle: &Circle) -> Finding {
    let files: Vec<&str> = circle.files.iter().map(|file| below_crates(file)).collect();
    let mut what = format!("{} form a circle of imports. ", files.join(", "));
    if circle.pairs.is_empty() {
        what.push_str("The imports in it are:");
        for (from, line, to) in &circle.imports {
            what.push_str(&format!("\n    {from}:{line} imports {to}"));
        }
    } else {
        what.push_str("These files import each other:");
        for ((one, other), (there, back)) in &circle.pairs {
            what.push_str(&format!("\n    {one}:{there} and {other}:{back}"));
        }
    }
    finding(circle, what)
}

/// What is new in a circle that is listed.
fn joined(circle: &Circle, entry: &Allowed) -> Option<Finding> {
    let mut news = Vec::new();
    for file in circle.files.iter().filter(|file| !entry.has_file(file)) {
        news.push(format!("\n    {file} is in it now"));
    }
    for ((one, other), (there, back)) in &circle.pairs {
        if !entry.has_pair(one, other) {
            news.push(format!("\n    {one}:{there} and {other}:{back} import each other now"));
        }
    }
    (!news.is_empty())
        .then(|| finding(circle, format!("a circle of imports has grown:{}", news.concat())))
}

fn finding(circle: &Circle, what: String) -> Finding {
    let file = circle.files.first().cloned().unwrap_or_default();
    Finding { file, line: 1, rule: RULE, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate `x` with these files, given by their paths below `src`.
    fn circles_of(files: &[(&str, &str)]) -> Vec<Circle> {
        let mut all = CrateFiles::default();
        for (name, text) in files {
            let file = SourceFile::parse(&format!("crates/x/src/{name}"), text).unwrap();
            all.add(crate_and_module(&file.name).unwrap().1, &file);
        }
        circles(&all.imports())
    }

    fn names(circle: &Circle) -> Vec<&str> {
        circle.files.iter().map(|file| file.strip_prefix("crates/x/src/").unwrap()).collect()
    }

    fn names_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let owned = |circle: &Circle| names(circle).into_iter().map(str::to_owned).collect();
        circles_of(files).iter().map(owned).collect()
    }

    #[test]
    fn two_files_that_import_each_other_are_a_circle() {
        let found = names_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::Two; pub struct One(Two);"),
            ("b.rs", "use crate::a::One; pub struct Two(Box<One>);"),
        ]);
        assert_eq!(found, [["a.rs", "b.rs"]]);
    }

    #[test]
    fn a_circle_may_pass_through_several_files() {
        let found = circles_of(&[
            ("lib.rs", "mod a; mod b; mod c; mod aside;"),
            ("a.rs", "use super::b::B;"),
            ("b.rs", "fn f() { super::c::g(); }"),
            ("c.rs", "use crate::aside::D;\nuse crate::a::A;"),
            ("aside.rs", "pub struct D;"),
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!(names(&found[0]), ["a.rs", "b.rs", "c.rs"]);
        assert!(found[0].pairs.is_empty());
        let last = ("crates/x/src/c.rs".to_owned(), 2, "crates/x/src/a.rs".to_owned());
        assert_eq!(found[0].imports.last(), Some(&last));
    }

    #[test]
    fn a_parent_and_a_child_that_need_each_other_are_a_circle() {
        let found = names_of(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod child; pub struct A; fn f() -> child::C { todo!() }"),
            ("a/child.rs", "pub struct C(super::A);"),
        ]);
        assert_eq!(found, [["a.rs", "a/child.rs"]]);
    }

    #[test]
    fn a_parent_that_only_declares_children_is_in_no_circle() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod child; pub struct A;"),
            ("a/child.rs", "use super::A; pub struct C(A);"),
        ];
        assert_eq!(circles_of(&files), []);
    }

    #[test]
    fn a_facade_stands_for_the_file_that_defines_the_name() {
        let facade = "mod a; mod b; pub use a::One; pub use b::*;";
        let one_way = [
            ("lib.rs", facade),
            ("a.rs", "use crate::Two; pub struct One(Two);"),
            ("b.rs", "pub struct Two;"),
        ];
        assert_eq!(circles_of(&one_way), []);
        let both_ways = [
            ("lib.rs", facade),
            ("a.rs", "use crate::Two; pub struct One(Two);"),
            ("b.rs", "pub struct Two; fn f(_: crate::One) {}"),
        ];
        assert_eq!(names_of(&both_ways), [["a.rs", "b.rs"]]);
    }

    #[test]
    fn importing_a_module_or_everything_in_it_hides_nothing() {
        let found = names_of(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b; fn f() { b::g(); }"),
            ("b.rs", "use super::a::*; pub fn g() {}"),
            ("c.rs", "use crate::{a as first, b::{self}}; fn f() { first::f(); b::g(); }"),
        ]);
        assert_eq!(found, [["a.rs", "b.rs"]]);
    }

    #[test]
    fn what_tests_import_does_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] use a::A;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            (
                "b.rs",
                "pub struct B; #[cfg(test)] fn make() -> crate::a::A { todo!() }
                 impl B { #[cfg(test)] fn a(&self) -> crate::a::A { todo!() } }
                 #[cfg(test)] mod tests { use super::*; use crate::a::A; }",
            ),
        ];
        assert_eq!(circles_of(&files), []);
        assert!(is_test_file("crates/x/src/tests.rs"));
        assert!(is_test_file("crates/x/src/tests/world.rs"));
        assert!(!is_test_file("crates/testkit/src/world.rs"));
    }

    const PAIR: &[(&str, &str)] = &[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
        ("c.rs", "pub struct C;"),
    ];
    const LISTED: Allowed = Allowed {
        files: &["x/src/a.rs", "x/src/b.rs"],
        pairs: &["x/src/a.rs ↔ x/src/b.rs"],
        reason: "not broken yet",
    };

    fn reports(files: &[(&str, &str)], allowed: &[Allowed]) -> Vec<String> {
        judge(&circles_of(files), allowed).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_report_names_the_imports() {
        let expected = "crates/x/src/a.rs:1: [circles] x/src/a.rs, x/src/b.rs form a circle of \
                        imports. These files import each other:\n    \
                        crates/x/src/a.rs:1 and crates/x/src/b.rs:1";
        assert_eq!(reports(PAIR, &[]), [expected]);
    }

    #[test]
    fn a_listed_circle_may_shrink_but_not_grow() {
        assert_eq!(reports(PAIR, &[LISTED]), [""; 0]);
        let three = Allowed {
            files: &["x/src/a.rs", "x/src/b.rs", "x/src/c.rs"],
            pairs: &["x/src/a.rs ↔ x/src/b.rs", "x/src/b.rs ↔ x/src/c.rs"],
            reason: "not broken yet",
        };
        assert_eq!(reports(PAIR, &[three]), [""; 0]);

        let mut grown = PAIR.to_vec();
        grown[2].1 = "use crate::{a::A, c::C}; pub struct B;";
        grown[3].1 = "use crate::b::B; pub struct C;";
        let found = reports(&grown, &[LISTED]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("a circle of imports has grown:"), "{}", found[0]);
        assert!(found[0].contains("\n    crates/x/src/c.rs is in it now"), "{}", found[0]);
        let pair = "\n    crates/x/src/b.rs:1 and crates/x/src/c.rs:1 import each other now";
        assert!(found[0].contains(pair), "{}", found[0]);
    }

    #[test]
    fn a_new_pair_in_a_listed_circle_is_a_finding() {
        let no_pair = Allowed { pairs: &[], ..LISTED };
        let found = reports(PAIR, &[no_pair]);
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("crates/x/src/b.rs:1 import each other now"), "{}", found[0]);
    }

    #[test]
    fn an_entry_whose_circle_is_broken_must_go() {
        let broken = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "")];
        let found = reports(&broken, &[LISTED]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("x/src/a.rs, x/src/b.rs is broken"), "{}", found[0]);
    }
}
