//! What models say of lists, regular expressions and times.

use std::sync::Arc;
use std::time::Duration;

use entrepot_host::model::{Model, check, described};
use entrepot_host::{Application, CallError, SAMPLE_LOANS, SampleLoan};
use serde_json::{Value, json};

use crate::library::LastPage;
use crate::{CLERK, MODEL, all_loans, library, options, values};

/// A procedure in place of those of the sample.
pub(crate) fn model(procedure: &str) -> String {
    let (front, _) = MODEL.split_once("procedures:\n").unwrap();
    format!("{front}procedures:\n{procedure}")
}

const EACH: &str = "  \
  all_loans:
    in: {reader: {max: 20}, most: {type: integer, default: 100}, which: {default: ''}}
    do:
      - go: Find
      - fill: {name: $reader}
      - key: ENTER
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

async fn opened(model: &str) -> Application {
    let model = Arc::new(Model::read(model).unwrap());
    let address = library::open(LastPage::Told);
    Application::open(model, options(&address), values(&CLERK)).await.unwrap()
}

pub(crate) async fn called(model: &str, input: &[(&str, &str)]) -> Result<Value, CallError> {
    opened(model).await.call("all_loans", values(input)).await
}

/// What the library has: the column `due` is overwritten by the field of the loan.
fn loan(place: usize) -> Value {
    let SampleLoan { id, title, due, fine } = SampleLoan::at(place);
    let fine = if fine.is_empty() { Value::Null } else { json!("1250.50") };
    json!({"id": id, "title": title, "due": due, "fine": fine, "number": id, "note": ""})
}

#[tokio::test]
async fn each_record_of_all_pages_is_opened_and_what_it_shows_added() {
    let model = model(EACH);
    assert_eq!(check(&Model::read(&model).unwrap()).iter().find(|it| it.kind == "dangling"), None);
    let found = called(&model, &[("reader", "NOVAK")]).await.unwrap();
    let all: Vec<Value> = (0..SAMPLE_LOANS).map(loan).collect();
    assert_eq!(found["loans"], json!(all));
    // The fourteenth stands on the second page.
    let found = called(&model, &[("reader", "NOVAK"), ("most", "14")]).await.unwrap();
    assert_eq!(found["loans"], json!(all[..14]));
    let none = called(&model, &[("reader", "EMPTY")]).await.unwrap();
    assert_eq!(none["loans"], json!([]));
    // Where the list begins anew behind each record, the page is looked for.
    let anew = "            - read: {fields: Loan}\n            - go: Find\n            \
                - fill: {name: $reader}\n            - key: ENTER\n";
    let model = model.replace("            - read: {fields: Loan}\n", anew);
    let found = called(&model, &[("reader", "NOVAK")]).await.unwrap();
    assert_eq!(found["loans"], json!(all));
}

/// They stand on the last two of three pages; the session is at the end of the list when they are
/// known, and goes back for them.
#[tokio::test]
async fn the_last_records_of_a_list_are_opened() {
    let last =
        |count: &str| model(&EACH.replace("Loans.loans\n", &format!("Loans.loans.{count}\n")));
    let all: Vec<Value> = (0..SAMPLE_LOANS).map(loan).collect();
    let of_most = last("last($most)").replace("          limit: $most\n", "");
    for most in [0, 1, 4, 5, 17, 18, SAMPLE_LOANS, SAMPLE_LOANS + 1] {
        let asked = most.to_string();
        let found = called(&of_most, &[("reader", "NOVAK"), ("most", &asked)]).await.unwrap();
        let wanted = &all[SAMPLE_LOANS.saturating_sub(most)..];
        assert_eq!(found["loans"], json!(wanted), "{most}");
    }
    let none = called(&of_most, &[("reader", "EMPTY")]).await.unwrap();
    assert_eq!(none["loans"], json!([]));
    // Of the last ones the first; and of those that are meant.
    let found = called(&last("last(5)"), &[("reader", "NOVAK"), ("most", "2")]).await.unwrap();
    assert_eq!(found["loans"], json!(all[25..27]));
    let due = last("last(1)").replace("limit: $most", "where: {due: 02.11.2026}");
    let found = called(&due, &[("reader", "NOVAK")]).await.unwrap();
    assert_eq!(found["loans"], json!([all[29]]));
    let found = called(&due.replace("last(1)", "last(2)"), &[("reader", "NOVAK")]).await.unwrap();
    assert_eq!(found["loans"], json!([all[1], all[29]]));
    // Where the list begins anew behind each record.
    let anew = "            - read: {fields: Loan}\n            - go: Find\n            \
                - fill: {name: $reader}\n            - key: ENTER\n";
    let again = of_most.replace("            - read: {fields: Loan}\n", anew);
    let found = called(&again, &[("reader", "NOVAK"), ("most", "6")]).await.unwrap();
    assert_eq!(found["loans"], json!(all[24..]));
    // Without a way back nobody gets there, and the check says so.
    let lost = of_most.replace("      previous: {key: PF7}\n", "");
    let told = check(&Model::read(&lost).unwrap());
    assert!(told.iter().any(|it| it.problem.contains("need 'previous'")), "{told:?}");
    let error = called(&lost, &[("reader", "NOVAK"), ("most", "6")]).await.unwrap_err();
    assert!(error.to_string().contains("the page of 'loans'"), "{error}");
    for wrong in ["last()", "first(3)", "last(3"] {
        let refused = Model::read(&last(wrong)).unwrap_err().to_string();
        assert!(refused.contains("'Loans.loans.last($n)'"), "{wrong}: {refused}");
    }
}

#[tokio::test]
async fn no_more_records_are_read_than_are_wanted() {
    let (front, _) = EACH.split_once("      - each:").unwrap();
    let read = format!(
        "{front}      - read: {{rows: Loans.loans, limit: $most}}\n      \
         - read: {{fields: Loans}}\n"
    );
    let model = model(&read);
    let all = all_loans()["loans"].as_array().unwrap().clone();
    // A page has 13 of them.
    for most in [0, 1, 13, 14, SAMPLE_LOANS, SAMPLE_LOANS + 1] {
        let asked = most.to_string();
        let found = called(&model, &[("reader", "NOVAK"), ("most", &asked)]).await.unwrap();
        assert_eq!(found["loans"], json!(all[..most.min(SAMPLE_LOANS)]), "{most}");
        assert_eq!(found["reader"], "NOVAK", "{most}");
    }
    let both = model.replace("limit: $most}", "fields: Loans}");
    let refused = Model::read(&both).unwrap_err().to_string();
    assert!(refused.contains("'read' takes either 'rows'"), "{refused}");
}

#[tokio::test]
async fn records_are_chosen_and_their_columns_are_values() {
    let chosen = EACH.replace("          limit: $most\n", "          where: {id: $which}\n");
    let chosen = chosen.replace(
        "            - read: {fields: Loan}\n",
        "            - fill: {due: $due}\n            - key: ENTER\n            \
         - on: {Refused: {error: refused, text: $id}}\n",
    );
    let error = called(&model(&chosen), &[("reader", "NOVAK"), ("which", "1028")]).await;
    assert_eq!(error.unwrap_err().to_string(), "refused: 1028");
    let none = called(&model(&chosen), &[("reader", "NOVAK"), ("which", "7")]).await.unwrap();
    assert_eq!(none["loans"], json!([]));
    let dangling = model(&chosen.replace("$due", "$duo"));
    let found = check(&Model::read(&dangling).unwrap());
    assert!(found.iter().any(|it| it.problem.contains("'duo'")), "{found:?}");
    let nested = EACH.replace(
        "            - read: {fields: Loan}\n",
        "            - each: {rows: Loans.loans, key: ENTER, do: []}\n",
    );
    let refused = Model::read(&model(&nested)).unwrap_err().to_string();
    assert!(refused.contains("'all_loans' has an 'each' in an 'each'"), "{refused}");
}

#[test]
fn what_each_gives_is_described() {
    let model = Model::read(&model(EACH)).unwrap();
    let columns = ["id", "title", "due", "fine", "number", "note"];
    let sets = model.row_sets("all_loans");
    assert_eq!((sets.len(), sets[0].columns.as_slice()), (1, &columns.map(str::to_owned)[..]));
    let output = &described(&model)[0].output;
    let record = &output["properties"]["loans"]["items"]["properties"];
    assert!(columns.iter().all(|name| record[name].is_object()), "{output}");
}

#[tokio::test]
async fn screens_are_known_by_regular_expressions() {
    let patterns = [
        ("\"LB120 @ 1,72\"", "{match: \"/^LB1[2]0$/\", at: \"1,72\"}"),
        ("\"LB100 @ 1,72\"", "{match: \"LB1[0]{2}\"}"),
    ];
    let mut matching = MODEL.to_owned();
    for (text, regex) in patterns {
        matching = matching.replace(text, regex);
    }
    let mut application = opened(&matching).await;
    let found = application.call("find_loans", values(&[("reader", "NOVAK")])).await.unwrap();
    assert_eq!(found["loans"].as_array().unwrap().len(), SAMPLE_LOANS);
    // At another place, or as another text, there is no such screen.
    for other in ["/^LB1[2]0$/\", at: \"2,72", "/^B120/\", at: \"1,72"] {
        let model = MODEL.replace("\"LB120 @ 1,72\"", &format!("{{match: \"{other}\"}}"));
        let model = model.replace("    summary: Loans of a reader\n", "    timeout: 1s\n");
        let mut application = opened(&model).await;
        let late = application.call("find_loans", values(&[("reader", "NOVAK")])).await;
        assert_eq!(late.unwrap_err().code(), "EP1302");
    }
    let wrong = MODEL.replace("\"LB120 @ 1,72\"", "{match: \"/LB1[20/\"}");
    let refused = Model::read(&wrong).unwrap_err();
    assert!(refused.to_string().contains("no regular expression"), "{refused}");
    let huge = MODEL.replace("\"LB120 @ 1,72\"", "{match: \"/(x{1000}){1000}/\"}");
    assert!(Model::read(&huge).unwrap_err().to_string().contains("no regular expression"));
}

/// The host shows nothing of the model behind the key.
#[tokio::test]
async fn operations_and_procedures_end_after_their_times() {
    let unknown = MODEL.replace("LB110 @ 1,72", "LB111 @ 1,72");
    let of_operation =
        unknown.replace("key: ENTER, to: Find}", "key: ENTER, to: Find, timeout: 1s}");
    let whole = "    summary: Loans of a reader\n";
    let of_procedure = unknown.replace(whole, "    timeout: 1s\n");
    for (model, words) in [
        (of_operation, "a screen of the model did not come within 1 s"),
        (of_procedure, "the end of 'find_loans' did not come within 1 s"),
    ] {
        let mut application = opened(&model).await;
        let begun = std::time::Instant::now();
        let late = application.call("find_loans", values(&[("reader", "NOVAK")])).await;
        let late = late.unwrap_err();
        assert_eq!(late.code(), "EP1302");
        assert!(late.to_string().contains(words), "{late}");
        // The patience of the host is longer.
        assert!(begun.elapsed() < Duration::from_secs(15));
    }
    let nothing = MODEL.replace("key: ENTER, to: Find}", "key: ENTER, to: Find, timeout: 0s}");
    assert!(Model::read(&nothing).unwrap_err().to_string().contains("at least 1s"));
}
