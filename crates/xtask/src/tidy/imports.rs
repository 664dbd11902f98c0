//! Which file of a crate imports which other file of the same crate, read from their syntax trees.
//!
//! An import is a `use` path or a qualified path outside tests. A facade is looked through: what a
//! file only re-exports (`pub use`) counts as an import of the file that defines it, and
//! declaring a child module (`mod child;`) is no import.

use std::collections::{BTreeMap, BTreeSet};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::source::is_cfg_test;
use super::workspace::SourceFile;

/// A module by its path below the crate, such as `["tls", "config"]`; the crate root is empty.
type Module = Vec<String>;

/// For each file of a crate, the files that it imports and the first line that does.
pub(super) type Imports = BTreeMap<String, BTreeMap<String, usize>>;

/// The source files of one crate, read and ready to be asked for their imports.
#[derive(Default)]
pub(super) struct CrateFiles {
    modules: BTreeMap<Module, ModuleFile>,
}

#[derive(Default)]
struct ModuleFile {
    /// Relative to the root of the workspace.
    name: String,
    /// Every path that the file names, from the crate root, and the first line that names it.
    named: BTreeMap<Module, usize>,
    /// Names of the items that stand at the top of the file.
    defined: BTreeSet<String>,
    /// Names that the file re-exports, and what each stands for.
    reexports: BTreeMap<String, Module>,
    /// Modules of which the file re-exports everything (`pub use child::*`).
    reexported_whole: Vec<Module>,
}

/// How many re-exports of re-exports are followed.
const REEXPORT_DEPTH: usize = 8;

impl CrateFiles {
    /// Adds the file of a module.
    pub(super) fn add(&mut self, module: Module, source: &SourceFile) {
        let mut imported = ImportedNames::default();
        imported.visit_file(&source.tree);
        let mut reader = FileReader {
            module: module.clone(),
            depth: module.len(),
            imported: imported.names,
            file: ModuleFile { name: source.name.clone(), ..ModuleFile::default() },
        };
        reader.file.defined = source.tree.items.iter().filter_map(defined_name).collect();
        reader.visit_file(&source.tree);
        self.modules.insert(module, reader.file);
    }

    /// Who imports whom. Each file of the crate has an entry.
    pub(super) fn imports(&self) -> Imports {
        let mut all = Imports::new();
        for file in self.modules.values() {
            let mut targets: BTreeMap<String, usize> = BTreeMap::new();
            for (path, line) in &file.named {
                let Some(target) = self.defining_file(path, 0) else { continue };
                if target.name != file.name {
                    let first = targets.entry(target.name.clone()).or_insert(*line);
                    *first = (*first).min(*line);
                }
            }
            all.insert(file.name.clone(), targets);
        }
        all
    }

    /// The file that defines what a path names. `None` where the path ends at a module: what is
    /// meant of it is named by a longer path.
    fn defining_file(&self, path: &[String], depth: usize) -> Option<&ModuleFile> {
        let (file, rest) = (0..=path.len()).rev().find_map(|length| {
            let (module, rest) = path.split_at(length);
            self.modules.get(module).map(|file| (file, rest))
        })?;
        let (name, inner) = rest.split_first()?;
        if depth >= REEXPORT_DEPTH || file.defined.contains(name) {
            return Some(file);
        }
        if name == "*" {
            return Some(file);
        }
        if let Some(origin) = file.reexports.get(name).filter(|origin| *origin != path) {
            return self.defining_file(&[origin, inner].concat(), depth + 1);
        }
        let whole = file.reexported_whole.iter().find_map(|module| {
            let origin = [module.as_slice(), rest].concat();
            self.defining_file(&origin, depth + 1).filter(|found| found.defined.contains(name))
        });
        Some(whole.unwrap_or(file))
    }
}

/// `crates/net/src/tls/config.rs` is the module `tls::config` of `net`. `lib.rs` and `main.rs` are
/// the root of their crate.
pub(super) fn crate_and_module(file: &str) -> Option<(String, Module)> {
    let (name, inner) = file.strip_prefix("crates/")?.split_once("/src/")?;
    let mut module: Module = inner.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        module.pop();
    }
    Some((name.to_owned(), module))
}

fn defined_name(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Mod(item) if item.content.is_some() => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(is_cfg_test)
}

/// The leaves of a `use` tree: the path as written and the name it gets; a glob is named `*`.
fn use_leaves(tree: &syn::UseTree, prefix: &[String]) -> Vec<(Vec<String>, String)> {
    let with = |word: &syn::Ident| [prefix, &[word.to_string()]].concat();
    match tree {
        syn::UseTree::Path(path) => use_leaves(&path.tree, &with(&path.ident)),
        syn::UseTree::Group(group) => {
            group.items.iter().flat_map(|tree| use_leaves(tree, prefix)).collect()
        }
        syn::UseTree::Name(name) if name.ident == "self" => {
            vec![(prefix.to_vec(), prefix.last().cloned().unwrap_or_default())]
        }
        syn::UseTree::Name(name) => vec![(with(&name.ident), name.ident.to_string())],
        syn::UseTree::Rename(name) => vec![(with(&name.ident), name.rename.to_string())],
        syn::UseTree::Glob(_) => vec![([prefix, &["*".to_owned()]].concat(), "*".to_owned())],
    }
}

/// Collects what the `use` items of a file bind, so that `limits::SIZE` after `use crate::limits`
/// is known to be `crate::limits::SIZE`.
#[derive(Default)]
struct ImportedNames {
    names: BTreeMap<String, Vec<String>>,
}

impl<'ast> Visit<'ast> for ImportedNames {
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {
        // An inline module has imports of its own, and none in this tree is larger than its tests.
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for (path, name) in use_leaves(&item.tree, &[]) {
            self.names.insert(name, path);
        }
    }
}

struct FileReader {
    /// The module that is being read: that of the file, or an inline one in it.
    module: Module,
    /// How long the path of the file's own module is.
    depth: usize,
    imported: BTreeMap<String, Vec<String>>,
    file: ModuleFile,
}

impl FileReader {
    /// The path from the crate root. What belongs to another crate gets a path below this module,
    /// where no file is found for it but this one.
    fn resolve(&self, written: &[String]) -> Module {
        let mut path = self.module.clone();
        for word in written {
            match word.as_str() {
                "crate" => path.clear(),
                "super" => drop(path.pop()),
                "self" => {}
                _ => path.push(word.clone()),
            }
        }
        path
    }

    fn name(&mut self, written: &[String], line: usize) {
        let path = self.resolve(written);
        self.file.named.entry(path).or_insert(line);
    }

    fn reexport(&mut self, written: &[String], name: String) {
        let path = self.resolve(written);
        if name == "*" {
            self.file.reexported_whole.extend(path.split_last().map(|(_, module)| module.to_vec()));
        } else {
            self.file.reexports.insert(name, path);
        }
    }
}

impl<'ast> Visit<'ast> for FileReader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test_only(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_private = matches!(item.vis, syn::Visibility::Inherited);
        for (path, name) in use_leaves(&item.tree, &[]) {
            if is_private || self.module.len() > self.depth {
                self.name(&path, item.span().start().line);
            } else {
                self.reexport(&path, name);
            }
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test_only(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let [first, rest @ ..] = words.as_slice()
            && !rest.is_empty()
        {
            let imported = self.imported.get(first).map(|path| [path, rest].concat());
            self.name(&imported.unwrap_or_else(|| words.clone()), path.span().start().line);
        }
        visit::visit_path(self, path);
    }
}
