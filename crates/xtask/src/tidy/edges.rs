//! Crate edges, from `cargo metadata`, against the allow-list below.

use cargo_metadata::{DependencyKind, Metadata};

use super::finding::Finding;

/// Each crate and the crates of ours it may depend on (outside tests). Rows as in
/// ARCHITECTURE.md: an edge points to a lower row, `vfs → crypto` and `auth → journal` included.
const ALLOWED: &[(&str, &[&str])] = &[
    ("nouns", &[]),
    ("crypto", &["nouns"]),
    ("journal", &["nouns"]),
    ("transform", &["nouns"]),
    ("db", &["nouns"]),
    ("net", &["nouns"]),
    ("ssh", &["nouns", "net"]),
    ("proof", &["nouns", "crypto", "db", "journal", "as2-proto"]),
    ("openssh", &["nouns"]),
    ("spawn", &["nouns"]),
    ("sftp-proto", &[]),
    ("ftp-proto", &[]),
    ("dav-proto", &[]),
    ("icap-proto", &[]),
    ("tn3270-proto", &[]),
    ("as2-proto", &["crypto"]),
    ("storage", &["nouns", "net", "ssh", "sftp-proto", "ftp-proto"]),
    ("auth", &["nouns", "db", "net", "ssh", "crypto", "journal", "openssh", "spawn"]),
    ("vfs", &["nouns", "auth", "storage", "journal", "db", "crypto"]),
    ("admin", &["nouns", "auth", "db", "crypto", "journal"]),
    (
        "engine",
        &[
            "nouns",
            "transform",
            "vfs",
            "storage",
            "journal",
            "db",
            "net",
            "auth",
            "crypto",
            "proof",
            "spawn",
            "host",
            "sftp-proto",
            "ftp-proto",
            "icap-proto",
            "as2-proto",
        ],
    ),
    ("sftp", &["nouns", "net", "ssh", "auth", "vfs", "sftp-proto"]),
    ("ftp", &["nouns", "net", "auth", "vfs", "ftp-proto"]),
    ("web", &["nouns", "net", "auth", "vfs", "admin", "host", "dav-proto", "as2-proto"]),
    ("acme", &["nouns", "crypto", "journal", "db", "net", "admin"]),
    ("host", &["nouns", "net", "journal", "tn3270-proto"]),
    ("import", &["nouns", "crypto", "ssh", "openssh", "auth"]),
    ("loadgen", &["nouns", "crypto", "net", "ssh", "sftp-proto", "ftp-proto", "as2-proto"]),
    (
        "entrepot",
        &[
            "nouns",
            "crypto",
            "journal",
            "db",
            "net",
            "ssh",
            "storage",
            "auth",
            "vfs",
            "admin",
            "engine",
            "sftp",
            "ftp",
            "web",
            "acme",
            "import",
            "host",
            "loadgen",
            "spawn",
            "proof",
            "transform",
            "as2-proto",
        ],
    ),
    ("testkit", &["nouns", "journal", "storage", "loadgen"]),
    ("testbed", &["nouns", "crypto", "db", "journal"]),
    ("world", &["nouns", "crypto", "auth", "vfs", "testbed"]),
    ("xtask", &[]),
];

/// What a `*-proto` crate must not depend on: runtimes, sockets, files, clocks, randomness.
const NOT_FOR_PROTO: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "mio",
    "socket2",
    "rustix",
    "libc",
    "nix",
    "rand",
    "getrandom",
    "chrono",
    "time",
    "jiff",
    "uuid",
    "fastrand",
    "russh",
    "futures",
    "futures-util",
];

/// Libraries that one crate alone may use, so that the others see them through its types.
const BEHIND: &[(&str, &str)] = &[("russh", "ssh"), ("instant-acme", "acme"), ("pgp", "transform")];

pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.workspace_packages() {
        let short = short_name(package.name.as_str());
        let file = format!("crates/{short}/Cargo.toml");
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == short) else {
            findings.push(finding(&file, format!("crate '{short}' is not in the table of edges")));
            continue;
        };
        for dependency in &package.dependencies {
            let normal = dependency.kind == DependencyKind::Normal;
            let ours = dependency.path.is_some();
            let to = short_name(&dependency.name);
            if normal && ours && !allowed.contains(&to) {
                findings.push(finding(&file, format!("the edge {short} → {to} is not allowed")));
            }
            let behind = BEHIND.iter().find(|(library, _)| *library == dependency.name);
            if let Some((library, owner)) = behind
                && *owner != short
            {
                findings.push(finding(&file, format!("only '{owner}' may depend on '{library}'")));
            }
            let proto = short.ends_with("-proto") && normal;
            if proto && NOT_FOR_PROTO.contains(&dependency.name.as_str()) {
                let what = format!("a protocol machine must not depend on '{}'", dependency.name);
                findings.push(finding(&file, what));
            }
        }
    }
    findings
}

fn short_name(package: &str) -> &str {
    package.strip_prefix("entrepot-").unwrap_or(package)
}

fn finding(file: &str, what: String) -> Finding {
    Finding { file: file.to_owned(), line: 1, rule: "edges", what }
}
