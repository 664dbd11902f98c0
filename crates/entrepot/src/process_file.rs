//! Writes the process file of a new node.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use entrepot_nouns::Name;

use crate::failure::Failure;

/// Where Linux says what the machine is called.
const MACHINE_NAME: &str = "/proc/sys/kernel/hostname";

/// What the process file of a new node says.
pub(crate) struct ProcessFile<'a> {
    pub(crate) node: &'a Name,
    /// Where the data is, from the folder of the process file.
    pub(crate) data: &'a Path,
    pub(crate) database: &'a str,
    pub(crate) ops: SocketAddr,
}

impl ProcessFile<'_> {
    pub(crate) fn text(&self) -> String {
        format!(
            "# What this node must know before it can open its database.\n\
             # Everything else: entrepot account|mount|endpoint|rule|key|listener|policy, or \
             apply.\n\
             node = \"{}\"\n\
             data = \"{}\"                 # from this folder: journal, database, master key\n\
             database = \"{}\"           # or postgres://user:password@host/database\n\
             # master_key = \"file:data/master.key\"   # or \"env:ENTREPOT_MASTER_KEY\"\n\
             \n\
             [ops]\n\
             address = \"{}\"   # /metrics, /live, /ready\n\
             \n\
             [log]\n\
             format = \"human\"              # or \"json\"\n\
             level = \"info\"\n",
            self.node,
            self.data.display(),
            self.database,
            self.ops
        )
    }
}

/// The name of this machine, without its domain; `node1` where it has none that a node can have.
pub(crate) fn machine_name() -> Name {
    let name = std::fs::read_to_string(MACHINE_NAME).unwrap_or_default();
    let name = name.trim().split('.').next().unwrap_or_default().parse();
    name.unwrap_or_else(|_| {
        // The invariant: the literal is a name.
        "node1".parse().expect("a literal name")
    })
}

/// Writes a file that must not exist yet.
pub(crate) fn write_new(path: &Path, mode: u32, content: &[u8]) -> Result<(), Failure> {
    let cannot =
        |error: std::io::Error| Failure::file(format!("cannot make '{}': {error}", path.display()));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(cannot)?;
    file.write_all(content).map_err(cannot)?;
    file.sync_all().map_err(cannot)
}
