//! What procedures give by the `out` of their model.

use entrepot_host::model::{Model, check, described};
use entrepot_host::{CallError, SAMPLE_LOANS, SampleLoan};
use serde_json::{Value, json};

use crate::MODEL;
use crate::each::{called, model};

const LOANS: &str = "  \
  all_loans:
    in: {reader: {max: 20}, most: {type: integer, default: 100}}
    out: {reader: string, count: integer, loans: [Loans.rows, {detail: Loan}]}
    do:
      - go: Find
      - fill: {name: $reader}
      - key: ENTER
      - read: {fields: Loans}
      - each:
          rows: Loans.loans
          limit: $most
          type: {sel: S}
          key: ENTER
          do:
            - on: {Loan: continue}
            - read: {fields: Loan}
      - go: home
";

/// Reads one loan.
const LOAN: &str = "  \
  all_loans:
    in: {reader: {max: 20}}
    out: {due: date(DD.MM.YYYY), number: string, loan: Loan}
    do:
      - go: Find
      - fill: {name: $reader}
      - key: ENTER
      - pick: {rows: Loans.loans, where: {id: 1001}, type: {sel: S}, key: ENTER}
      - read: {fields: Loan}
      - go: home
";

const NOVAK: [(&str, &str); 1] = [("reader", "NOVAK")];

fn loan(place: usize) -> Value {
    let SampleLoan { id, title, due, fine } = SampleLoan::at(place);
    let day = format!("2026-11-{}", &due[..2]);
    let fine = if fine.is_empty() { Value::Null } else { json!("1250.50") };
    let detail = json!({"number": id, "due": due, "note": ""});
    json!({"id": id, "title": title, "due": day, "fine": fine, "detail": detail})
}

/// What the records are beside hides nothing of them: both have a `due`.
#[tokio::test]
async fn a_procedure_gives_what_its_model_says_in_these_types() {
    let typed = model(LOANS);
    let of_kind = |kind: &str| {
        let found = check(&Model::read(&typed).unwrap());
        found.into_iter().filter(|it| it.kind == kind).count()
    };
    assert_eq!(of_kind("dangling"), 0);
    let found = called(&typed, &NOVAK).await.unwrap();
    let all: Vec<Value> = (0..SAMPLE_LOANS).map(loan).collect();
    assert_eq!(found, json!({"reader": "NOVAK", "count": SAMPLE_LOANS, "loans": all}));
    // The list alone, under another name, and how many were wanted.
    let short = typed.replace(
        "out: {reader: string, count: integer, loans: [Loans.rows, {detail: Loan}]}",
        "out: {borrowed: [Loans.loans], count: integer}",
    );
    let found = called(&short, &[("reader", "NOVAK"), ("most", "2")]).await.unwrap();
    let plain = |place: usize| {
        let mut loan = loan(place);
        loan.as_object_mut().unwrap().remove("detail");
        loan
    };
    assert_eq!(found, json!({"borrowed": [plain(0), plain(1)], "count": 2}));
    let none = called(&short, &[("reader", "EMPTY")]).await.unwrap();
    assert_eq!(none, json!({"borrowed": [], "count": 0}));
    // Types of `out` stand in place of those of the screen; the entity keeps its own.
    let found = called(&model(LOAN), &NOVAK).await.unwrap();
    let whole = json!({"number": 1001, "due": "02.11.2026", "note": ""});
    assert_eq!(found, json!({"due": "2026-11-02", "number": "     1001", "loan": whole}));
    let number = MODEL.replace("62 len 9 out decimal", "62 len 9 out number");
    let (front, _) = number.split_once("procedures:\n").unwrap();
    let found = called(&format!("{front}procedures:\n{LOANS}"), &NOVAK).await.unwrap();
    assert_eq!(
        (&found["loans"][0]["fine"], &found["loans"][1]["fine"]),
        (&json!(1250.5), &json!(null))
    );
}

#[tokio::test]
async fn what_is_nothing_of_its_type_is_told() {
    for (right, wrong, told) in [
        (
            "reader: string",
            "reader: integer",
            "'reader' of 'Loans' shows 'NOVAK', which is no whole number",
        ),
        ("reader: string", "reader: number", "shows 'NOVAK', which is no number"),
        ("reader: string", "reader: date(YYYY-MM-DD)", "which is no day as YYYY-MM-DD"),
        ("17 len 30 out", "17 len 30 out integer", "'title' of 'Loans' shows 'TITLE OF BOOK 0'"),
        (
            "date(DD.MM.YYYY)",
            "date(MM.DD.YYYY)",
            "shows '13.11.2026', which is no day as MM.DD.YYYY",
        ),
    ] {
        let typed = model(LOANS);
        assert!(typed.contains(right), "{right}");
        let error = called(&typed.replacen(right, wrong, 1), &NOVAK).await.unwrap_err();
        assert!(matches!(error, CallError::Kind { .. }) && error.code() == "EP1308", "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn what_a_procedure_gives_is_described_by_its_types() {
    let typed = Model::read(&model(LOANS)).unwrap();
    let text = json!({"type": "string"});
    let integer = json!({"type": ["integer", "null"]});
    let decimal = json!({"type": ["string", "null"], "pattern": "^-?[0-9]*(\\.[0-9]*)?$"});
    let day = json!({"type": ["string", "null"], "format": "date"});
    let detail = json!({
        "type": "object", "required": ["number", "due", "note"],
        "properties": {"number": integer, "due": text, "note": text},
    });
    let record = json!({
        "type": "object", "required": ["id", "title", "due", "fine", "detail"],
        "properties": {
            "id": integer, "title": text, "due": day, "fine": decimal, "detail": detail,
        },
    });
    assert_eq!(
        described(&typed)[0].output,
        json!({
            "type": "object", "required": ["reader", "count", "loans"],
            "properties": {
                "reader": text,
                "count": {"type": "integer", "minimum": 0},
                "loans": {"type": "array", "items": record},
            },
        })
    );
    let sets = typed.row_sets("all_loans");
    let columns = ["id", "title", "due", "fine", "detail.number", "detail.due", "detail.note"];
    assert_eq!((sets.len(), sets[0].columns.as_slice()), (1, &columns.map(str::to_owned)[..]));
}

#[test]
fn outputs_that_nothing_reads_are_found() {
    for (wrong, told) in [
        ("readr: string", "no field that a step reads, 'readr' (did you mean 'reader'?)"),
        ("number: integer", "no field that a step reads, 'number'"),
        ("loans: Lones", "no entity 'Lones' (did you mean 'Loans'?)"),
        ("loan: Loan", "'loan' is the entity 'Loan', which no step reads"),
        ("loans: [Loans.lones]", "no recordset 'Loans.lones'"),
        ("loans: [Loan.rows]", "no recordset 'Loan.rows'"),
        ("loans: [Loans.rows, {menu: Menu}]", "'menu' of 'loans' is the entity 'Menu', which no"),
        ("count: integer", "no field that a step reads, 'count'"),
    ] {
        let whole = "reader: string, count: integer, loans: [Loans.rows, {detail: Loan}]";
        let typed = model(&LOANS.replace(whole, wrong));
        let found = check(&Model::read(&typed).unwrap());
        let found = found.iter().find(|it| it.kind == "dangling");
        assert!(found.is_some_and(|it| it.problem.contains(told) && it.line > 50), "{found:?}");
    }
    for (wrong, told) in [
        ("[Loans]", "[Loans.rows, {detail: Loan}]"),
        ("[]", "[Loans.rows, {detail: Loan}]"),
        ("[{detail: Loan}]", "[Loans.rows, {detail: Loan}]"),
        ("[Loans.rows], all: [Loans.loans]", "'all' of 'all_loans' is a list that it gives"),
    ] {
        let typed = model(&LOANS.replace("[Loans.rows, {detail: Loan}]", wrong));
        let refused = Model::read(&typed).unwrap_err().to_string();
        assert!(refused.contains(told), "{wrong}: {refused}");
    }
}
