//! The rules that a machine checks (ARCHITECTURE.md, "Rules"). Each finding names file, line and
//! rule; the list of allowed crate edges is data, so that a new edge is a reviewed diff.

mod allowed_circles;
mod circles;
mod dependencies;
mod edges;
mod finding;
mod habits;
mod imports;
mod source;
mod texts;
mod workspace;

use anyhow::{Result, bail};

pub(crate) use workspace::metadata as workspace_metadata;

/// Checks the whole workspace and fails with the list of findings.
pub(crate) fn run() -> Result<()> {
    let metadata = workspace::metadata()?;
    let root = metadata.workspace_root.as_std_path();
    let files = workspace::source_files(root)?;
    let mut findings = edges::check(&metadata);
    findings.extend(dependencies::check(&metadata, &files)?);
    findings.extend(files.iter().flat_map(source::check));
    findings.extend(source::stale_exceptions(root));
    findings.extend(circles::check(&files));
    findings.extend(files.iter().flat_map(habits::check));
    findings.extend(texts::check(root, &files, &workspace::documents(root)?)?);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} source files, no findings", files.len());
        return Ok(());
    }
    bail!("tidy: {} findings", findings.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_is_tidy() {
        super::run().unwrap();
    }
}
