//! Every verb, once: dispatch, FEAT, HELP, login need, write need and the coverage page read this.

use crate::server::state::ServerState;
use crate::server::{data, digest, info, login, names, parameters, security, site, transfer};
use crate::settings::{Algorithm, Settings, TlsMode};

/// What stands behind a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Nothing; else 501.
    None,
    /// Something or nothing.
    Optional,
    /// Something; else 501.
    Required,
}

/// What happens to a command that comes during a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum During {
    /// Kept, and run after it.
    Kept,
    /// Answered at once.
    AtOnce,
    /// Answered at once without an argument, else kept.
    AtOnceAlone,
    /// Kept, but noticed: the end of the connection is no cut any more.
    Noticed,
}

/// How much a verb is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// An RFC or every client asks for it.
    Must,
    /// Users expect it.
    Expected,
    /// More than other servers have.
    Beyond,
    /// Known, and refused with 502.
    Refused,
}

/// A line of FEAT.
#[derive(Clone, Copy)]
pub(crate) enum Feature {
    No,
    Text(&'static str),
    Made(fn(&ServerState) -> String),
}

/// Carries a command out, with its argument.
type Command = fn(&mut ServerState, &str);

/// What a verb does.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    Command(Command),
    /// HELP, which is made of this table.
    Help,
    /// FEAT, which is made of this table.
    Features,
    /// SITE, by the words in this table.
    Site,
}

/// What a word of SITE does.
#[derive(Clone, Copy)]
pub(crate) enum SiteRun {
    Command(Command),
    /// SITE HELP, which is made of this table.
    Help,
}

/// A row of [`VERBS`].
#[derive(Clone, Copy)]
pub struct Verb {
    /// The word of the command, in capitals.
    pub name: &'static str,
    /// Whether it has an argument.
    pub form: Form,
    /// The argument as HELP shows it.
    pub syntax: &'static str,
    /// Document and section.
    pub source: &'static str,
    /// 530 before the login.
    pub login: bool,
    /// 550 for accounts that may only read.
    pub write: bool,
    /// 553 instead of 501 for a name that is no text: the argument is a path.
    pub path: bool,
    /// What happens to it during a transfer.
    pub during: During,
    /// How much it is wanted.
    pub class: Class,
    /// One line for HELP and the coverage page.
    pub help: &'static str,
    pub(crate) offered: fn(&Settings) -> bool,
    pub(crate) feature: Feature,
    pub(crate) run: Run,
}

impl std::fmt::Debug for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Verb {
    /// Whether a session with these settings has it; else it is 502.
    pub fn is_offered(&self, settings: &Settings) -> bool {
        (self.offered)(settings)
    }

    /// An argument; its syntax begins with `[` where it may be left out.
    const fn argument(mut self, syntax: &'static str) -> Verb {
        self.syntax = syntax;
        let optional = matches!(syntax.as_bytes(), [b'[', ..]);
        self.form = if optional { Form::Optional } else { Form::Required };
        self
    }

    /// An argument, though the first part of it may be left out.
    const fn required(mut self) -> Verb {
        self.form = Form::Required;
        self
    }

    const fn login(mut self) -> Verb {
        self.login = true;
        self
    }

    /// Names a file or directory, behind the login.
    const fn path(mut self) -> Verb {
        self.login = true;
        self.path = true;
        self
    }

    /// Changes files, behind the login.
    const fn write(mut self) -> Verb {
        self.write = true;
        self.path()
    }

    const fn during(mut self, during: During) -> Verb {
        self.during = during;
        self
    }

    const fn class(mut self, class: Class) -> Verb {
        self.class = class;
        self
    }

    const fn when(mut self, offered: fn(&Settings) -> bool) -> Verb {
        self.offered = offered;
        self
    }

    const fn feature(mut self, text: &'static str) -> Verb {
        self.feature = Feature::Text(text);
        self
    }

    const fn made(mut self, line: fn(&ServerState) -> String) -> Verb {
        self.feature = Feature::Made(line);
        self
    }
}

const fn none(
    name: &'static str,
    source: &'static str,
    help: &'static str,
    command: Command,
) -> Verb {
    of_table(name, source, help, Run::Command(command))
}

/// A verb without an argument whose reply the table makes.
const fn of_table(name: &'static str, source: &'static str, help: &'static str, run: Run) -> Verb {
    Verb {
        name,
        form: Form::None,
        syntax: "",
        source,
        login: false,
        write: false,
        path: false,
        during: During::Kept,
        class: Class::Must,
        help,
        offered: |_| true,
        feature: Feature::No,
        run,
    }
}

const fn some(
    name: &'static str,
    syntax: &'static str,
    source: &'static str,
    help: &'static str,
    command: Command,
) -> Verb {
    none(name, source, help, command).argument(syntax)
}

const fn refused(name: &'static str, source: &'static str, help: &'static str) -> Verb {
    let mut verb = none(name, source, help, info::not_implemented);
    verb.form = Form::Optional;
    verb.offered = |_| false;
    verb.class(Class::Refused)
}

use Class::{Beyond, Expected};
use During::{AtOnce, AtOnceAlone, Noticed};

fn tls(settings: &Settings) -> bool {
    settings.tls != TlsMode::Off
}

fn digests(settings: &Settings, algorithm: Algorithm) -> bool {
    settings.algorithms.contains(&algorithm)
}

/// All verbs, those of the byte path first, for they are found from the front.
pub const VERBS: &[Verb] = &[
    some("RETR", "<path>", "RFC 959 §4.1.3", "Download a file.", transfer::retr).path(),
    some("STOR", "<path>", "RFC 959 §4.1.3", "Upload a file.", transfer::stor).write(),
    none("PASV", "RFC 959 §4.1.2", "Let the client connect for data (IPv4).", data::pasv)
        .login()
        .when(|settings| settings.passive),
    some("EPSV", "[1|2|ALL]", "RFC 2428 §3", "Let the client connect for data.", data::epsv)
        .login()
        .when(|settings| settings.passive)
        .feature("EPSV"),
    some(
        "PORT",
        "h1,h2,h3,h4,p1,p2",
        "RFC 959 §4.1.2",
        "Connect to the client (IPv4).",
        data::port,
    )
    .login()
    .when(|settings| settings.active.allowed),
    some(
        "EPRT",
        "|<family>|<address>|<port>|",
        "RFC 2428 §2",
        "Connect to the client.",
        data::eprt,
    )
    .login()
    .when(|settings| settings.active.allowed)
    .feature("EPRT"),
    some("USER", "<name>", "RFC 959 §4.1.1", "Say who you are.", login::user),
    some("PASS", "[<password>]", "RFC 959 §4.1.1", "Prove it.", login::pass),
    some("TYPE", "A [N|T] | I | L 8", "RFC 959 §4.1.2", "Set text or binary.", parameters::kind)
        .login(),
    some("SIZE", "<path>", "RFC 3659 §4", "Ask for the size of a file.", names::size)
        .path()
        .feature("SIZE"),
    some("CWD", "<path>", "RFC 959 §4.1.1", "Change the directory.", names::cwd)
        .path()
        .feature("TVFS"),
    some(
        "REST",
        "<offset>",
        "RFC 3659 §5",
        "Begin the next transfer at an offset.",
        parameters::rest,
    )
    .login()
    .feature("REST STREAM"),
    none("QUIT", "RFC 959 §4.1.1", "End the session.", login::quit).during(Noticed),
    none("PWD", "RFC 959 §4.1.3", "Show the directory.", names::pwd).login(),
    none("XPWD", "RFC 775", "As PWD.", names::pwd).login(),
    none("CDUP", "RFC 959 §4.1.1", "Change to the directory above.", names::cdup).login(),
    none("XCUP", "RFC 775", "As CDUP.", names::cdup).login(),
    some("XCWD", "<path>", "RFC 775", "As CWD.", names::cwd).path(),
    some("MKD", "<path>", "RFC 959 §4.1.3", "Make a directory.", names::mkd).write(),
    some("XMKD", "<path>", "RFC 775", "As MKD.", names::mkd).write(),
    some("RMD", "<path>", "RFC 959 §4.1.3", "Remove an empty directory.", names::rmd).write(),
    some("XRMD", "<path>", "RFC 775", "As RMD.", names::rmd).write(),
    some("RMDA", "<path>", "proftpd", "Remove a directory with all in it.", names::rmda)
        .write()
        .class(Beyond)
        .feature("RMDA <path>"),
    some("DELE", "<path>", "RFC 959 §4.1.3", "Delete a file.", names::dele).write(),
    some("RNFR", "<path>", "RFC 959 §4.1.3", "Say what to rename.", names::rnfr).write(),
    some("RNTO", "<path>", "RFC 959 §4.1.3", "Say its new name.", names::rnto).write(),
    some("APPE", "<path>", "RFC 959 §4.1.3", "Upload behind the end of a file.", transfer::appe)
        .write(),
    some("STOU", "[<prefix>]", "RFC 959 §4.1.3", "Upload under a new name.", transfer::stou)
        .write(),
    some("ALLO", "<bytes> [R <bytes>]", "RFC 959 §4.1.3", "Reserve room.", parameters::allo)
        .login(),
    none("ABOR", "RFC 959 §4.1.3", "Stop the transfer.", transfer::abor).login().during(AtOnce),
    some("LIST", "[<path>]", "RFC 959 §4.1.3", "List as ls -l.", transfer::list).path(),
    some("NLST", "[<path>]", "RFC 959 §4.1.3", "List names.", transfer::nlst).path(),
    some("MLSD", "[<path>]", "RFC 3659 §7", "List facts of a directory.", transfer::mlsd).path(),
    some("MLST", "[<path>]", "RFC 3659 §7", "Show facts of one name.", names::mlst)
        .path()
        .made(info::mlst_feature),
    some("MDTM", "[<time>] <path>", "RFC 3659 §3", "Ask for the time of a file.", names::mdtm)
        .required()
        .path()
        .feature("MDTM"),
    some("MFMT", "<time> <path>", "draft-somers-ftp-mfxx-04", "Set the time.", names::mfmt)
        .write()
        .class(Expected)
        .feature("MFMT"),
    some(
        "MFCT",
        "<time> <path>",
        "draft-somers-ftp-mfxx-04",
        "Set the time it was made.",
        names::mfct,
    )
    .write()
    .class(Beyond)
    .when(|settings| settings.creation_times)
    .feature("MFCT"),
    some("MFF", "<fact>=<value>;… <path>", "draft-somers-ftp-mfxx-04", "Set facts.", names::mff)
        .write()
        .class(Beyond)
        .made(info::mff_feature),
    some("STRU", "F", "RFC 959 §4.1.2", "Set the structure: files only.", parameters::stru).login(),
    some("MODE", "S | Z", "RFC 959 §4.1.2", "Set stream or compressed.", parameters::mode)
        .login()
        .made(info::mode_feature),
    some("STAT", "[<path>]", "RFC 959 §4.1.3", "Show the state, or list here.", info::stat)
        .path()
        .during(AtOnceAlone),
    of_table("HELP", "RFC 959 §4.1.3", "Show the verbs.", Run::Help).argument("[<verb>]"),
    of_table("SITE", "RFC 959 §4.1.3", "More words: SITE HELP.", Run::Site)
        .argument("<word> [<argument>]")
        .login(),
    none("SYST", "RFC 959 §4.1.3", "Name the system.", info::syst),
    some("NOOP", "[<anything>]", "RFC 959 §4.1.3", "Do nothing.", info::noop).during(AtOnce),
    some(
        "ACCT",
        "<account>",
        "RFC 959 §4.1.1",
        "Give the account or one-time code that 332 asks for.",
        login::acct,
    ),
    none("REIN", "RFC 959 §4.1.1", "Log out and begin again.", login::rein),
    of_table("FEAT", "RFC 2389 §3", "Show what else there is.", Run::Features),
    some("OPTS", "<verb> [<options>]", "RFC 2389 §4", "Set options.", parameters::opts)
        .feature("UTF8"),
    some("CLNT", "<name>", "in use", "Name the client.", info::clnt)
        .class(Expected)
        .feature("CLNT"),
    some("CSID", "<facts>", "draft-peterson-ftp-csid-00", "Name client and server.", info::csid)
        .class(Beyond)
        .feature("CSID"),
    some("LANG", "[<tag>]", "RFC 2640 §4", "Choose the language.", parameters::lang)
        .class(Expected)
        .feature("LANG EN*"),
    some("HOST", "<name>", "RFC 7151 §3", "Choose the site.", login::host)
        .class(Expected)
        .when(|settings| settings.host)
        .feature("HOST"),
    some("AUTH", "TLS", "RFC 4217 §4", "Begin TLS.", security::auth).when(tls).feature("AUTH TLS"),
    some("PBSZ", "0", "RFC 4217 §8", "Comes before PROT.", security::pbsz)
        .when(tls)
        .feature("PBSZ"),
    some("PROT", "C | P", "RFC 4217 §9", "Protect data.", security::prot).when(tls).feature("PROT"),
    none("CCC", "RFC 4217 §6", "End TLS on the control connection.", security::ccc)
        .login()
        .class(Expected)
        .made(info::ccc_feature)
        .when(tls),
    some("HASH", "<path>", "draft-bryan-ftpext-hash-02", "Digest of a file.", digest::hash)
        .path()
        .class(Expected)
        .when(|settings| !settings.algorithms.is_empty())
        .made(info::hash_feature),
    some("XCRC", "<path> [<from> <to>]", "in use", "CRC-32 of a file.", digest::xcrc)
        .path()
        .when(|settings| digests(settings, Algorithm::Crc32))
        .feature("XCRC"),
    some("XMD5", "<path> [<from> <to>]", "in use", "MD5 of a file.", digest::xmd5)
        .path()
        .when(|settings| digests(settings, Algorithm::Md5))
        .feature("XMD5"),
    some("XSHA1", "<path> [<from> <to>]", "in use", "SHA-1 of a file.", digest::xsha1)
        .path()
        .when(|settings| digests(settings, Algorithm::Sha1))
        .feature("XSHA1"),
    some("XSHA256", "<path> [<from> <to>]", "in use", "SHA-256 of a file.", digest::xsha256)
        .path()
        .class(Expected)
        .when(|settings| digests(settings, Algorithm::Sha256))
        .feature("XSHA256"),
    some("XSHA512", "<path> [<from> <to>]", "in use", "SHA-512 of a file.", digest::xsha512)
        .path()
        .class(Expected)
        .when(|settings| digests(settings, Algorithm::Sha512))
        .feature("XSHA512"),
    some("MD5", "<path>", "draft-twine-ftpmd5-00", "MD5 of a file.", digest::md5)
        .path()
        .class(Expected)
        .when(|settings| digests(settings, Algorithm::Md5))
        .feature("MD5"),
    some("RANG", "<first> <last>", "draft-bryan-ftp-range-08", "Choose bytes.", parameters::rang)
        .login()
        .class(Beyond)
        .feature("RANG STREAM"),
    some("AVBL", "[<path>]", "draft-peterson-streamlined-ftp-01", "Room left.", names::avbl)
        .path()
        .class(Expected)
        .when(|settings| settings.space)
        .feature("AVBL"),
    some("DSIZ", "[<path>]", "draft-peterson-streamlined-ftp-01", "Size of a tree.", names::dsiz)
        .path()
        .class(Beyond)
        .feature("DSIZ"),
    some("COMB", "<target> <part> …", "in use", "Make one file of parts.", names::comb)
        .write()
        .class(Beyond)
        .feature("COMB target;source_list"),
    refused("SMNT", "RFC 959 §4.1.1", "Mount another file system."),
    refused("ADAT", "RFC 2228 §3", "Authentication data: TLS needs none."),
    refused("MIC", "RFC 2228 §3", "A command with integrity: use TLS."),
    refused("CONF", "RFC 2228 §3", "A confidential command: use TLS."),
    refused("ENC", "RFC 2228 §3", "A protected command: use TLS."),
];

/// A verb to begin with, before any was said. The table is not empty.
pub(crate) const FIRST: &Verb = &VERBS[0];

/// A word of SITE.
pub struct SiteVerb {
    /// The word behind SITE, in capitals.
    pub name: &'static str,
    /// The argument as HELP shows it.
    pub syntax: &'static str,
    /// 550 for accounts that may only read.
    pub write: bool,
    /// For administrators only; to others it is an unknown word.
    pub administrator: bool,
    /// One line for HELP and the coverage page.
    pub help: &'static str,
    pub(crate) offered: fn(&Settings) -> bool,
    pub(crate) run: SiteRun,
}

const fn word(
    name: &'static str,
    syntax: &'static str,
    help: &'static str,
    command: Command,
) -> SiteVerb {
    let run = SiteRun::Command(command);
    SiteVerb { name, syntax, write: false, administrator: false, help, offered: |_| true, run }
}

/// SITE HELP, which anybody may use and which is made of this table.
const SITE_HELP: SiteVerb = SiteVerb {
    name: "HELP",
    syntax: "[<word>]",
    write: false,
    administrator: false,
    help: "Show these words.",
    offered: |_| true,
    run: SiteRun::Help,
};

impl SiteVerb {
    /// Whether a session with these settings has it; else it is 504.
    pub fn is_offered(&self, settings: &Settings) -> bool {
        (self.offered)(settings)
    }

    const fn write(mut self, offered: fn(&Settings) -> bool) -> SiteVerb {
        self.write = true;
        self.offered = offered;
        self
    }

    const fn administrator(mut self, offered: fn(&Settings) -> bool) -> SiteVerb {
        self.administrator = true;
        self.offered = offered;
        self
    }
}

/// The words of SITE.
pub const SITE_VERBS: &[SiteVerb] = &[
    SITE_HELP,
    word("CHMOD", "<octal> <path>", "Set permission bits.", site::chmod).write(|s| s.site.chmod),
    word(
        "UTIME",
        "<time> <path> | <path> <accessed> <modified> <created> UTC",
        "Set times.",
        site::utime,
    )
    .write(|s| s.site.utime),
    word("MKDIR", "<path>", "Make a directory and those above it.", site::mkdir)
        .write(|s| s.site.mkdir),
    word("COPY", "<from> <to>", "Copy a file; quote names with blanks.", site::copy)
        .write(|s| s.site.copy),
    word("LIMIT", "[<write> [<read>]]", "Set bytes a second of all sessions.", site::limit)
        .administrator(|s| s.site.limit),
    word("LIMITBANDWIDTH", "[<write> [<read>]]", "As LIMIT.", site::limit)
        .administrator(|s| s.site.limit),
    word("SHUTDOWN", "[CONFIRM]", "Drain this node; to be confirmed.", site::shutdown)
        .administrator(|s| s.site.shutdown),
    word("INTERNALSHUTDOWN", "[CONFIRM]", "As SHUTDOWN.", site::shutdown)
        .administrator(|s| s.site.shutdown),
];

/// The verb of a word in any case.
pub fn verb(word: &[u8]) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name.as_bytes().eq_ignore_ascii_case(word))
}

/// The word of SITE in any case.
pub fn site_verb(word: &str) -> Option<&'static SiteVerb> {
    SITE_VERBS.iter().find(|verb| verb.name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_known_once_and_in_any_case() {
        for row in VERBS {
            let count = VERBS.iter().filter(|other| other.name == row.name).count();
            assert_eq!(count, 1, "{}", row.name);
            assert_eq!(verb(row.name.to_lowercase().as_bytes()).unwrap().name, row.name);
            assert!(row.name.len() <= 8 && row.help.ends_with(['.']), "{}", row.name);
            assert!(!row.write || row.login, "{}", row.name);
        }
        assert!(verb(b"EXEC").is_none());
        assert!(site_verb("EXEC").is_none());
    }
}
