//! The command line of `internal-sftp` (sftp-server(8)), where a configuration, a key or a
//! certificate forces it.

use crate::words;

/// What of it means something to us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SftpCommand {
    /// `-R`: list and read only.
    pub read_only: bool,
    /// `-d`: where a session starts; may hold `%u` and `%h`.
    pub start: Option<String>,
    /// Arguments that change nothing here, such as `-l INFO`.
    pub ignored: Vec<String>,
}

/// Options with a value that concern logs and file modes, which are ours to decide.
const WITHOUT_MEANING: [&str; 3] = ["-l", "-f", "-u"];

impl SftpCommand {
    /// Reads a command line; `None` if it is another program, or an option that narrows what may
    /// be done in a way that we do not know.
    pub fn parse(line: &str) -> Option<SftpCommand> {
        // sshd knows its own server by these letters, quotes would make it a program of a shell.
        if line.trim_start().starts_with(['"', '\'', '\\']) {
            return None;
        }
        let words = words::split(line)?;
        let mut words = words.into_iter();
        let program = words.next()?;
        let server = program.rsplit('/').next() == Some("sftp-server") && program.starts_with('/');
        if program != "internal-sftp" && !server {
            return None;
        }
        let mut command = SftpCommand::default();
        while let Some(word) = words.next() {
            let (option, attached) = match word.char_indices().nth(2) {
                Some((at, _)) => word.split_at_checked(at)?,
                None => (word.as_str(), ""),
            };
            let mut value = || match attached {
                "" => words.next(),
                attached => Some(attached.to_owned()),
            };
            match option {
                "-R" if attached.is_empty() => command.read_only = true,
                "-e" | "-h" if attached.is_empty() => command.ignored.push(word.clone()),
                "-d" => command.start = Some(value()?),
                known if WITHOUT_MEANING.contains(&known) => {
                    let value = value()?;
                    command.ignored.push(format!("{known} {value}"));
                }
                _ => return None,
            }
        }
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_and_its_options() {
        let plain = SftpCommand::parse("internal-sftp").unwrap();
        assert_eq!(plain, SftpCommand::default());
        let all = SftpCommand::parse("internal-sftp -R -d /in%u -l INFO -u 0027").unwrap();
        assert!(all.read_only);
        assert_eq!(all.start.as_deref(), Some("/in%u"));
        assert_eq!(all.ignored, ["-l INFO", "-u 0027"]);
        let path = SftpCommand::parse("/usr/lib/openssh/sftp-server -R -lINFO").unwrap();
        assert!(path.read_only);
        assert_eq!(SftpCommand::parse("internal-sftp -d \"/a b\"").unwrap().start.unwrap(), "/a b");
    }

    #[test]
    fn what_is_another_program_or_narrows_otherwise_is_not_taken() {
        for line in [
            "",
            "rsync --server",
            "sftp-server",
            "internal-sftpx",
            "internal-sftp -P remove",
            "internal-sftp -p open,read",
            "internal-sftp -d",
            "internal-sftp extra",
            "internal-sftp \"",
            "'internal-sftp' -R",
            "internal-sftp # comment",
            "/bin/sh -c internal-sftp",
        ] {
            assert_eq!(SftpCommand::parse(line), None, "{line}");
        }
    }
}
