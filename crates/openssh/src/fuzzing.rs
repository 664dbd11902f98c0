//! One entry for fuzzing all parsers of this crate.

use crate::{Config, Included, SftpCommand, Who, authorized_keys, expand, groups, users};

/// Reads any bytes as each of the files.
pub fn fuzz(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for key in authorized_keys(&text).into_iter().flatten() {
        assert!(!key.public.contains('\n'), "one line became two");
        let times = key.options.iter().filter_map(|option| option.expiry());
        assert!(times.count() <= key.options.len());
    }
    let again = |_: &str| vec![Included { file: "again".to_owned(), text: text.to_string() }];
    let config = Config::read("fuzz", &text, &mut { again });
    let names = vec!["staff".to_owned()];
    let who = Who { name: "anna", groups: &names };
    for setting in &config.settings {
        config.first(&setting.keyword, Some(who));
        config.all(&setting.keyword, None);
    }
    let known = users(&text);
    for user in &known {
        expand(&text, user);
    }
    groups(&text);
    text.lines().for_each(|line| drop(SftpCommand::parse(line)));
}

#[cfg(test)]
mod tests {
    #[test]
    fn odd_bytes_are_read_without_harm() {
        for bytes in [
            &b""[..],
            b"\"",
            b"Include x\nMatch User a\n\\",
            b"from=\"a,\\\"b\" ssh-ed25519 AAAA",
            b"a:b:c\n:::::::\nx:x:99999999999:0::/:/",
            b"Match\nMatch user\nMatch all all\nforcecommand\n=\n = =",
            b"\xff\xfe\x00,=\"\"",
        ] {
            super::fuzz(bytes);
        }
    }
}
