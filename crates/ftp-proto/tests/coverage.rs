//! `docs/protocols/ftp.md` has a row for each verb, as the table says. `UPDATE_DOCS=1` writes them.

use std::fmt::Write as _;
use std::path::Path;

use entrepot_ftp_proto::table::{Class, During, SITE_VERBS, VERBS};

const BEGIN: &str = "<!-- verbs: written by UPDATE_DOCS=1 from the table -->\n";
const END: &str = "<!-- end of verbs -->\n";

/// A cell; a bar in it would begin the next one.
fn cell(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}

fn rows() -> String {
    let mut page = String::from(BEGIN);
    page += "| verb | argument | source | needs | in a transfer | what it does |\n";
    page += "| --- | --- | --- | --- | --- | --- |\n";
    for verb in VERBS {
        let needs = match (verb.login, verb.write) {
            (_, true) => "login, write",
            (true, false) => "login",
            (false, false) => "",
        };
        let during = match verb.during {
            During::Kept => "kept",
            During::AtOnce => "at once",
            During::AtOnceAlone => "at once without a path",
            During::Noticed => "after it, and noticed",
        };
        let (during, note) =
            if verb.class == Class::Refused { ("", " 502.") } else { (during, "") };
        let (name, argument, source) = (verb.name, cell(verb.syntax), verb.source);
        let help = verb.help;
        writeln!(page, "| {name} | {argument} | {source} | {needs} | {during} | {help}{note} |")
            .unwrap();
    }
    page += "\n| SITE word | argument | needs | what it does |\n| --- | --- | --- | --- |\n";
    for word in SITE_VERBS {
        let needs = match (word.write, word.administrator) {
            (_, true) => "administrator, enabled",
            (true, _) => "write",
            _ => "",
        };
        writeln!(page, "| {} | {} | {needs} | {} |", word.name, cell(word.syntax), word.help)
            .unwrap();
    }
    page + END
}

#[test]
fn the_page_agrees_with_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols/ftp.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the mark");
    let (_, after) = rest.split_once(END).expect("the page has the end mark");
    let wanted = format!("{before}{}{after}", rows());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
        return;
    }
    assert!(page == wanted, "docs/protocols/ftp.md is old: run with UPDATE_DOCS=1");
}
