//! What a screen shows, as values of JSON.

use serde_json::Value;

use crate::model::ColumnKind;

/// The value of a text. Blanks are no number and no day: then it is null. `None`: the text is
/// nothing of the kind.
pub(crate) fn value(kind: &ColumnKind, text: &str) -> Option<Value> {
    let text = text.trim_end();
    if *kind == ColumnKind::Text {
        return Some(Value::from(text));
    }
    let text = text.trim_start();
    if text.is_empty() {
        return Some(Value::Null);
    }
    match kind {
        ColumnKind::Text => None,
        ColumnKind::Integer => text.parse::<i64>().ok().map(Value::from),
        // Text, for numbers of JSON are often read as binary fractions.
        ColumnKind::Decimal => decimal(text).map(Value::from),
        ColumnKind::Number => decimal(text)?.parse::<f64>().ok().map(Value::from),
        ColumnKind::Date(form) => date(form, text).map(Value::from),
    }
}

/// True for a text that is a number, with a fraction or without.
pub(super) fn is_number(text: &str) -> bool {
    decimal(text).is_some()
}

/// `1.234,50`, `1,234.50` and `-3` as `1234.50`, `1234.50` and `-3`: the last sign that stands once
/// is the one before the fraction.
fn decimal(text: &str) -> Option<String> {
    let point = text.rfind(['.', ',']);
    let is_once = |at: usize| text.get(at..=at).is_some_and(|sign| text.matches(sign).count() == 1);
    let point = point.filter(|at| is_once(*at));
    let mut plain = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        match letter {
            '0'..='9' => plain.push(letter),
            '-' if at == 0 => plain.push(letter),
            '.' | ',' if Some(at) == point => plain.push('.'),
            '.' | ',' => {}
            _ => return None,
        }
    }
    plain.contains(|letter: char| letter.is_ascii_digit()).then_some(plain)
}

fn date(form: &str, text: &str) -> Option<String> {
    let part = |name: &str| {
        let at = form.find(name)?;
        let digits = text.get(at..at + name.len())?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits)
    };
    if text.len() != form.len() {
        return None;
    }
    let (year, month, day) = (part("YYYY")?, part("MM")?, part("DD")?);
    let days = days_of(year.parse().ok()?, month.parse().ok()?)?;
    (1..=days).contains(&day.parse().ok()?).then(|| format!("{year}-{month}-{day}"))
}

/// How many days a month has. `None`: there is no such month.
fn days_of(year: u16, month: u8) -> Option<u8> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(if is_leap { 29 } else { 28 }),
        1..=12 => Some(31),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_values() {
        let date = ColumnKind::Date("DD.MM.YYYY".to_owned());
        for (kind, text, wanted) in [
            (ColumnKind::Text, " a ", Some(Value::from(" a"))),
            (ColumnKind::Integer, " 007", Some(Value::from(7))),
            (ColumnKind::Integer, "", Some(Value::Null)),
            (ColumnKind::Integer, "7x", None),
            (ColumnKind::Decimal, "1.234,50", Some(Value::from("1234.50"))),
            (ColumnKind::Decimal, "1,234.50", Some(Value::from("1234.50"))),
            (ColumnKind::Decimal, "1.234.567", Some(Value::from("1234567"))),
            (ColumnKind::Decimal, "-3", Some(Value::from("-3"))),
            (ColumnKind::Decimal, "3-", None),
            (date.clone(), "24.12.2026", Some(Value::from("2026-12-24"))),
            (date.clone(), "24.12.26", None),
            (date.clone(), "   ", Some(Value::Null)),
            (date.clone(), "29.02.2028", Some(Value::from("2028-02-29"))),
            (date.clone(), "29.02.2026", None),
            (date.clone(), "31.11.2026", None),
            (date, "01.13.2026", None),
            (ColumnKind::Number, "1.250,50", Some(Value::from(1250.5))),
            (ColumnKind::Number, "", Some(Value::Null)),
            (ColumnKind::Number, "TWO", None),
        ] {
            assert_eq!(value(&kind, text), wanted, "{text}");
        }
    }
}
