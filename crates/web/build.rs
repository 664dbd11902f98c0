//! Makes the table of the pages of `docs/errors`, which the server shows under `/docs/errors`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../docs/errors");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut pages: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&folder)? {
        pages.push(entry?.path().canonicalize()?);
    }
    pages.sort();
    let mut table = String::from("&[\n");
    for page in pages {
        let code = page.file_stem().and_then(|name| name.to_str()).ok_or("a page has no name")?;
        writeln!(table, "    ({code:?}, include_str!({page:?})),")?;
    }
    table.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("error_pages.rs"), table)?;
    Ok(())
}
