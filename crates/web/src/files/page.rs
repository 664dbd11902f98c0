//! The page of a directory for people, which needs no script.

use std::fmt::Write as _;

use entrepot_nouns::VPath;
use entrepot_vfs::{Entry, EntryKind, Found};

use super::path::{address, encode_into};
use super::validators::date;
use crate::html::{attribute, escape};
use crate::page::{Page, Viewer};

/// A page of a listing.
pub(crate) struct ListingPage {
    pub(crate) entries: Vec<Entry>,
    /// Where the next page begins, if there is one.
    pub(crate) next: Option<String>,
    /// What is removed there can be put back.
    pub(crate) has_trash: bool,
    /// What is replaced there can be put back.
    pub(crate) has_versions: bool,
}

/// The page that shows a part of the listing of a directory.
pub(super) fn directory(path: &VPath, viewer: Viewer, listed: &ListingPage) -> Page {
    let hidden = viewer.hidden();
    let mut page = Page::of(path.as_str(), viewer);
    let mut html = String::new();
    breadcrumb(&mut html, path);
    search_form(&mut html, "");
    if listed.entries.is_empty() {
        html.push_str("<p>Nothing is here yet. Choose files below to upload them.</p>\n");
    } else {
        table(&mut html, listed, &hidden);
        html.push_str("<p><a href=\"?zip\">Download all of this folder as one archive</a></p>\n");
    }
    if listed.has_trash {
        html.push_str("<p><a href=\"?trash\">Trash: put back what was deleted</a></p>\n");
    }
    if let Some(next) = &listed.next {
        // To write into a string cannot fail.
        let _ = writeln!(html, "<p><a href=\"?cursor={next}\">Next page</a></p>");
    }
    let _ = writeln!(
        html,
        "<form method=\"post\" enctype=\"multipart/form-data\">{hidden}\n\
         <p><label><input type=\"checkbox\" name=\"replace\" value=\"true\"> \
         Replace files of the same name</label></p>\n\
         <p><label class=\"above\" for=\"file\">Upload files</label>\
         <input id=\"file\" type=\"file\" name=\"file\" multiple required></p>\n\
         <p><button>Upload</button></p>\n</form>\n\
         <form method=\"post\" enctype=\"multipart/form-data\">{hidden}\n\
         <p><label class=\"above\" for=\"mkdir\">New folder</label>\
         <input id=\"mkdir\" name=\"mkdir\" required maxlength=\"255\"></p>\n\
         <p><button class=\"quiet\">Make folder</button></p>\n</form>"
    );
    page.push(&html);
    page
}

/// What a search has found, for its page.
pub(super) struct FoundFiles<'a> {
    pub(super) folder: &'a VPath,
    /// What names were to fit.
    pub(super) text: &'a str,
    pub(super) found: &'a [Found],
    /// Where the next page begins, if there is one.
    pub(super) next: Option<&'a str>,
}

/// The page of what a search has found.
pub(super) fn search(viewer: Viewer, shown: &FoundFiles<'_>) -> Page {
    let mut page = Page::of("Search", viewer);
    let mut html = String::new();
    breadcrumb(&mut html, shown.folder);
    search_form(&mut html, shown.text);
    if !shown.found.is_empty() {
        html.push_str(
            "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">Name</th>\
             <th scope=\"col\" class=\"s\">Size</th><th scope=\"col\">Changed</th></tr></thead>\n\
             <tbody>\n",
        );
        for found in shown.found {
            found_row(&mut html, found);
        }
        html.push_str("</tbody>\n</table></div>\n");
    }
    // To write into a string cannot fail.
    let _ = match shown.next {
        Some(next) => {
            let mut text = String::new();
            encode_into(&mut text, shown.text);
            writeln!(html, "<p><a href=\"?search={text}&amp;cursor={next}\">Search on</a></p>")
        }
        None if shown.found.is_empty() => writeln!(html, "<p>Nothing here has such a name.</p>"),
        None => Ok(()),
    };
    page.push(&html);
    page
}

fn search_form(html: &mut String, text: &str) {
    let _ = writeln!(
        html,
        "<form class=\"bare\" method=\"get\" role=\"search\"><p><label class=\"above\" \
         for=\"search\">Search this folder: a part of a name, or a pattern such as *.pdf</label>\
         <input id=\"search\" type=\"search\" name=\"search\" value=\"{}\" required \
         maxlength=\"255\"> <button class=\"quiet\">Search</button></p></form>",
        attribute(text)
    );
}

fn found_row(html: &mut String, found: &Found) {
    let is_directory = found.attributes.kind == EntryKind::Directory;
    let slash = if is_directory { "/" } else { "" };
    let size = if is_directory { String::new() } else { size(found.attributes.size) };
    let _ = writeln!(
        html,
        "<tr><td class=\"n\"><a href=\"{}{slash}\"><bdi>{}</bdi>{slash}</a></td>\
         <td class=\"s\">{size}</td><td>{}</td></tr>",
        address(&found.path),
        escape(found.path.as_str()),
        date(found.attributes.modified)
    );
}

/// The entries, each with a box by which it is chosen to be deleted.
fn table(html: &mut String, listed: &ListingPage, hidden: &str) {
    let _ = write!(
        html,
        "<form class=\"bare\" method=\"post\" enctype=\"multipart/form-data\">{hidden}\n\
         <div class=\"wide\"><table>\n<thead><tr><th scope=\"col\" class=\"c\"></th>\
         <th scope=\"col\">Name</th><th scope=\"col\" class=\"s\">Size</th>\
         <th scope=\"col\">Changed</th>{}</tr></thead>\n<tbody>\n",
        if listed.has_versions { "<th scope=\"col\">Before</th>" } else { "" }
    );
    for entry in &listed.entries {
        row(html, listed, entry);
    }
    html.push_str(
        "</tbody>\n</table></div>\n<p></p><p><button class=\"bad\">Delete what is ticked</button>\
         </p>\n</form>\n",
    );
}

/// Links to the directories above.
pub(super) fn breadcrumb(page: &mut String, path: &VPath) {
    page.push_str(
        "<nav class=\"crumbs\" aria-label=\"Folders above\"><a href=\"/files/\">Files</a>",
    );
    let mut at = VPath::root();
    for name in path.components() {
        let Ok(below) = at.join(name) else { break };
        at = below;
        let _ = write!(page, " / <a href=\"{}/\">{}</a>", address(&at), escape(name));
    }
    page.push_str("</nav>\n");
}

fn row(page: &mut String, listed: &ListingPage, entry: &Entry) {
    let is_directory = entry.attributes.kind == EntryKind::Directory;
    let slash = if is_directory { "/" } else { "" };
    // `./` keeps a name such as `a:b` from being read as a scheme.
    let mut encoded = String::new();
    encode_into(&mut encoded, &entry.name);
    let size = if is_directory { String::new() } else { size(entry.attributes.size) };
    let name = escape(&entry.name);
    let before = match (listed.has_versions, is_directory) {
        (false, _) => String::new(),
        (true, true) => "<td></td>".to_owned(),
        (true, false) => format!(
            "<td><a href=\"./{encoded}?versions\" aria-label=\"Versions of {name}\">Versions</a>\
             </td>"
        ),
    };
    let _ = writeln!(
        page,
        "<tr><td class=\"c\"><input type=\"checkbox\" name=\"delete\" value=\"{encoded}\" \
         aria-label=\"Choose {name}\"></td>\
         <td class=\"n\"><a href=\"./{encoded}{slash}\"><bdi>{name}</bdi>{slash}</a></td>\
         <td class=\"s\">{size}</td><td>{}</td>{before}</tr>",
        date(entry.attributes.modified)
    );
}

/// A size for people, in binary units.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut whole, mut rest, mut unit) = (bytes, 0, "B");
    for larger in UNITS {
        if whole < 1024 {
            break;
        }
        (whole, rest, unit) = (whole / 1024, whole % 1024, larger);
    }
    if unit == "B" { format!("{whole} B") } else { format!("{whole}.{} {unit}", rest * 10 / 1024) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size(u64::MAX), "15.9 EiB");
    }
}
