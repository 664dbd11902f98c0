//! Links that lead to providers of OpenID Connect. Links, and not forms: a page of ours may send
//! forms to us alone, also by way of a redirection.

use std::fmt::Write as _;

use entrepot_nouns::Name;

use crate::files::path::encode_into;
use crate::html::escape;

/// A link for each provider, by its name and label, as HTML.
pub(super) fn links(offered: &[(&Name, &str)], below: &str, to: &str) -> String {
    let mut html = String::new();
    for (name, label) in offered {
        let mut there = format!("{below}{name}?to=");
        encode_into(&mut there, to);
        // To write into a string cannot fail.
        let _ = writeln!(
            html,
            "<p><a class=\"button\" href=\"{}\">Sign in with {}</a></p>",
            escape(&there),
            escape(label)
        );
    }
    html
}
