//! By what screens show at a few places, which entities of a model can stand: so a model with many
//! entities is no slower than one with few.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use entrepot_tn3270_proto::Terminal;

use super::items::Pattern;
use crate::action::Place;
use crate::limits::TELLING_PLACES;
use crate::shown::characters_at;

/// Made when a screen is looked at for the first time. Entities do not change behind that.
#[derive(Clone, Debug, Default)]
pub(super) struct EntityIndex(OnceLock<Candidates>);

/// Entities by their numbers, in the order of the model.
#[derive(Clone, Debug)]
struct Candidates {
    telling: Vec<TellingPlace>,
    /// Those with no text at one of these places.
    others: Vec<usize>,
}

/// A place where screens show something by which entities are known.
#[derive(Clone, Debug)]
struct TellingPlace {
    at: TextPlace,
    entities: HashMap<String, Vec<usize>>,
}

/// So many letters from a place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TextPlace {
    row: usize,
    column: usize,
    length: usize,
}

impl EntityIndex {
    /// The number of the first entity that holds; `entities` are the tests of each.
    pub(super) fn first<'e, E: Iterator<Item = &'e [Pattern]>>(
        &self,
        entities: impl Fn() -> E,
        terminal: &Terminal,
        holds: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let candidates = self.0.get_or_init(|| Candidates::of(entities()));
        let mut first: Option<usize> = None;
        for some in candidates.on(terminal) {
            let mut before = some.iter().copied().take_while(|at| first.is_none_or(|it| *at < it));
            first = before.find(|at| holds(*at)).or(first);
        }
        first
    }
}

impl Candidates {
    fn of<'e>(entities: impl Iterator<Item = &'e [Pattern]>) -> Candidates {
        let numbered = entities.map(texts).enumerate();
        let mut left: BTreeMap<usize, Vec<(TextPlace, &str)>> = numbered.collect();
        let mut telling = Vec::new();
        while telling.len() < TELLING_PLACES {
            let Some(at) = most_telling(left.values()) else { break };
            let mut known: HashMap<String, Vec<usize>> = HashMap::new();
            left.retain(|number, texts| {
                let Some((_, text)) = texts.iter().find(|(place, _)| *place == at) else {
                    return true;
                };
                known.entry((*text).to_owned()).or_default().push(*number);
                false
            });
            telling.push(TellingPlace { at, entities: known });
        }
        Candidates { telling, others: left.into_keys().collect() }
    }

    /// Entities that can stand on a screen; each list is in the order of the model.
    fn on(&self, terminal: &Terminal) -> impl Iterator<Item = &[usize]> {
        let known = self.telling.iter().filter_map(|TellingPlace { at, entities }| {
            let TextPlace { row, column, length } = *at;
            let shown: String = characters_at(terminal, Place { row, column }, length).collect();
            entities.get(&shown)
        });
        known.map(Vec::as_slice).chain([self.others.as_slice()])
    }
}

/// The texts by which an entity is known, all of which must stand.
fn texts(tests: &[Pattern]) -> Vec<(TextPlace, &str)> {
    let texts = tests.iter().filter_map(|test| match test {
        Pattern::Text { text, at: Place { row, column } } => {
            let length = text.chars().count();
            Some((TextPlace { row: *row, column: *column, length }, text.as_str()))
        }
        _ => None,
    });
    texts.collect()
}

/// Where there are most texts; `None`: nowhere are two.
fn most_telling<'t>(
    entities: impl Iterator<Item = &'t Vec<(TextPlace, &'t str)>>,
) -> Option<TextPlace> {
    let mut places: BTreeMap<TextPlace, BTreeSet<&str>> = BTreeMap::new();
    for (place, text) in entities.flatten() {
        places.entry(*place).or_default().insert(text);
    }
    let (place, texts) = places.into_iter().max_by_key(|(_, texts)| texts.len())?;
    (texts.len() > 1).then_some(place)
}

#[cfg(test)]
mod tests {
    use crate::model::Model;
    use crate::shown::terminal_with;

    const MODEL: &str = r#"
model: many
home: A0
entities:
  Cursor: {is: ["SAME @ 5,10", {cursor: "2,2"}]}
  A0: {is: ["AA0 @ 1,2", "MORE @ 5,10"]}
  Both: {is: ["BB1 @ 3,4", "AA1 @ 1,2"]}
  A1: {is: ["AA1 @ 1,2"]}
  A2: {is: ["AA2 @ 1,2"]}
  Long: {is: ["AA22 @ 1,2"]}
  Longer: {is: ["AA23 @ 1,2"]}
  B1: {is: ["BB1 @ 3,4"]}
  B2: {is: ["BB2 @ 3,4"]}
  Not: {is: [{not: "AA9 @ 1,2"}, "SAME @ 5,10"]}
  None: {is: []}
  Last: {is: [{any: ["AA9 @ 1,2", "BB9 @ 3,4"]}]}
  A9: {is: ["AA9 @ 1,2"]}
"#;

    #[test]
    fn the_first_entity_of_the_model_stands_wherever_it_is_known_from() {
        let model = Model::read(MODEL).unwrap();
        for (texts, wanted) in [
            (&[][..], None),
            (&[(1, 2, "AA0")], None),
            (&[(1, 2, "AA0"), (5, 10, "MORE")], Some("A0")),
            (&[(1, 2, "AA1")], Some("A1")),
            (&[(1, 2, "AA1"), (3, 4, "BB1")], Some("Both")),
            (&[(1, 2, "AA1"), (3, 4, "BB2")], Some("A1")),
            (&[(1, 2, "AA22")], Some("A2")),
            (&[(1, 2, "AA23")], Some("A2")),
            (&[(3, 4, "BB1")], Some("B1")),
            (&[(3, 4, "BB2"), (5, 10, "SAME")], Some("B2")),
            (&[(5, 10, "SAME")], Some("Not")),
            (&[(1, 2, "AA9"), (5, 10, "SAME")], Some("Last")),
            (&[(3, 4, "BB9")], Some("Last")),
        ] {
            let terminal = terminal_with(texts);
            let stands = model.standing(&terminal).map(|entry| entry.key.name.as_str());
            assert_eq!(stands, wanted, "{texts:?}");
            let holds = |entity: &crate::model::Entity| {
                !entity.is.is_empty() && entity.is.iter().all(|test| test.holds(&terminal))
            };
            let first = model.entities.iter().find(|entry| holds(&entry.value));
            assert_eq!(first.map(|entry| entry.key.name.as_str()), wanted, "{texts:?}");
        }
    }
}
