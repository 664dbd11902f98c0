use super::*;

const LOANS: &str = include_str!("../../../tests/models/loans.yaml");

fn findings(text: &str) -> Vec<String> {
    check(&Model::read(text).unwrap()).iter().map(ToString::to_string).collect()
}

/// The model with one part of it changed, and what is found then.
fn changed(from: &str, to: &str) -> Vec<String> {
    assert_eq!(LOANS.matches(from).count(), 1, "{from}");
    findings(&LOANS.replace(from, to))
}

fn line_of(part: &str) -> usize {
    LOANS.lines().position(|line| line.contains(part)).unwrap() + 1
}

#[test]
fn the_sample_has_no_findings() {
    assert_eq!(findings(LOANS), [""; 0]);
}

#[test]
fn names_that_lead_nowhere_are_found_with_the_nearest() {
    let line = line_of("open: {");
    let found = changed("key: ENTER, to: Signon", "key: ENTER, to: Singon");
    assert!(found[0].starts_with(&format!("{line}:")), "{found:?}");
    assert!(found[0].ends_with("dangling: there is no entity 'Singon' (did you mean 'Signon'?)"));
    let found = changed("fill: {name: $reader}", "fill: {nmae: $raeder}");
    assert!(found[0].contains("field of 'Find' called 'nmae' (did you mean 'name'?)"), "{found:?}");
    assert!(found[1].contains("variable 'raeder' (did you mean 'reader'?)"), "{found:?}");
    let found = changed("read: {rows: Loans.loans", "read: {rows: Loans.loan");
    assert!(found[0].contains("recordset 'Loans.loan' (did you mean 'Loans.loans'?)"), "{found:?}");
    let found = changed("where: {id: $id}", "where: {idd: $it}");
    assert!(found[0].contains("there is no column 'idd'"), "{found:?}");
    assert!(found[1].contains("parameter or variable 'it'"), "{found:?}");
    let found = changed("home: Menu", "home: xyz");
    assert!(found[0].ends_with("dangling: there is no entity 'xyz'"), "{found:?}");
    let found = changed("skip: blank id", "skip: blank idd");
    assert!(found[0].contains("column 'idd'"), "{found:?}");
}

#[test]
fn what_nothing_reaches_or_uses_is_found() {
    let lost = "  Lost:\n    is: [\"LB999 @ 1,72\"]\nprocedures:";
    let found = changed("procedures:", lost);
    assert!(found[0].contains("unreachable: nothing leads to 'Lost'"), "{found:?}");
    let found = changed("variables: {", "variables: {spare: {}, ");
    assert!(found[0].ends_with("unused: nothing uses the variable 'spare'"), "{found:?}");
    let found = changed("fields: {option:", "fields: {spare: \"5,1 len 2\", option:");
    assert!(found[0].ends_with("unused: nothing types or reads 'spare'"), "{found:?}");
}

#[test]
fn entities_that_hide_others_are_found() {
    let found = changed("is: [\"LB110 @ 1,72\"]", "is: [\"LB100 @ 1,72\", \"x @ 2,1\"]");
    assert!(found[0].contains("overlapping: each screen of 'Find' is one of 'Menu'"), "{found:?}");
    let found = changed("is: [\"LB110 @ 1,72\"]", "is: []");
    assert!(found[0].contains("'Find' is known by nothing"), "{found:?}");
}

#[test]
fn what_is_no_model_is_refused_where_it_stands() {
    for (from, to, wanted) in [
        ("key: PF8", "key: PF99", "'PF99' is no key that goes to a host"),
        ("\"LB110 @ 1,72\"", "\"LB110\"", "'LB110' is no test"),
        ("\"LB110 @ 1,72\"", "\"LB110 @ 1\"", "'1' is no place"),
        ("area: 8-20", "area: 20-8", "'20-8' are no rows"),
        ("10,20 len 20", "10,20", "has no length"),
        ("skip: blank id", "skip: id", "skips nothing"),
        ("home: Menu", "hom: Menu", "hom"),
    ] {
        assert_eq!(LOANS.matches(from).count(), 1, "{from}");
        let error = Model::read(&LOANS.replace(from, to)).unwrap_err();
        assert!(error.problem.contains(wanted), "{error}");
        assert!(error.line > 0);
    }
    assert!(Model::read("model: x\nhome: A\nentities: {}\n").is_err());
}
