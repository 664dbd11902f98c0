//! Command lines that clients run on a channel (RFC 4254 §6.5), and what we make of them: SCP,
//! hashes of files as rclone asks for them, the SFTP server by its program's name. There is no
//! shell behind it and no program is ever run.

use crate::scp;
use crate::shell::{self, Word};

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `…/sftp-server`, `internal-sftp`: the subsystem by its program (sshfs, PuTTY).
    Sftp,
    /// `scp -t` and `scp -f`.
    Scp(scp::Command),
    /// `md5sum` and the like.
    Hash(HashCommand),
    /// `pwd`, by which clients learn where they are.
    WorkingDirectory,
    /// `cd`, with where to.
    ChangeDirectory(Option<Word>),
}

/// `md5sum [-b] [PATH]…` and the like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashCommand {
    /// Of the algorithm, as `check-file` names it.
    pub algorithm: &'static str,
    /// Which mode its answers name; the hash is the same in both.
    pub mode: HashMode,
    /// None: of an empty input, as rclone asks to learn whether the command is there.
    pub paths: Vec<Word>,
}

/// The mode of reading that `md5sum` prints beside each hash. On POSIX both read the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashMode {
    /// `-t`, and what is taken without an option: marked by a space.
    Text,
    /// `-b`: marked by an asterisk.
    Binary,
}

const HASHES: [(&str, &str); 5] = [
    ("md5sum", "md5"),
    ("sha1sum", "sha1"),
    ("sha256sum", "sha256"),
    ("sha384sum", "sha384"),
    ("sha512sum", "sha512"),
];

/// The command of a line; `None`: one that is not offered.
pub fn parse(line: &[u8]) -> Option<Command> {
    let words = shell::split(line).ok()?;
    let (first, rest) = words.split_first()?;
    let program = first.text().rsplit('/').next().unwrap_or_default();
    match program {
        "sftp-server" => Some(Command::Sftp),
        "internal-sftp" if first.text() == program => Some(Command::Sftp),
        "scp" => scp::Command::parse(rest).map(Command::Scp),
        "pwd" if rest.is_empty() => Some(Command::WorkingDirectory),
        "cd" => match rest {
            [] => Some(Command::ChangeDirectory(None)),
            [to] => Some(Command::ChangeDirectory(Some(to.clone()))),
            _ => None,
        },
        _ => {
            let (_, algorithm) = HASHES.iter().find(|(name, _)| *name == program)?;
            hash(algorithm, rest).map(Command::Hash)
        }
    }
}

fn hash(algorithm: &'static str, words: &[Word]) -> Option<HashCommand> {
    let (mut mode, mut options, mut paths) = (HashMode::Text, true, Vec::new());
    for word in words {
        match word.text() {
            "--" if options => options = false,
            "-b" | "--binary" if options => mode = HashMode::Binary,
            "-t" | "--text" if options => mode = HashMode::Text,
            // A single dash is standard input, which is taken for empty.
            text if options && text.len() > 1 && text.starts_with('-') => return None,
            _ => paths.push(word.clone()),
        }
    }
    Some(HashCommand { algorithm, mode, paths })
}

/// A line as `md5sum` prints it. Names with a backslash or a line break are escaped and the line
/// begins with a backslash then (GNU coreutils).
pub fn hash_line(hash: &[u8], name: &str, mode: HashMode) -> String {
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let mark = match mode {
        HashMode::Text => ' ',
        HashMode::Binary => '*',
    };
    if !name.contains(['\\', '\n', '\r']) {
        return format!("{hex} {mark}{name}\n");
    }
    let name = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    format!("\\{hex} {mark}{name}\n")
}

/// Entry point of the fuzzer: any command line; and any text, quoted, is one word again.
///
/// # Panics
/// If quoting does not hold: what the fuzzer looks for.
pub fn fuzz(bytes: &[u8]) {
    if let Some(Command::Scp(command)) = parse(bytes) {
        assert!(!command.paths.is_empty(), "a command without a path");
    }
    let Ok(words) = shell::split(bytes) else { return };
    for word in &words {
        for component in word.components() {
            if let shell::Component::Pattern(pattern) = component {
                pattern.matches(word.text());
            }
        }
        let quoted = format!("'{}'", word.text().replace('\'', "'\\''"));
        if quoted.len() <= crate::limits::COMMAND_LINE_BYTES {
            let again = shell::split(quoted.as_bytes());
            assert!(again.is_ok_and(|again| again.len() == 1
                && again.iter().all(|one| one.text() == word.text() && !one.is_pattern())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_programs_are_the_subsystem_and_nothing_else_is() {
        for line in ["internal-sftp", "internal-sftp -l INFO", "/usr/lib/openssh/sftp-server"] {
            assert_eq!(parse(line.as_bytes()), Some(Command::Sftp), "{line}");
        }
        for line in ["", "ls", "echo sftp-server", "xsftp-server", "/x/internal-sftp"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn hash_commands_are_taken_as_rclone_sends_them() {
        let Some(Command::Hash(probe)) = parse(b"md5sum") else { panic!() };
        assert_eq!((probe.algorithm, probe.paths.len()), ("md5", 0));
        let Some(Command::Hash(one)) = parse(b"sha1sum /a\\ b/c\\'d") else { panic!() };
        assert_eq!((one.algorithm, one.paths[0].text()), ("sha1", "/a b/c'd"));
        let Some(Command::Hash(two)) = parse(b"sha256sum -b -- -x y") else { panic!() };
        assert!(two.mode == HashMode::Binary && two.paths.len() == 2);
        for line in ["md5sum -c f", "md5 -r", "rclone md5sum", "md5sum a; b", "cd a b", "pwd x"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(parse(b"pwd"), Some(Command::WorkingDirectory));
        assert!(matches!(parse(b"cd /a"), Some(Command::ChangeDirectory(Some(_)))));
    }

    #[test]
    fn lines_are_those_of_md5sum() {
        assert_eq!(hash_line(&[0xd4, 1], "a b", HashMode::Text), "d401  a b\n");
        assert_eq!(hash_line(&[0xd4, 1], "-", HashMode::Binary), "d401 *-\n");
        assert_eq!(hash_line(&[1], "a\\b\nc", HashMode::Text), "\\01  a\\\\b\\nc\n");
    }
}
