//! The Debian package: the files of the tree, and what is done on the machine around unpacking
//! them (`packaging/debian`). It is made by `dpkg-deb`.

use std::path::Path;

use anyhow::Result;

use super::command::{output, run};
use super::layout::{Dist, place, write};

/// Scripts of the package: dpkg runs them after unpacking and around removing.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// Makes the package and says how its file is named.
pub(super) fn package(dist: &Dist, tree: &Path) -> Result<String> {
    let root = dist.out.join("debian");
    run("cp", ["-a", &tree.display().to_string(), &root.display().to_string()])?;
    let control = root.join("DEBIAN");
    for script in SCRIPTS {
        let from = Path::new("packaging/debian").join(script);
        place(&from, &control.join(script), 0o755)?;
    }
    let kib = output(Path::new("du"), ["-sk", &tree.display().to_string()])?;
    let kib = kib.split_whitespace().next().unwrap_or("0").to_owned();
    let text = std::fs::read_to_string("packaging/debian/control")?;
    let text = text.replace("@VERSION@", &dist.version);
    let text = text.replace("@ARCHITECTURE@", &dist.architecture).replace("@SIZE@", &kib);
    write(&control.join("control"), text.as_bytes())?;
    let name = format!("entrepot_{}_{}.deb", dist.version, dist.architecture);
    let file = dist.out.join(&name).display().to_string();
    // The files are root's, whoever makes the package.
    run("dpkg-deb", ["--root-owner-group", "--build", &root.display().to_string(), &file])?;
    std::fs::remove_dir_all(&root)?;
    Ok(name)
}
