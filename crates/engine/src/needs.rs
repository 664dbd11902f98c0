//! What must be so of an event for a condition to hold, found out without evaluating it: of a
//! thousand rules on one kind of event most compare a path or an account with a text of their own,
//! and an event is for few of them.

use entrepot_nouns::Event;

use crate::condition::{Condition, Must};
use crate::pattern;

/// A text of an event that conditions compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Path,
    Folder,
    Name,
    Stem,
    Extension,
    Account,
}

impl Text {
    /// By its name in conditions.
    fn of(name: &str) -> Option<Text> {
        Some(match name {
            "file.path" => Text::Path,
            "file.dir" => Text::Folder,
            "file.name" => Text::Name,
            "file.stem" => Text::Stem,
            "file.extension" => Text::Extension,
            "account" | "event.account" => Text::Account,
            _ => return None,
        })
    }
}

/// The texts of one event.
pub(crate) struct EventTexts<'e> {
    path: Option<&'e str>,
    name: Option<&'e str>,
    account: Option<&'e str>,
}

impl<'e> EventTexts<'e> {
    pub(crate) fn of(event: &'e Event) -> EventTexts<'e> {
        let path = pattern::event_path(event);
        // Where there is no path there is no file either, and conditions that ask for it fail.
        let name = path.map(|_| pattern::file_name(event).unwrap_or_default());
        let account = event.account.as_ref().map(|name| name.as_str());
        EventTexts { path, name, account }
    }

    fn get(&self, text: Text) -> Option<&'e str> {
        match text {
            Text::Path => self.path,
            Text::Folder => self.path.map(pattern::folder),
            Text::Name => self.name,
            Text::Stem => self.name.map(|name| pattern::split_name(name).0),
            Text::Extension => self.name.map(|name| pattern::split_name(name).1),
            Text::Account => self.account,
        }
    }
}

/// What a condition needs: each must be so.
#[derive(Default)]
pub(crate) struct Needs(Vec<(Text, Must)>);

impl Needs {
    pub(crate) fn of(condition: &Condition) -> Needs {
        let constraints = condition.constraints().into_iter();
        Needs(constraints.filter_map(|it| Some((Text::of(&it.of)?, it.must))).collect())
    }

    /// False if the condition is false for the event, whatever else it says: an operand of `&&`
    /// that is false decides, also where another one fails.
    pub(crate) fn may_hold(&self, texts: &EventTexts<'_>) -> bool {
        self.0.iter().all(|(text, must)| texts.get(*text).is_none_or(|text| must.fits(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Subject;
    use crate::fixture::{main_site, uploaded};

    #[test]
    fn what_is_left_out_would_not_hold() {
        let conditions = [
            ("file.path.startsWith('/in/')", 2),
            ("file.path == '/in/a.csv' && file.size > 0", 1),
            ("'/in' == file.dir", 2),
            ("file.name.endsWith('.csv')", 2),
            ("file.stem == 'a' && file.extension == 'csv'", 1),
            ("account == 'acme'", 3),
            ("account == 'other'", 0),
            ("event.account == 'acme'", 3),
            // These say nothing that is known beforehand.
            ("file.path.startsWith('/in/') || file.size > 1", 3),
            ("!file.path.startsWith('/in/')", 1),
            ("file.path.startsWith('/in/') ? false : true", 1),
            // The error does not count where the other operand is false.
            ("file.path.startsWith('/in/') && 1 / 0 == 1", 0),
        ];
        let events = ["/in/a.csv", "/in/b.txt", "/out.csv"].map(uploaded);
        for (source, wanted) in conditions {
            let condition = Condition::compile(source).unwrap();
            let needs = Needs::of(&condition);
            let mut holding = 0;
            for event in &events {
                let judged = condition.holds(&Subject::new(event, &main_site()));
                if !needs.may_hold(&EventTexts::of(event)) {
                    assert_eq!(judged, Ok(false), "{source}: {event:?}");
                }
                holding += usize::from(judged == Ok(true));
            }
            assert_eq!(holding, wanted, "{source}");
        }
    }

    #[test]
    fn what_an_event_does_not_have_is_left_to_the_condition() {
        let condition = Condition::compile("file.path == '/a' && account == 'x'").unwrap();
        let mut event = uploaded("/in/a");
        event.fact = entrepot_nouns::Fact::NodeStopped {};
        event.account = None;
        assert!(Needs::of(&condition).may_hold(&EventTexts::of(&event)));
    }
}
