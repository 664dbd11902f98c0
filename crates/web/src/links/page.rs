//! The pages of a link, for people.

use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Env, LinkAction, VPath};
use entrepot_vfs::{Entry, EntryKind};

use super::arrived::Arrived;
use super::visit::LinkVisit;
use crate::files::page::{ListingPage, size};
use crate::files::path::address_below;
use crate::files::validators::date;
use crate::html::{attribute, escape};
use crate::page::Page;
use crate::pages;
use crate::problem::Problem;

/// The form for files; several may be chosen.
const UPLOAD_FORM: &str = "<h2>Send files</h2>\n\
     <form method=\"post\" enctype=\"multipart/form-data\">\n\
     <label>Files <input type=\"file\" name=\"file\" multiple required></label>\n\
     <button>Upload</button>\n</form>\n";

/// The form for the password of a link.
pub(super) fn password(env: &Env, status: StatusCode) -> Response {
    let problem = if status == StatusCode::OK {
        ""
    } else {
        "<p class=\"bad\" role=\"alert\" id=\"problem\">This password is wrong. Try again, or ask \
         who sent the link.</p>\n"
    };
    let mut page = Page::card("This link has a password");
    page.push(&format!(
        "<p class=\"muted\">Who sent you the link can tell it to you.</p>\n{problem}\
         <form method=\"post\">\n<label>Password <input type=\"password\" name=\"password\" \
         autocomplete=\"off\" required autofocus aria-describedby=\"problem\"></label>\n\
         <button>Open</button>\n</form>\n"
    ));
    page.answer(status, env)
}

/// Why a link cannot be used, or not in this way.
pub(super) fn refused(problem: &Problem, env: &Env) -> Response {
    let mut page = Page::card(pages::title(&problem.code));
    page.alert(&problem.detail);
    let code = escape(&problem.code);
    page.push(&format!("<p class=\"muted\"><a href=\"/docs/errors/{code}\">{code}</a></p>\n"));
    page.answer(problem.status, env)
}

/// What a page shows of the files of a link.
pub(super) struct ShownFiles<'a> {
    pub(super) listed: &'a ListingPage,
    /// The digest of the only file, where it is known.
    pub(super) sha256: Option<[u8; 32]>,
}

/// What is at a folder of a link, and what may be done there.
pub(super) fn folder(visit: &LinkVisit, path: &VPath, shown: Option<ShownFiles<'_>>) -> Response {
    let mut page = Page::card(&title_of(visit, path));
    let mut content = String::new();
    about(&mut content, visit);
    if let Some(shown) = shown {
        files(&mut content, visit, path, &shown);
    }
    if visit.terms.allows(LinkAction::Upload) && path.is_root() {
        content.push_str(UPLOAD_FORM);
    }
    page.push(&content);
    page.answer(StatusCode::OK, visit.context.shared().env())
}

/// The title of the link, else the name of what it opens.
fn title_of(visit: &LinkVisit, path: &VPath) -> String {
    if let Some(name) = path.file_name() {
        return name.to_owned();
    }
    let terms = &visit.terms;
    let named = || match (&*terms.files, terms.allows(LinkAction::Download)) {
        ([only], _) => only.clone(),
        (_, true) => terms.folder.file_name().unwrap_or("Files").to_owned(),
        (_, false) => format!("Send files to {}", terms.owner),
    };
    if terms.title.is_empty() { named() } else { terms.title.clone() }
}

/// From whom it is, until when, and how often.
fn about(content: &mut String, visit: &LinkVisit) {
    let terms = &visit.terms;
    // To write into a string cannot fail.
    let _ = write!(content, "<p class=\"muted\">From <bdi>{}</bdi>", escape(terms.owner.as_str()));
    if let Some(end) = visit.link.account.expires_at {
        let _ = write!(content, ", until {}", date(end));
    }
    content.push_str(".</p>\n");
    let mut limits = Vec::new();
    if let Some(most) = terms.downloads {
        let left = u64::from(most).saturating_sub(visit.uses.downloads);
        limits.push(format!("{left} of {most} downloads are left."));
    }
    if let Some(most) = terms.uploads {
        let left = u64::from(most).saturating_sub(visit.uses.uploads);
        limits.push(format!("{left} of {most} files may still be sent."));
    }
    if let Some(most) = terms.largest_upload() {
        limits.push(format!("A file may have {} at most.", size(most)));
    }
    if !limits.is_empty() {
        let _ = writeln!(content, "<p class=\"muted\">{}</p>", limits.join(" "));
    }
}

fn files(content: &mut String, visit: &LinkVisit, path: &VPath, shown: &ShownFiles<'_>) {
    let (root, listed) = (&visit.root, shown.listed);
    if let Some(above) = path.parent() {
        let there = address_below(root, &above);
        let _ = writeln!(content, "<nav><a href=\"{there}\">Folder above</a></nav>");
    }
    if listed.entries.is_empty() {
        content.push_str("<p>Nothing is here.</p>\n");
    }
    let is_one = listed.entries.len() == 1 && !visit.terms.files.is_empty();
    let there = address_below(root, path);
    if !is_one && !listed.entries.is_empty() {
        // A browser makes `?zip=&name=A&name=B` of it.
        let _ = write!(
            content,
            "<form method=\"get\" action=\"{there}\">\n\
             <input type=\"hidden\" name=\"zip\" value=\"\">"
        );
    }
    content.push_str("<ul>\n");
    for entry in &listed.entries {
        row(content, root, path, Row { entry, is_choosable: !is_one });
    }
    content.push_str("</ul>\n");
    if let Some(next) = &listed.next {
        let _ = writeln!(content, "<p><a href=\"?cursor={next}\">Next page</a></p>");
    }
    match &*listed.entries {
        [only] if is_one => {
            let there = path.join(&only.name).map(|path| address_below(root, &path));
            let there = there.unwrap_or_default();
            if let Some(digest) = shown.sha256 {
                let _ = writeln!(content, "<p><code>SHA-256 {}</code></p>", hex(&digest));
            }
            let _ = writeln!(content, "<p><a class=\"button\" href=\"{there}\">Download</a></p>");
        }
        [_, ..] => {
            let _ = writeln!(
                content,
                "<p><a class=\"button\" href=\"{there}?zip\">Download all as zip</a>\n\
                 <button class=\"quiet\">Download what is ticked as zip</button></p>\n</form>"
            );
        }
        [] => {}
    }
}

/// An entry on a page.
struct Row<'a> {
    entry: &'a Entry,
    /// There are others: each has a box by which it is chosen.
    is_choosable: bool,
}

fn row(content: &mut String, root: &str, path: &VPath, row: Row<'_>) {
    let Row { entry, is_choosable } = row;
    let Ok(path) = path.join(&entry.name) else { return };
    let is_directory = entry.attributes.kind == EntryKind::Directory;
    let slash = if is_directory { "/" } else { "" };
    let size = if is_directory { String::new() } else { size(entry.attributes.size) };
    let name = escape(&entry.name);
    content.push_str("<li>");
    if is_choosable {
        let _ = write!(
            content,
            "<input type=\"checkbox\" name=\"name\" value=\"{}\" aria-label=\"Choose {name}\">",
            attribute(&entry.name)
        );
    }
    let _ = writeln!(
        content,
        "<a href=\"{}{slash}\"><bdi>{name}</bdi>{slash}</a><span>{size}</span>\
         <span class=\"muted\">{}</span></li>",
        address_below(root, &path),
        date(entry.attributes.modified)
    );
}

/// Files that arrived, with what proves that they arrived whole.
pub(super) fn arrived(visit: &LinkVisit, files: &[Arrived]) -> Response {
    let mut page = Page::card("Arrived");
    let mut content = String::new();
    let count = files.len();
    let words = if count == 1 { "The file is".to_owned() } else { format!("{count} files are") };
    let _ = writeln!(content, "<p class=\"ok\" role=\"status\">✓ {words} safely stored.</p>\n<ul>");
    for file in files {
        let digest = file.blake3.as_deref().unwrap_or_default();
        let _ = writeln!(
            content,
            "<li><span><bdi>{}</bdi></span><span>{} ({} bytes)</span>\
             <code>BLAKE3 {digest}</code></li>",
            escape(&file.name),
            size(file.size),
            file.size
        );
    }
    let _ = writeln!(content, "</ul>\n<p><a href=\"{}\">Send more</a></p>", visit.root);
    page.push(&content);
    page.answer(StatusCode::CREATED, visit.context.shared().env())
}
