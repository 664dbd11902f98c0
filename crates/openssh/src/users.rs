//! `passwd(5)` and `group(5)`, and the tokens that stand for a user (sshd_config(5), TOKENS).

use crate::limits::{LINE_BYTES, LINES};

/// A line of `passwd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Login name, unique in the file.
    pub name: String,
    /// Number of the user.
    pub uid: u32,
    /// Number of its first group.
    pub gid: u32,
    /// Absolute path of the home directory.
    pub home: String,
    /// Program that a login starts; empty: `/bin/sh`.
    pub shell: String,
}

/// A line of `group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Number of the group.
    pub gid: u32,
    /// Names of users for whom it is not the first one.
    pub members: Vec<String>,
}

/// The users of a `passwd` file; lines that are none are left out.
pub fn users(text: &str) -> Vec<User> {
    lines(text).filter_map(user).collect()
}

fn user(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1)?.to_owned();
    let shell = fields.next()?.to_owned();
    (!name.is_empty()).then_some(User { name, uid, gid, home, shell })
}

/// The groups of a `group` file; lines that are none are left out.
pub fn groups(text: &str) -> Vec<Group> {
    lines(text).filter_map(group).collect()
}

fn group(line: &str) -> Option<Group> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let gid = fields.nth(1)?.parse().ok()?;
    let members = fields.next()?.split(',').map(str::trim).filter(|name| !name.is_empty());
    (!name.is_empty()).then(|| Group { name, gid, members: members.map(str::to_owned).collect() })
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take(LINES).filter(|line| line.len() <= LINE_BYTES && !line.starts_with('#'))
}

/// `text` with `%u`, `%h`, `%U` and `%%` replaced; `None` if it has another token.
pub fn expand(text: &str, user: &User) -> Option<String> {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '%' => match letters.next()? {
                'u' => out.push_str(&user.name),
                'h' => out.push_str(&user.home),
                'U' => out.push_str(&user.uid.to_string()),
                '%' => out.push('%'),
                _ => return None,
            },
            letter => out.push(letter),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_groups_and_tokens() {
        let text = "# comment\nroot:x:0:0:root:/root:/bin/bash\nbad line\n\
                    anna:x:1001:100:Anna,,,:/home/anna:/usr/sbin/nologin\n\
                    :x:1:1::/:\nb:x:-1:0::/:\n";
        let found = users(text);
        assert_eq!(found.len(), 2);
        let anna = found.last().unwrap();
        assert_eq!((anna.uid, anna.gid, anna.home.as_str()), (1001, 100, "/home/anna"));
        assert_eq!(anna.shell, "/usr/sbin/nologin");
        let found = groups("sftp:x:50:anna, berta\nempty:x:51:\nbad\n");
        assert_eq!(found.first().unwrap().members, ["anna", "berta"]);
        assert_eq!(found.get(1).unwrap().members, [""; 0]);
        assert_eq!(expand("/srv/%u%%/%h", anna).unwrap(), "/srv/anna%//home/anna");
        assert_eq!(expand("%k", anna), None);
        assert_eq!(expand("%", anna), None);
    }
}
