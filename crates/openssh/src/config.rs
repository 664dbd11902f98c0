//! `sshd_config` (sshd_config(5)): settings with their place and the `Match` they stand under.
//! For each keyword the first value counts; what stands under a `Match` that fits comes before
//! what stands under none.

use std::fmt;
use std::rc::Rc;

use entrepot_nouns::source::wildcard;

use crate::limits::{INCLUDE_DEPTH, LINE_BYTES, LINES, SETTINGS};
use crate::words;

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number in the file; the first line is 1.
    pub line: usize,
    /// What is wrong with it, in words.
    pub problem: String,
}

/// A file that `Include` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Included {
    /// Path of the file.
    pub file: String,
    /// What it holds.
    pub text: String,
}

/// One condition of a `Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// It applies to every connection.
    All,
    /// The name of the user fits one of the patterns.
    User(Vec<String>),
    /// The name of one of the groups does.
    Group(Vec<String>),
    /// Of an address, host or port: not known before a client connects.
    Other(String),
}

/// A setting, and the connections that it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The file it stands in.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// The keyword in lower case.
    pub keyword: String,
    /// Words behind it.
    pub arguments: Vec<String>,
    /// All that stands behind it, quotes and comments included: what a command is to sshd.
    pub rest: String,
    /// All of these must hold; empty: always.
    pub when: Rc<[Criterion]>,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.keyword, self.arguments.join(" "))
    }
}

/// Who logs in.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    /// The login name.
    pub name: &'a str,
    /// Names of all its groups.
    pub groups: &'a [String],
}

/// A configuration with all that it includes.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// In their order; `Include` is replaced by what it brings, `Match` lines are kept too.
    pub settings: Vec<Setting>,
    /// Lines that cannot be read, with their files.
    pub bad: Vec<(String, BadLine)>,
}

/// Gives the files that a pattern of `Include` names.
type Includes<'a> = &'a mut dyn FnMut(&str) -> Vec<Included>;

/// One file of a configuration.
struct FileText<'a> {
    file: &'a str,
    text: &'a str,
}

impl Config {
    /// Reads a configuration; `include` gives the files that a pattern names.
    pub fn read(file: &str, text: &str, include: Includes<'_>) -> Config {
        let mut config = Config::default();
        config.file(FileText { file, text }, &Rc::from([]), 0, include);
        config
    }

    fn file(
        &mut self,
        FileText { file, text }: FileText<'_>,
        outer: &Rc<[Criterion]>,
        depth: usize,
        include: Includes<'_>,
    ) {
        let mut when = Rc::clone(outer);
        for (at, line) in text.lines().enumerate().take(LINES) {
            let (number, line) = (at + 1, line.trim());
            let bad = |problem: &str| {
                (file.to_owned(), BadLine { line: number, problem: problem.to_owned() })
            };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((keyword, rest, arguments)) = keyword_and_arguments(line) else {
                self.bad.push(bad("it cannot be read"));
                continue;
            };
            if self.settings.len() + self.bad.len() >= SETTINGS {
                return self.bad.push(bad("there are too many settings, the rest is not read"));
            }
            if keyword == "match" {
                let Some(criteria) = criteria(&arguments) else {
                    self.bad.push(bad("a condition has no value, the block is not taken"));
                    when = outer.iter().cloned().chain([Criterion::Other(line.into())]).collect();
                    continue;
                };
                when = outer.iter().cloned().chain(criteria).collect();
            }
            let setting = Setting {
                file: file.to_owned(),
                line: number,
                keyword,
                arguments,
                rest: rest.to_owned(),
                when: Rc::clone(&when),
            };
            let includes = setting.keyword == "include";
            let patterns = if includes { setting.arguments.clone() } else { Vec::new() };
            self.settings.push(setting);
            if includes && depth >= INCLUDE_DEPTH {
                self.bad.push(bad("files include each other too deep"));
                continue;
            }
            let included: Vec<Included> = patterns.iter().flat_map(|it| include(it)).collect();
            for included in included {
                let next = FileText { file: &included.file, text: &included.text };
                self.file(next, &when, depth + 1, include);
            }
        }
    }

    /// The setting that counts for `who` (`None`: before anybody is known).
    pub fn first(&self, keyword: &str, who: Option<Who<'_>>) -> Option<&Setting> {
        self.all(keyword, who).into_iter().next()
    }

    /// All that count, for keywords that may be repeated.
    pub fn all(&self, keyword: &str, who: Option<Who<'_>>) -> Vec<&Setting> {
        let of = |under_match: bool| {
            let named = self.settings.iter().filter(move |setting| setting.keyword == keyword);
            named.filter(move |setting| setting.when.is_empty() != under_match)
        };
        let fits = |setting: &&Setting| {
            who.is_some_and(|who| setting.when.iter().all(|criterion| criterion.holds(who)))
        };
        let special: Vec<&Setting> = of(true).filter(fits).collect();
        if special.is_empty() { of(false).collect() } else { special }
    }
}

impl Criterion {
    /// True if it surely holds.
    pub fn holds(&self, who: Who<'_>) -> bool {
        match self {
            Criterion::All => true,
            Criterion::User(patterns) => fits_list(patterns, who.name),
            Criterion::Group(patterns) => {
                let mut groups = who.groups.iter();
                let refused =
                    |group: &String| patterns.iter().any(|pattern| refuses(pattern, group));
                !who.groups.iter().any(refused) && groups.any(|group| fits_list(patterns, group))
            }
            Criterion::Other(_) => false,
        }
    }
}

fn refuses(pattern: &str, text: &str) -> bool {
    pattern.strip_prefix('!').is_some_and(|pattern| wildcard(pattern, text))
}

/// True if one pattern fits and none with `!` does (ssh_config(5), PATTERNS).
fn fits_list(patterns: &[String], text: &str) -> bool {
    let fits = |pattern: &String| !pattern.starts_with('!') && wildcard(pattern, text);
    patterns.iter().any(fits) && !patterns.iter().any(|pattern| refuses(pattern, text))
}

/// `Keyword a b`, `Keyword=a` and `Keyword = a`; a word that begins with `#` begins a comment.
fn keyword_and_arguments(line: &str) -> Option<(String, &str, Vec<String>)> {
    let end = line.find(|letter: char| letter.is_whitespace() || letter == '=');
    let (keyword, rest) = line.split_at_checked(end.unwrap_or(line.len()))?;
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    if keyword.is_empty() || line.len() > LINE_BYTES {
        return None;
    }
    Some((keyword.to_ascii_lowercase(), rest, words::split_commented(rest)?))
}

fn criteria(arguments: &[String]) -> Option<Vec<Criterion>> {
    let mut criteria = Vec::new();
    // `User=anna` is `User anna`.
    let mut words = arguments.iter().flat_map(|word| match word.split_once('=') {
        Some((name, value)) => vec![name, value],
        None => vec![word.as_str()],
    });
    while let Some(name) = words.next() {
        let lower = name.to_ascii_lowercase();
        if lower == "all" {
            criteria.push(Criterion::All);
            continue;
        }
        if lower == "invalid-user" {
            criteria.push(Criterion::Other(lower));
            continue;
        }
        let value = words.next()?;
        let patterns = || value.split(',').map(str::to_owned).collect();
        criteria.push(match lower.as_str() {
            "user" => Criterion::User(patterns()),
            "group" => Criterion::Group(patterns()),
            _ => Criterion::Other(format!("{lower} {value}")),
        });
    }
    (!criteria.is_empty()).then_some(criteria)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Config {
        Config::read("sshd_config", text, &mut |pattern| {
            let file = format!("{pattern}.conf");
            match pattern {
                "user" => vec![Included { file, text: "Banner /b\nMatch User x\nPort 9".into() }],
                "deep" => vec![Included { file, text: "Include deep".into() }],
                _ => Vec::new(),
            }
        })
    }

    fn value(config: &Config, keyword: &str, name: &str, groups: &[&str]) -> Option<String> {
        let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
        let who = Who { name, groups: &groups };
        config.first(keyword, Some(who)).map(|setting| setting.arguments.join(" "))
    }

    #[test]
    fn the_first_value_counts_and_a_match_comes_before_all() {
        let config = read(
            "# a comment\nX11Forwarding no # why\nChrootDirectory none\nchrootdirectory /late\n\
             Match Group sftp,!staff\n  ChrootDirectory=/srv/%u\n\
             ForceCommand \"internal-sftp\" -R\n\
             Match User anna,ber?a\nChrootDirectory /other\n\
             Match Address 10.0.0.0/8 User anna\nChrootDirectory /away\n\
             Match All\nBanner /etc/issue\n",
        );
        let chroot = |name: &str, groups: &[&str]| value(&config, "chrootdirectory", name, groups);
        assert_eq!(chroot("carl", &[]).unwrap(), "none");
        assert_eq!(chroot("carl", &["users", "sftp"]).unwrap(), "/srv/%u");
        assert_eq!(chroot("carl", &["sftp", "staff"]).unwrap(), "none", "a group is refused");
        assert_eq!(chroot("anna", &["sftp"]).unwrap(), "/srv/%u", "the first block");
        assert_eq!(chroot("anna", &[]).unwrap(), "/other");
        assert_eq!(chroot("berta", &[]).unwrap(), "/other");
        assert_eq!(value(&config, "forcecommand", "carl", &["sftp"]).unwrap(), "internal-sftp -R");
        assert_eq!(value(&config, "banner", "carl", &[]).unwrap(), "/etc/issue");
        assert_eq!(value(&config, "x11forwarding", "carl", &[]).unwrap(), "no");
        assert!(config.first("banner", None).is_none(), "nobody is known yet");
        let forced = config.settings.iter().find(|s| s.keyword == "forcecommand").unwrap();
        assert_eq!((forced.file.as_str(), forced.line), ("sshd_config", 7));
        assert!(config.bad.is_empty());
    }

    #[test]
    fn a_match_in_an_included_file_ends_with_it() {
        let config = read("Include user\nPort 7\nMatch User y\nInclude user\nUseDNS no\n");
        assert_eq!(value(&config, "port", "x", &[]).unwrap(), "9");
        assert_eq!(value(&config, "port", "z", &[]).unwrap(), "7");
        assert_eq!(value(&config, "usedns", "y", &[]).unwrap(), "no");
        assert_eq!(value(&config, "usedns", "x", &[]), None);
        let banners: Vec<usize> = config
            .settings
            .iter()
            .filter(|setting| setting.keyword == "banner")
            .map(|setting| setting.when.len())
            .collect();
        assert_eq!(banners, [0, 1]);
        assert_eq!(read("Include deep").bad.len(), 1, "files that include themselves");
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let config = read("Port 22\nBanner \"open\nMatch User\nChrootDirectory /x\n");
        let lines: Vec<usize> = config.bad.iter().map(|(_, bad)| bad.line).collect();
        assert_eq!(lines, [2, 3]);
        assert_eq!(value(&config, "chrootdirectory", "anna", &[]), None, "under no condition");
    }
}
