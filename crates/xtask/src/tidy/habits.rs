//! What hides from a reader what a caller passes or what an item is: tuple parameters, `bool`
//! parameters, `match` on a boolean, and doc comments of one or two words.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::finding::Finding;
use super::source::{is_cfg_test, is_test_attribute, is_test_file};
use super::workspace::SourceFile;

/// A doc comment with no more words than this says nothing that the name does not.
const SHORT_DOC_WORDS: usize = 2;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Habit {
    BoolMatch,
    BoolParameter,
    ShortDoc,
    TupleParameter,
}

impl Habit {
    /// The name of the rule in findings.
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

/// A habit, and the line where it was met.
type Met = (Habit, usize);

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    if is_test_file(&file.name) {
        return Vec::new();
    }
    let finding = |(habit, line): Met| Finding {
        file: file.name.clone(),
        line,
        rule: habit.name(),
        what: habit.advice().to_owned(),
    };
    habits_of(file).into_iter().map(finding).collect()
}

fn habits_of(file: &SourceFile) -> Vec<Met> {
    let mut looker = Looker::default();
    looker.visit_file(&file.tree);
    looker.short_docs();
    looker.met
}

#[derive(Default)]
struct Looker {
    /// Inside `impl Trait for`: the trait decides on the parameters.
    in_trait_impl: bool,
    docs: Vec<DocLine>,
    met: Vec<Met>,
}

/// One line of a doc comment.
struct DocLine {
    line: usize,
    words: usize,
}

impl Looker {
    fn meet(&mut self, habit: Habit, line: usize) {
        self.met.push((habit, line));
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

impl<'ast> Visit<'ast> for Looker {
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

    fn lines(text: &str, habit: Habit) -> Vec<usize> {
        let met = habits_of(&SourceFile::parse("crates/x/src/a.rs", text).unwrap());
        met.into_iter().filter(|(it, _)| *it == habit).map(|(_, line)| line).collect()
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
}
