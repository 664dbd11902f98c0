//! Lists whose records have several rows, at an application that shows the pages it is given.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use entrepot_host::model::{Model, check};
use entrepot_host::{Application, CallError, CodePage};
use entrepot_tn3270_proto::Aid;
use entrepot_tn3270_proto::address::Addressing;
use entrepot_tn3270_proto::client::Wish;
use entrepot_tn3270_proto::enhanced::{DataType, Functions, Header};
use entrepot_tn3270_proto::host::{Host, HostEvent, HostOptions};
use entrepot_tn3270_proto::typed::Typed;
use serde_json::{Value, json};

use crate::{options, values};

/// The rows of a page from the third row of the screen on.
type Pages = &'static [&'static [&'static str]];

/// Shows pages: PF8 the next one, PF7 the one before, and ENTER at a row what is in its order.
fn open(pages: Pages) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A terminal that goes away ends its session.
            std::thread::spawn(move || drop(serve(stream, pages)));
        }
    });
    address
}

fn serve(mut stream: TcpStream, pages: Pages) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut host = Host::new(HostOptions {
        enhanced: Wish::Accept,
        functions: Functions::RESPONSES,
        start_tls: Wish::Refuse,
        device_name: "ORDERS".to_owned(),
    });
    let (mut page, mut opened) = (0, None);
    let mut buffer = [0; 4096];
    loop {
        stream.write_all(&std::mem::take(host.output()))?;
        let length = stream.read(&mut buffer)?;
        let mut input = &buffer[..length];
        if length == 0 {
            return Ok(());
        }
        while let Some(event) = host.next(&mut input) {
            match event {
                HostEvent::Ready(_) => {}
                HostEvent::Record(header) if header.data_type == DataType::Data3270 => {
                    let record = host.data().to_vec();
                    let typed = Typed::parse(&record, Addressing::default()).unwrap();
                    let row = typed.cursor.map_or(0, |at| at / 80 + 1);
                    match typed.key() {
                        Some(Aid::Pf(8)) => page = (page + 1).min(pages.len() - 1),
                        Some(Aid::Pf(7)) => page = usize::saturating_sub(page, 1),
                        Some(Aid::Enter) => opened = Some(pages[page][row - 3]),
                        _ => opened = None,
                    }
                }
                _ => continue,
            }
            let screen = match opened {
                Some(row) => drawn("ORDER", &[row]),
                None => drawn("ORDERS", pages[page]),
            };
            host.send(Header::default(), &screen);
        }
    }
}

/// Erases, and shows a name in the first row and others from the third on.
fn drawn(name: &str, rows: &[&str]) -> Vec<u8> {
    let page = CodePage::new(37).unwrap();
    let mut record = vec![0xf5, 0xc3, 0x11, 0, 0, 0x1d, 0x60];
    let mut put = |row: usize, text: &str| {
        let [.., high, low] = ((row - 1) * 80 + 1).to_be_bytes();
        record.extend([0x11, high, low]);
        record.extend(text.chars().map(|letter| page.code(letter).unwrap()));
    };
    put(1, name);
    for (at, row) in rows.iter().enumerate() {
        put(at + 3, row);
    }
    record
}

/// With what a list says of its records, and its columns.
fn model(size: &str, columns: &str, step: &str) -> String {
    format!(
        "model: orders
home: Orders
entities:
  Order:
    is: [\"ORDER  @ 1,2\"]
    fields: {{first: \"3,3 len 20 out\"}}
    ops: {{back: {{key: PF3, to: Orders}}}}
  Orders:
    is: [\"ORDERS @ 1,2\"]
    rows:
      name: orders
      area: 3-10
      {size}
      columns: {{{columns}}}
      next: {{key: PF8}}
      previous: {{key: PF7}}
    ops: {{}}
procedures:
  orders:
    in: {{which: {{default: ''}}}}
    do:
      - {step}
"
    )
}

const READ: &str = "read: {rows: Orders.orders}";

async fn called(model: &str, pages: Pages, which: &str) -> Result<Value, CallError> {
    let read = Arc::new(Model::read(model).unwrap());
    assert_eq!(check(&read).iter().find(|it| it.kind == "dangling"), None);
    let mut application =
        Application::open(read, options(&open(pages)), values(&[])).await.unwrap();
    let mut found = application.call("orders", values(&[("which", which)])).await?;
    Ok(found["orders"].take())
}

/// Two rows each.
#[tokio::test]
async fn records_have_several_rows() {
    const PAGES: Pages = &[
        &[" 1001 SMITH", "      12.50  BOOK", " 1002 JONES", "      7.00   PEN"],
        &[" 1003 BROWN", "      1.00   INK"],
    ];
    let columns = "id: \"3 len 4 out integer\", name: \"8 len 10 out\", \
                   price: \"8 len 6 out decimal row 2\", what: \"15 len 9 row 2 out\"";
    let two = model("height: 2\n      skip: blank id", columns, READ);
    let wanted = json!([
        {"id": 1001, "name": "SMITH", "price": "12.50", "what": "BOOK"},
        {"id": 1002, "name": "JONES", "price": "7.00", "what": "PEN"},
        {"id": 1003, "name": "BROWN", "price": "1.00", "what": "INK"},
    ]);
    assert_eq!(called(&two, PAGES, "").await.unwrap(), wanted);
    for (wrong, told) in [
        ("height: 3", "8 rows of 'orders' are no records of 3 rows"),
        ("height: 0", "no records of 0 rows"),
        ("height: 1", "'price' stands in a row that the record has not"),
        ("height: 2\n      delimiter: blank", "one of 'height', 'start_when' and 'delimiter'"),
        ("delimiter: text id", "'blank' or '---- @ 2'"),
        ("start_when: blank", "'text id', 'number id' or 'ORDER @ 2'"),
        ("start_when: ORDER @ 0", "'text id', 'number id' or 'ORDER @ 2'"),
    ] {
        let refused = Model::read(&model(wrong, columns, READ)).unwrap_err().to_string();
        assert!(refused.contains(told), "{wrong}: {refused}");
    }
    let refused = Model::read(&two.replace("row 2 out", "row 0 out")).unwrap_err().to_string();
    assert!(refused.contains("'row 2' or 'row 2-'"), "{refused}");
    let other = Model::read(&model("start_when: number ident", columns, READ)).unwrap();
    let found = check(&other);
    assert!(found.iter().any(|it| it.problem.contains("no column 'ident'")), "{found:?}");
}

const COLUMNS: &str = "id: \"3 len 4 out\", name: \"8 len 10 out\", notes: \"8 len 20 out row 2-\"";

/// As many rows as the application needs; the second order goes on with the next page, whose first
/// rows have no number.
const LONG: Pages = &[
    &["      PAGE 1", " 1001 SMITH", " 1002 JONES", "      FRAGILE", "      CALL FIRST"],
    &["      RING TWICE", " 1003 BROWN", "", "      BACK DOOR"],
];

fn long() -> Value {
    json!([
        {"id": "1001", "name": "SMITH", "notes": ""},
        {"id": "1002", "name": "JONES", "notes": "FRAGILE\nCALL FIRST\nRING TWICE"},
        {"id": "1003", "name": "BROWN", "notes": "\nBACK DOOR"},
    ])
}

#[tokio::test]
async fn records_begin_with_a_row_that_is_told_apart() {
    for start in ["start_when: number id", "start_when: text id", "start_when: '100 @ 3'"] {
        let found = called(&model(start, COLUMNS, READ), LONG, "").await.unwrap();
        assert_eq!(found, long(), "{start}");
    }
    // No more than are wanted: the second one has all of its rows.
    let two = "read: {rows: Orders.orders, limit: 2}";
    let found = called(&model("start_when: number id", COLUMNS, two), LONG, "").await.unwrap();
    assert_eq!(found, json!(long().as_array().unwrap()[..2]));
    let none: Pages = &[&["      NO ORDERS"]];
    let found = called(&model("start_when: number id", COLUMNS, READ), none, "").await.unwrap();
    assert_eq!(found, json!([]));
}

/// The cursor is put on the row with which the order begins.
#[tokio::test]
async fn records_of_several_rows_are_opened() {
    let opened = |rows: &str| {
        format!(
            "each: {{rows: {rows}, key: ENTER, do: [{{on: {{Order: continue}}}}, \
             {{read: {{fields: Order}}}}]}}"
        )
    };
    let start = "start_when: number id";
    let ids = |found: &Value| -> Vec<Value> {
        found.as_array().unwrap().iter().map(|it| json!([it["id"], it["first"]])).collect()
    };
    let all = json!([["1001", "1001 SMITH"], ["1002", "1002 JONES"], ["1003", "1003 BROWN"]]);
    let all = all.as_array().unwrap();
    let found = called(&model(start, COLUMNS, &opened("Orders.orders")), LONG, "").await.unwrap();
    assert_eq!(ids(&found), all[..]);
    let last = opened("Orders.orders.last(2)");
    let found = called(&model(start, COLUMNS, &last), LONG, "").await.unwrap();
    assert_eq!(ids(&found), all[1..]);
    let pick = "pick: {rows: Orders.orders, where: {id: $which}, key: ENTER}\n      \
                - read: {fields: Order}";
    let model = model(start, COLUMNS, pick);
    let read = Arc::new(Model::read(&model).unwrap());
    let mut application = Application::open(read, options(&open(LONG)), values(&[])).await.unwrap();
    let found = application.call("orders", values(&[("which", "1003")])).await.unwrap();
    assert_eq!(found, json!({"first": "1003 BROWN"}));
}

#[tokio::test]
async fn records_stand_between_rows_that_are_none() {
    const PAGES: Pages = &[
        &["", " 1001 SMITH", "      FRAGILE", "", "", " 1002 JONES"],
        &[" 1003 BROWN", "      BACK DOOR", "      RING TWICE"],
    ];
    let wanted = json!([
        {"id": "1001", "name": "SMITH", "notes": "FRAGILE"},
        {"id": "1002", "name": "JONES", "notes": ""},
        {"id": "1003", "name": "BROWN", "notes": "BACK DOOR\nRING TWICE"},
    ]);
    let found = called(&model("delimiter: blank", COLUMNS, READ), PAGES, "").await.unwrap();
    assert_eq!(found, wanted);
    const RULED: Pages = &[
        &[" 1001 SMITH", "      FRAGILE", " ------", " 1002 JONES", " ------", ""],
        &[" ------", " 1003 BROWN", "      BACK DOOR", "      RING TWICE", " ---"],
    ];
    let found = called(&model("delimiter: '---- @ 3'", COLUMNS, READ), RULED, "").await.unwrap();
    let found = found.as_array().unwrap();
    assert_eq!(found[..2], wanted.as_array().unwrap()[..2]);
    // A shorter rule is none.
    assert_eq!(found[2]["notes"], "BACK DOOR\nRING TWICE");
    assert_eq!(found.len(), 3);
}
