//! A program that rules run, and that notes what it is given.

use std::path::PathBuf;

use anyhow::Result;
use entrepot_testkit::clients::text;
use entrepot_testkit::server::Node;

use crate::hooks::script;

/// The program, and the folder that it writes into.
pub(crate) struct Book {
    program: PathBuf,
    folder: PathBuf,
}

impl Book {
    /// Lets a node run the program, from its next start on.
    pub(crate) fn of(node: &Node) -> Result<Book> {
        let folder = node.scratch().join("book");
        std::fs::create_dir(&folder)?;
        let enter = "#!/bin/sh\necho \"$2 $3\" >> \"$1/runs\"\n";
        let program = script(node.scratch(), "enter", enter)?;
        let (allow, write) = (text(&program)?, text(&folder)?);
        node.configure(&format!("\n[exec]\nallow = ['{allow}']\nwrite = ['{write}']\n"))?;
        Ok(Book { program, folder })
    }

    /// Documents with the program for `ENTER` and the folder, its first argument, for `BOOK`.
    pub(crate) fn fill(&self, documents: &str) -> Result<String> {
        let documents = documents.replace("ENTER", text(&self.program)?);
        Ok(documents.replace("BOOK", text(&self.folder)?))
    }

    /// The second and third argument of each run so far.
    pub(crate) fn runs(&self) -> Vec<String> {
        let runs = std::fs::read_to_string(self.folder.join("runs"));
        runs.unwrap_or_default().lines().map(str::to_owned).collect()
    }
}
