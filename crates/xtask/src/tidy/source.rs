//! Rules on Rust source, from its syntax tree.

use std::path::Path;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::finding::Finding;
use super::workspace::SourceFile;

const FUNCTION_LINES: usize = 70;
const FILE_LINES: usize = 800;
const LINE_COLUMNS: usize = 100;
const PARAMETERS: usize = 5;

/// Files that may use `unsafe` (rule 5): one function per system call or call of AWS-LC, and loads,
/// stores and the choice of instructions where a cipher is written with vectors.
const UNSAFE: &[&str] =
    &["crates/storage/", "crates/net/", "crates/crypto/src/ffi.rs", "crates/crypto/src/tdes"];
/// The one place with a clock and randomness.
const CLOCK: &[&str] = &["crates/nouns/src/env.rs"];
/// Only `net` binds or dials. Tests and the test kit start servers and clients of their own.
const SOCKETS: &[&str] = &["crates/net/", "crates/testkit/", "tests/"];
/// Only `storage` opens users' files. The others named here open the node's own files only:
/// journal segments, the database file, the master key, configuration; and what `/proc` says of
/// programs.
const FILES: &[&str] = &[
    "crates/storage/",
    "crates/journal/",
    "crates/db/",
    "crates/crypto/src/seal.rs",
    "crates/entrepot/",
    "crates/import/src/files.rs",
    "crates/import/src/folder.rs",
    "crates/loadgen/",
    "crates/spawn/src/proc.rs",
    "crates/testkit/",
    "crates/web/build.rs",
    "crates/xtask/",
    "tests/",
];

/// Exceptions for files and folders that are not there any more.
pub(super) fn stale_exceptions(root: &Path) -> Vec<Finding> {
    let exceptions = [UNSAFE, CLOCK, SOCKETS, FILES].concat();
    let stale = exceptions.into_iter().filter(|place| !root.join(place).exists());
    let found = stale.map(|place| Finding {
        file: "crates/xtask/src/tidy/source.rs".to_owned(),
        line: 1,
        rule: "exceptions",
        what: format!("'{place}' is excused from a rule and does not exist"),
    });
    found.collect()
}

pub(super) fn check(source: &SourceFile) -> Vec<Finding> {
    let in_tests = is_test_file(&source.name) || source.tree.attrs.iter().any(is_cfg_test);
    let lines: Vec<&str> = source.text.lines().collect();
    let mut rules = Rules {
        file: &source.name,
        lines: &lines,
        test_depth: usize::from(in_tests),
        in_trait_impl: false,
        found: Vec::new(),
    };
    rules.file_size();
    rules.visit_file(&source.tree);
    rules.found
}

pub(super) fn is_test_file(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    let in_folder = |name: &str| parts.iter().rev().skip(1).any(|part| *part == name);
    in_folder("tests")
        || in_folder("benches")
        || in_folder("examples")
        || file.ends_with("/tests.rs")
        || file.ends_with("/fixture.rs")
        || file.starts_with("crates/testbed/")
        || file.starts_with("crates/testkit/")
        || file.starts_with("crates/world/")
        || file.starts_with("crates/xtask/")
}

pub(super) fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "test")
}

pub(super) fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    is_cfg_test(attribute)
        || attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
}

struct Rules<'a> {
    file: &'a str,
    lines: &'a [&'a str],
    test_depth: usize,
    /// Inside `impl Trait for`: the trait decides how many parameters there are.
    in_trait_impl: bool,
    found: Vec<Finding>,
}

impl Rules<'_> {
    fn report(&mut self, span: Span, rule: &'static str, what: impl Into<String>) {
        self.found.push(Finding {
            file: self.file.to_owned(),
            line: span.start().line,
            rule,
            what: what.into(),
        });
    }

    fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.file.starts_with(place))
    }

    fn file_size(&mut self) {
        let too_long = |line: &str| line.chars().count() > LINE_COLUMNS;
        let lines = (1..).zip(self.lines).filter(|(_, line)| too_long(line));
        self.found.extend(lines.map(|(line, _)| Finding {
            file: self.file.to_owned(),
            line,
            rule: "columns",
            what: format!("a line has more than {LINE_COLUMNS} columns"),
        }));
        if self.lines.len() > FILE_LINES {
            let what = format!("{} lines, the limit is {FILE_LINES}", self.lines.len());
            self.report(Span::call_site(), "file-length", what);
        }
    }

    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let lines = body.span().end().line - signature.span().start().line + 1;
        if lines > FUNCTION_LINES {
            let what =
                format!("'{}' has {lines} lines, the limit is {FUNCTION_LINES}", signature.ident);
            self.report(signature.span(), "function-length", what);
        }
        let plain = signature.inputs.iter().filter(|input| matches!(input, syn::FnArg::Typed(_)));
        let count = plain.count();
        if count > PARAMETERS && !self.in_trait_impl {
            let what =
                format!("'{}' has {count} parameters, the limit is {PARAMETERS}", signature.ident);
            self.report(signature.span(), "parameters", what);
        }
    }

    /// A comment on the line or in the five lines above it names the invariant.
    fn has_reason(&self, span: Span) -> bool {
        let last = span.end().line;
        let first = span.start().line.saturating_sub(6);
        self.lines
            .get(first..last)
            .is_some_and(|lines| lines.iter().any(|line| line.contains("//")))
    }

    fn panicking(&mut self, span: Span, what: &str) {
        if self.test_depth == 0 && !self.has_reason(span) {
            self.report(
                span,
                "panics",
                format!("{what} without a comment that names the invariant"),
            );
        }
    }

    fn path_use(&mut self, path: &syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let ends =
            |tail: &[&str]| words.len() >= tail.len() && words[words.len() - tail.len()..] == *tail;
        let clock = ends(&["SystemTime", "now"])
            || ends(&["Instant", "now"])
            || ends(&["Uuid", "new_v4"])
            || ends(&["Uuid", "now_v7"])
            || ends(&["getrandom", "fill"])
            || ends(&["Timestamp", "now"])
            || ends(&["Zoned", "now"]);
        if clock && self.test_depth == 0 && !self.is_in(CLOCK) {
            self.report(path.span(), "env", format!("'{}' outside nouns::Env", words.join("::")));
        }
        let socket = ["TcpListener", "TcpStream", "TcpSocket", "UdpSocket"].iter().any(|name| {
            ends(&[name, "bind"]) || ends(&[name, "connect"]) || ends(&[name, "new_v4"])
        });
        if socket && self.test_depth == 0 && !self.is_in(SOCKETS) {
            self.report(path.span(), "sockets", format!("'{}' outside net", words.join("::")));
        }
        let open = ends(&["File", "open"])
            || ends(&["File", "create"])
            || ends(&["OpenOptions", "new"])
            || words.windows(2).any(|two| {
                two[0] == "fs"
                    && matches!(
                        two[1].as_str(),
                        "read"
                            | "write"
                            | "remove_file"
                            | "rename"
                            | "read_dir"
                            | "create_dir_all"
                            | "read_to_string"
                            | "openat2"
                            | "openat"
                    )
            });
        if open && self.test_depth == 0 && !self.is_in(FILES) {
            self.report(path.span(), "files", format!("'{}' outside storage", words.join("::")));
        }
        let sleeps = ends(&["sleep"]) || ends(&["sleep_until"]);
        if sleeps && self.test_depth > 0 && !self.is_in(&["crates/testkit/", "crates/xtask/"]) {
            self.report(path.span(), "sleep", "a test must wait for an event, not for time");
        }
    }

    fn unsafe_use(&mut self, span: Span) {
        if !self.is_in(UNSAFE) {
            self.report(span, "unsafe", "only storage, net and, in crypto, AWS-LC and vectors may");
        } else if !self.near_safety(span) {
            self.report(span, "unsafe", "a SAFETY comment is missing");
        }
    }

    fn near_safety(&self, span: Span) -> bool {
        let line = span.start().line;
        let above = self.lines.get(line.saturating_sub(6)..line);
        above.is_some_and(|lines| lines.iter().any(|text| text.contains("SAFETY:")))
    }

    fn within<T>(&mut self, is_test: bool, visit: impl FnOnce(&mut Self) -> T) {
        self.test_depth += usize::from(is_test);
        visit(self);
        self.test_depth -= usize::from(is_test);
    }
}

impl<'ast> Visit<'ast> for Rules<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let test = item.attrs.iter().any(is_test_attribute);
        self.within(test, |rules| visit::visit_item_mod(rules, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        if item.sig.unsafety.is_some() {
            self.unsafe_use(item.sig.span());
        }
        let test = item.attrs.iter().any(is_test_attribute);
        self.within(test, |rules| visit::visit_item_fn(rules, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        let test = item.attrs.iter().any(is_test_attribute);
        self.within(test, |rules| visit::visit_impl_item_fn(rules, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.unsafety.is_some() {
            self.unsafe_use(item.impl_token.span());
        }
        let test = item.attrs.iter().any(is_test_attribute);
        let outer = std::mem::replace(&mut self.in_trait_impl, item.trait_.is_some());
        self.within(test, |rules| visit::visit_item_impl(rules, item));
        self.in_trait_impl = outer;
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafe_use(block.unsafe_token.span());
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let name = call.method.to_string();
        if matches!(name.as_str(), "unwrap" | "expect" | "unwrap_err" | "expect_err") {
            self.panicking(call.method.span(), &format!("'.{name}()'"));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_index(&mut self, index: &'ast syn::ExprIndex) {
        self.panicking(index.span(), "indexing");
        visit::visit_expr_index(self, index);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path_use(path);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let name = item.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        if name == "todo" || name == "unimplemented" {
            self.report(item.path.span(), "stub", format!("'{name}!' is left"));
        }
        if matches!(name.as_str(), "panic" | "unreachable") {
            self.panicking(item.path.span(), &format!("'{name}!'"));
        }
        visit::visit_macro(self, item);
    }
}
