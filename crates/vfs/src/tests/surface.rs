//! The public surface, so that growth shows in a diff (ARCHITECTURE.md, "Where this will rot").

/// What `pub` items outside tests look like, in the order of the files.
fn surface() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut items = Vec::new();
    for file in ["service.rs", "session.rs", "vfs.rs", "links.rs", "modes.rs"] {
        scan(&folder.join(file), &mut items);
    }
    for file in ["upload.rs", "upload/publish.rs", "upload/copy.rs", "upload/spool.rs"] {
        scan(&folder.join(file), &mut items);
    }
    for file in ["download.rs", "hash.rs", "error.rs", "meters.rs", "recovery.rs"] {
        scan(&folder.join(file), &mut items);
    }
    scan(&folder.join("hooks.rs"), &mut items);
    items
}

fn scan(file: &std::path::Path, items: &mut Vec<String>) {
    let text = std::fs::read_to_string(file).unwrap();
    for line in text.lines().map(str::trim_start) {
        let Some(rest) = line.strip_prefix("pub ") else { continue };
        let words = rest.trim_start_matches("async ").trim_start_matches("const ");
        let Some((kind, rest)) = words.split_once(' ') else { continue };
        if ["fn", "struct", "enum"].contains(&kind) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            items.push(format!("{kind} {}", &rest[..end]));
        }
    }
}

#[test]
fn the_public_surface_is_the_one_that_was_agreed() {
    let wanted = include_str!("surface.txt");
    let found = surface().join("\n") + "\n";
    assert!(
        found == wanted,
        "the public surface changed: if that is meant, put this into src/tests/surface.txt\n{found}"
    );
}
