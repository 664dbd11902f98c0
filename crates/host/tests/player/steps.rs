//! What a recorded person did at the terminal, taken from the trace by itself.

use std::sync::Arc;

use entrepot_host::{CodePage, Key, Place};
use entrepot_tn3270_proto::address::Addressing;
use entrepot_tn3270_proto::enhanced::DataType;
use entrepot_tn3270_proto::observer::{Observer, Seen};
use entrepot_tn3270_proto::trace::{self, Origin};
use entrepot_tn3270_proto::typed::Typed;
use entrepot_tn3270_proto::{Aid, text};

/// One thing that was done.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The screen came that the person saw: hosts free the keyboard before they have shown all.
    See {
        at: Place,
        text: String,
    },
    /// A field was typed into.
    Fill {
        at: Place,
        text: String,
    },
    Press(Key),
}

pub(crate) fn steps(recorded: &str) -> Vec<Step> {
    let page = Arc::new(CodePage::new(37).unwrap());
    let mut observer = Observer::new(Arc::clone(&page));
    let mut steps = Vec::new();
    let mut before = Vec::new();
    for block in trace::read(recorded) {
        let mut input = block.bytes.as_slice();
        while let Some(seen) = observer.next(block.origin, &mut input) {
            let Seen::Record { header, data } = seen else { continue };
            let data_type = header.map_or(DataType::Data3270, |header| header.data_type);
            if block.origin == Origin::Host || data_type != DataType::Data3270 {
                continue;
            }
            let typed = Typed::parse(&data, Addressing::default()).unwrap();
            let key = match typed.key() {
                None | Some(Aid::None | Aid::StructuredField | Aid::ReadPartition) => continue,
                Some(key) => key,
            };
            let screen = observer.screen();
            let columns = screen.size().columns;
            let rows = text::rows(screen, &page);
            steps.extend(new_row(&before, &rows));
            before = rows;
            for field in &typed.fields {
                let at = field.at.unwrap_or(0);
                if screen.ruling(at).is_protected() {
                    // The host has marked it itself.
                    continue;
                }
                let at = Place { row: at / columns + 1, column: at % columns + 1 };
                let letters = field.codes.iter().map(|code| page.character(*code).unwrap_or(' '));
                steps.push(Step::Fill { at, text: letters.collect() });
            }
            steps.push(Step::Press(Key::Aid(key)));
        }
    }
    steps
}

/// The longest row that the screen before did not show.
fn new_row(before: &[String], rows: &[String]) -> Option<Step> {
    let new = rows.iter().enumerate().filter(|(at, row)| before.get(*at) != Some(row));
    let (at, row) = new.max_by_key(|(_, row)| row.trim().len())?;
    let text = row.trim().to_owned();
    let column = row.find(&text).map_or(1, |at| row[..at].chars().count() + 1);
    (!text.is_empty()).then_some(Step::See { at: Place { row: at + 1, column }, text })
}

/// A step as the actions of s3270.
pub(crate) fn actions(step: &Step) -> Vec<String> {
    match step {
        // Behind a key it waits for the keyboard, and s3270 takes what comes meanwhile.
        Step::See { .. } => Vec::new(),
        Step::Fill { at, text } => {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            let to = format!("MoveCursor({},{})", at.row - 1, at.column - 1);
            let mut actions = vec![to, "EraseEOF()".to_owned()];
            if !text.is_empty() {
                actions.push(format!("String(\"{text}\")"));
            }
            actions
        }
        Step::Press(Key::Aid(aid)) => vec![match aid {
            Aid::Pf(number) => format!("PF({number})"),
            Aid::Pa(number) => format!("PA({number})"),
            Aid::Clear => "Clear()".to_owned(),
            _ => "Enter()".to_owned(),
        }],
        Step::Press(key) => panic!("no trace has {key:?}"),
    }
}
