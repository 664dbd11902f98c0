//! What was probably meant by a mistyped word.

use entrepot_nouns::{Kind, Name};

use crate::error::AdminError;

/// Least likeness of two words, by the measure of Jaro, which is 1 for the same word.
const LIKENESS: f64 = 0.8;
/// In front of a word that is none, in the messages of parsers.
const UNKNOWN: [&str; 3] = ["unknown field '", "unknown variant '", "unknown word '"];

/// ` (did you mean 'acme'?)` with the known word that is most like `given`; empty if none is.
pub(crate) fn hint<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let given = given.to_lowercase();
    let likeness = |word: &str| strsim::jaro(&given, &word.to_lowercase());
    let scored = known.into_iter().map(|word| (likeness(word), word));
    let best = scored.filter(|(score, _)| *score >= LIKENESS).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, word)| format!(" (did you mean '{word}'?)")).unwrap_or_default()
}

/// There is no noun of this name.
pub(crate) fn missing<'a>(
    kind: Kind,
    name: &Name,
    known: impl Iterator<Item = &'a Name>,
) -> AdminError {
    let hint = hint(name.as_str(), known.map(Name::as_str));
    AdminError::NotFound { what: kind.as_str(), name: name.to_string(), hint }
}

/// The message of a parser in one line with our quotes. Where it names a word that is unknown, and
/// the words that it expects, the nearest of those is pointed out.
pub fn explained(problem: &str) -> String {
    let line = problem.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    let found = UNKNOWN.iter().find_map(|lead| line.find(lead).map(|at| at + lead.len()));
    let Some((front, rest)) = found.and_then(|at| line.split_at_checked(at)) else { return line };
    let Some((given, rest)) = rest.split_once('\'') else { return line };
    let Some((_, expected)) = rest.split_once("expected ") else { return line };
    let expected = expected.trim_start_matches("one of ");
    let expected = expected.split([',', ' ']).map(|word| word.trim_matches('\''));
    let hint = hint(given, expected.filter(|word| !word.is_empty()));
    format!("{front}{given}'{hint}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_meant() {
        let known = ["acme", "acme-old", "berta", "partners"];
        for (given, meant) in [
            ("acem", "acme"),
            ("Acme", "acme"),
            ("partner", "partners"),
            ("bertha", "berta"),
            ("acmeold", "acme-old"),
        ] {
            assert_eq!(hint(given, known), format!(" (did you mean '{meant}'?)"));
        }
        for other in ["x", "zulu", "", "trap"] {
            assert_eq!(hint(other, known), "", "{other}");
        }
    }

    #[test]
    fn unknown_fields_and_words_are_explained() {
        for (problem, told) in [
            (
                "unknown field `qouta`, expected one of `name`, `quota`, `path`",
                "unknown field 'qouta' (did you mean 'quota'?), expected one of 'name', 'quota', \
                 'path'",
            ),
            (
                "line 5: unknown field 'nme', expected one of name, type",
                "line 5: unknown field 'nme' (did you mean 'name'?), expected one of name, type",
            ),
            (
                "unknown variant `faild`, expected `done` or `failed` at line 1 column 9",
                "unknown variant 'faild' (did you mean 'failed'?), expected 'done' or 'failed' at \
                 line 1 column 9",
            ),
            ("unknown field `x`, there are no fields", "unknown field 'x', there are no fields"),
            ("missing field\n  `name`", "missing field 'name'"),
        ] {
            assert_eq!(explained(problem), told);
        }
    }
}
