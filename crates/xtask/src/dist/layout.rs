//! What is made, and the files as they lie on an installed machine.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::command::{output, output_in, run};

/// What is made, of what, and where.
pub(super) struct Dist {
    pub(super) program: PathBuf,
    pub(super) version: String,
    /// In Debian's words: `amd64`, `arm64`.
    pub(super) architecture: String,
    pub(super) out: PathBuf,
}

impl Dist {
    /// `entrepot-VERSION-ARCHITECTURE`, the beginning of names of files.
    pub(super) fn stem(&self) -> String {
        format!("entrepot-{}-{}", self.version, self.architecture)
    }

    /// All files as they lie on an installed machine, below `tree`.
    pub(super) fn lay_out(&self, tree: &Path) -> Result<()> {
        place(&self.program, &tree.join("usr/bin/entrepot"), 0o755)?;
        let units = tree.join("usr/lib/systemd/system");
        place(Path::new("packaging/entrepot.service"), &units.join("entrepot.service"), 0o644)?;
        let documents = tree.join("usr/share/doc/entrepot");
        place(Path::new("packaging/debian/copyright"), &documents.join("copyright"), 0o644)?;
        let balancer = documents.join("examples/haproxy.cfg");
        place(Path::new("packaging/haproxy.cfg"), &balancer, 0o644)?;
        place(Path::new("CHANGELOG.md"), &documents.join("CHANGELOG.md"), 0o644)?;
        run("gzip", ["-n9", &documents.join("CHANGELOG.md").display().to_string()])?;
        self.completions(tree)?;
        self.manual_pages(tree)
    }

    fn completions(&self, tree: &Path) -> Result<()> {
        for (shell, path) in [
            ("bash", "usr/share/bash-completion/completions/entrepot"),
            ("zsh", "usr/share/zsh/vendor-completions/_entrepot"),
            ("fish", "usr/share/fish/vendor_completions.d/entrepot.fish"),
        ] {
            let script = output(&self.program, ["completion", shell])?;
            write(&tree.join(path), script.as_bytes())?;
        }
        Ok(())
    }

    /// One page for each command, made by the program from its own command line.
    fn manual_pages(&self, tree: &Path) -> Result<()> {
        let folder = tree.join("usr/share/man/man1");
        std::fs::create_dir_all(&folder)?;
        output(&self.program, ["manual", &folder.display().to_string()])?;
        let mut pages = 0;
        for page in std::fs::read_dir(&folder)? {
            let page = page?.path();
            std::fs::set_permissions(&page, std::fs::Permissions::from_mode(0o644))?;
            run("gzip", ["-n9", &page.display().to_string()])?;
            pages += 1;
        }
        ensure!(pages > 0, "the program made no manual page");
        Ok(())
    }

    /// The files for machines without Debian's package manager.
    pub(super) fn archive(&self, tree: &Path) -> Result<String> {
        let name = format!("{}.tar.gz", self.stem());
        let file = self.out.join(&name).display().to_string();
        let top = format!("--transform=s,^\\.,{},", self.stem());
        let tree = tree.display().to_string();
        let owner = ["--owner=0", "--group=0", "--sort=name", "--mtime=@0"];
        run("tar", ["-czf", &file].into_iter().chain(owner).chain([&*top, "-C", &tree, "."]))?;
        Ok(name)
    }

    /// The program beside its container file, as one archive: the context of an image.
    pub(super) fn container(&self, tree: &Path) -> Result<String> {
        let folder = self.out.join("container");
        place(Path::new("packaging/Containerfile"), &folder.join("Containerfile"), 0o644)?;
        let inner = folder.join(format!("linux/{}/entrepot", self.architecture));
        place(&tree.join("usr/bin/entrepot"), &inner, 0o755)?;
        let name = format!("{}-container.tar.gz", self.stem());
        let (file, from) = (self.out.join(&name), folder.display().to_string());
        run(
            "tar",
            ["-czf", &file.display().to_string(), "--owner=0", "--group=0", "-C", &from, "."],
        )?;
        std::fs::remove_dir_all(&folder)?;
        Ok(name)
    }

    /// `SHA256SUMS`, which `sha256sum -c` reads.
    pub(super) fn checksums(&self, made: &[String]) -> Result<()> {
        let sums = output_in(&self.out, "sha256sum", made)?;
        write(&self.out.join("SHA256SUMS"), sums.as_bytes())
    }
}

/// Copies a file and makes the folders that it needs.
pub(super) fn place(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let content = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    write(to, &content)?;
    Ok(std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode))?)
}

pub(super) fn write(to: &Path, content: &[u8]) -> Result<()> {
    std::fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    std::fs::write(to, content).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o644))?)
}
