//! Habits of STYLE that are on their way out: tuple parameters, `bool` parameters, `match` on a
//! boolean, and doc comments of one or two words. Each is counted per file and compared with
//! `habits.txt`: a file may not have more of a habit than the list says, and a count that fell
//! must be lowered there too (`cargo xtask tidy --lower`), so that it can only fall.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::finding::Finding;
use super::source::{is_cfg_test, is_test_attribute, is_test_file};
use super::workspace::SourceFile;

/// The list, from the root of the workspace.
const LIST: &str = "crates/xtask/src/tidy/habits.txt";

/// A doc comment with no more words than this says nothing that the name does not.
const SHORT_DOC_WORDS: usize = 2;

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Habit {
    BoolMatch,
    BoolParameter,
    ShortDoc,
    TupleParameter,
}

impl Habit {
    const ALL: [Habit; 4] =
        [Habit::BoolMatch, Habit::BoolParameter, Habit::ShortDoc, Habit::TupleParameter];

    /// The name in the list and in findings.
    fn name(self) -> &'static str {
        match self {
            Habit::BoolMatch => "bool-match",
            Habit::BoolParameter => "bool-parameter",
            Habit::ShortDoc => "short-doc",
            Habit::TupleParameter => "tuple-parameter",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Habit::BoolMatch => "write 'if' instead of 'match' on a boolean",
            Habit::BoolParameter => {
                "replace the bool parameter by an enum whose values say what they mean"
            }
            Habit::ShortDoc => "say something that the name does not, or remove the comment",
            Habit::TupleParameter => "replace the tuple parameter by a struct with named fields",
        }
    }
}

/// Per file and habit the lines where it was met.
type Met = BTreeMap<(String, Habit), Vec<usize>>;

/// Per file and habit how many are allowed.
type Allowed = BTreeMap<(String, Habit), usize>;

pub(super) fn check(root: &Path, files: &[SourceFile]) -> Result<Vec<Finding>> {
    Ok(judge(&count(files), &parse(&std::fs::read_to_string(root.join(LIST))?)?))
}

/// Writes the counts that fell into the list. Those that rose stay findings.
pub(super) fn lower(root: &Path, files: &[SourceFile]) -> Result<()> {
    let path = root.join(LIST);
    let lowered = lowered(&count(files), parse(&std::fs::read_to_string(&path)?)?);
    std::fs::write(path, format(&lowered)).context("cannot write the list of habits")
}

fn count(files: &[SourceFile]) -> Met {
    let mut met = Met::new();
    for file in files.iter().filter(|file| !is_test_file(&file.name)) {
        let mut counter =
            Counter { file: &file.name, in_trait_impl: false, docs: Vec::new(), met: &mut met };
        counter.visit_file(&file.tree);
        counter.short_docs();
    }
    met
}

fn judge(met: &Met, allowed: &Allowed) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ((file, habit), lines) in met {
        let limit = allowed.get(&(file.clone(), *habit)).copied().unwrap_or_default();
        if lines.len() > limit {
            findings.extend(lines.iter().map(|line| Finding {
                file: file.clone(),
                line: *line,
                rule: habit.name(),
                what: match limit {
                    0 => habit.advice().to_owned(),
                    _ => format!("{} (one of {}, allowed {limit})", habit.advice(), lines.len()),
                },
            }));
        }
    }
    for ((file, habit), limit) in allowed {
        let count = met.get(&(file.clone(), *habit)).map_or(0, Vec::len);
        if count < *limit {
            findings.push(Finding {
                file: file.clone(),
                line: 1,
                rule: habit.name(),
                what: format!(
                    "{count} are left and {LIST} allows {limit}: run 'cargo xtask tidy --lower'"
                ),
            });
        }
    }
    findings
}

fn lowered(met: &Met, mut allowed: Allowed) -> Allowed {
    for (key, limit) in &mut allowed {
        *limit = (*limit).min(met.get(key).map_or(0, Vec::len));
    }
    allowed.retain(|_, limit| *limit > 0);
    allowed
}

/// One line each: file, habit, count.
fn parse(list: &str) -> Result<Allowed> {
    let row = |line: &str| {
        let mut words = line.split(' ');
        let (file, name, count) = (words.next()?, words.next()?, words.next()?);
        let habit = Habit::ALL.into_iter().find(|habit| habit.name() == name)?;
        Some(((file.to_owned(), habit), count.parse().ok()?))
    };
    let parsed = |line: &str| row(line).with_context(|| format!("{LIST}: cannot read '{line}'"));
    list.lines().map(parsed).collect()
}

fn format(allowed: &Allowed) -> String {
    let row = |((file, habit), count): (&(String, Habit), &usize)| {
        format!("{file} {} {count}\n", habit.name())
    };
    allowed.iter().map(row).collect()
}

struct Counter<'a> {
    file: &'a str,
    /// Inside `impl Trait for`: the trait decides on the parameters.
    in_trait_impl: bool,
    docs: Vec<DocLine>,
    met: &'a mut Met,
}

/// One line of a doc comment.
struct DocLine {
    line: usize,
    words: usize,
}

impl Counter<'_> {
    fn meet(&mut self, habit: Habit, line: usize) {
        self.met.entry((self.file.to_owned(), habit)).or_default().push(line);
    }

    fn signature(&mut self, signature: &syn::Signature) {
        if self.in_trait_impl {
            return;
        }
        for input in &signature.inputs {
            let syn::FnArg::Typed(input) = input else { continue };
            match behind_references(&input.ty) {
                syn::Type::Tuple(tuple) if tuple.elems.len() > 1 => {
                    self.meet(Habit::TupleParameter, input.span().start().line);
                }
                syn::Type::Path(path) if path.path.is_ident("bool") => {
                    self.meet(Habit::BoolParameter, input.span().start().line);
                }
                _ => {}
            }
        }
    }

    /// Lines of documentation that follow each other are one comment.
    fn short_docs(&mut self) {
        let lines = std::mem::take(&mut self.docs);
        for comment in lines.chunk_by(|one, next| one.line + 1 == next.line) {
            let words: usize = comment.iter().map(|line| line.words).sum();
            if let Some(first) = comment.first().filter(|_| words <= SHORT_DOC_WORDS) {
                self.meet(Habit::ShortDoc, first.line);
            }
        }
    }
}

fn behind_references(mut ty: &syn::Type) -> &syn::Type {
    while let syn::Type::Reference(reference) = ty {
        ty = &reference.elem;
    }
    ty
}

fn doc_line(attribute: &syn::Attribute) -> Option<DocLine> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else {
        return None;
    };
    let line = attribute.span().start().line;
    let words = text.value().split_whitespace().count();
    pair.path.is_ident("doc").then_some(DocLine { line, words })
}

fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| is_cfg_test(attribute) || is_test_attribute(attribute))
}

fn is_bool_pattern(pattern: &syn::Pat) -> bool {
    matches!(pattern, syn::Pat::Lit(syn::ExprLit { lit: syn::Lit::Bool(_), .. }))
}

impl<'ast> Visit<'ast> for Counter<'_> {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        self.docs.extend(doc_line(attribute));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test_only(&item.attrs) {
            self.signature(&item.sig);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.signature(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test_only(&item.attrs) {
            self.signature(&item.sig);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test_only(&item.attrs) {
            let outer = std::mem::replace(&mut self.in_trait_impl, item.trait_.is_some());
            visit::visit_item_impl(self, item);
            self.in_trait_impl = outer;
        }
    }

    fn visit_expr_match(&mut self, item: &'ast syn::ExprMatch) {
        if item.arms.iter().any(|arm| is_bool_pattern(&arm.pat)) {
            self.meet(Habit::BoolMatch, item.match_token.span().start().line);
        }
        visit::visit_expr_match(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/x/src/a.rs";

    fn met(text: &str) -> Met {
        count(&[SourceFile::parse(FILE, text).unwrap()])
    }

    fn lines(text: &str, habit: Habit) -> Vec<usize> {
        met(text).remove(&(FILE.to_owned(), habit)).unwrap_or_default()
    }

    #[test]
    fn a_match_on_a_boolean_is_met_and_a_table_of_two_is_not() {
        let text = "fn f(a: u8) -> u8 {
            match a > 1 { true => 1, false => 2 };
            match (a > 1, a > 2) { (true, false) => 1, _ => 2 };
            match a { 1 => 1, _ => 2 }
        }";
        assert_eq!(lines(text, Habit::BoolMatch), [2]);
    }

    #[test]
    fn parameters_are_met_through_references_but_not_where_a_trait_decides() {
        let text = "fn f(a: bool, b: &mut bool, c: Option<bool>) {}
            impl S { fn g(&self, (a, b): (u8, u8), c: &(u8, u8), d: ()) {} }
            trait T { fn h(a: bool); }
            impl T for S { fn h(a: bool) {} }
            #[cfg(test)] mod tests { fn i(a: bool, b: (u8, u8)) {} }";
        assert_eq!(lines(text, Habit::BoolParameter), [1, 1, 3]);
        assert_eq!(lines(text, Habit::TupleParameter), [2, 2]);
    }

    #[test]
    fn a_doc_of_two_words_is_met_and_one_of_several_lines_is_not() {
        let text = "/// Which.
            struct A {
                /// The name.
                a: u8,
                /// The
                /// whole name.
                b: u8,
                // A note.
                c: u8,
            }";
        assert_eq!(lines(text, Habit::ShortDoc), [1, 3]);
    }

    #[test]
    fn counts_may_only_fall_and_the_list_falls_with_them() {
        let two = met("fn f(a: bool, b: bool) {}");
        let reports = |list: &str| -> Vec<String> {
            judge(&two, &parse(list).unwrap()).iter().map(ToString::to_string).collect()
        };
        let row = |count: usize| format!("{FILE} bool-parameter {count}\n");
        assert_eq!(reports(&row(2)), [""; 0]);
        assert_eq!(reports("").len(), 2, "each place is named");
        let risen = reports(&row(1));
        assert_eq!(risen.len(), 2);
        assert!(risen[0].ends_with("(one of 2, allowed 1)"), "{}", risen[0]);
        let fallen = reports(&row(3));
        assert_eq!(fallen.len(), 1);
        assert!(fallen[0].contains("2 are left and"), "{}", fallen[0]);

        let list = |count| parse(&row(count)).unwrap();
        assert_eq!(format(&lowered(&two, list(3))), row(2));
        assert_eq!(format(&lowered(&two, list(1))), row(1), "a list is never raised");
        assert_eq!(format(&lowered(&Met::new(), list(2))), "");
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error() {
        assert!(parse("crates/x/src/a.rs bool-parameters 2").is_err());
        assert!(parse("crates/x/src/a.rs bool-parameter").is_err());
    }
}
