//! A condition as text, with the values of its parts.

use entrepot_nouns::explanation::TracedExpression;

/// An expression above its parts, each with its value in front.
pub(crate) fn tree(traced: &TracedExpression, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let mark = if traced.deciding { "   <- decides" } else { "" };
    lines.push(format!("{indent}{} = {}{mark}", traced.text, value(traced)));
    traced.parts.iter().for_each(|part| tree(part, depth + 1, lines));
}

/// Its value, or why it has none.
pub(crate) fn value(traced: &TracedExpression) -> String {
    match (&traced.value, &traced.error) {
        (Some(value), _) => value.clone(),
        (None, Some(error)) => format!("error: {error}"),
        (None, None) => "not evaluated".to_owned(),
    }
}
