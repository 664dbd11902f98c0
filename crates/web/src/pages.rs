//! The pages of `docs/errors`, as they were when the program was built.

/// Each code and its page, in the order of the codes.
static PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/error_pages.rs"));

/// The page of a code, as Markdown.
pub(crate) fn page(code: &str) -> Option<&'static str> {
    let found = PAGES.binary_search_by(|(known, _)| (*known).cmp(code)).ok()?;
    PAGES.get(found).map(|(_, page)| *page)
}

/// The heading of a code's page, without the code.
pub(crate) fn title(code: &str) -> &'static str {
    let heading = page(code).and_then(|page| page.lines().next());
    heading.and_then(|heading| heading.split_once(": ")).map_or("", |(_, title)| title)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_code_has_its_page_and_title() {
        assert_eq!(super::title("EP0401"), "there is no such file or directory");
        assert!(super::page("EP0401").unwrap().starts_with("# EP0401: "));
        assert_eq!((super::page("EP"), super::title("EP")), (None, ""));
    }
}
