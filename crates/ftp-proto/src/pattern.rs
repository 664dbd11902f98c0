//! Patterns in the last component of LIST, NLST and STAT: `*`, `?` and `[…]`, in bounded steps.

use crate::limits::PATTERN_STEPS;

/// Whether a name has a character that means something in a pattern.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Whether `name` matches. One star is remembered at a time, so the work is at most the product
/// of both lengths; beyond [`PATTERN_STEPS`] nothing matches.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut of) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    for _ in 0..PATTERN_STEPS {
        let Some(letter) = name.get(at) else {
            return pattern.iter().skip(of).all(|left| *left == '*');
        };
        let next = match pattern.get(of) {
            Some('*') => {
                star = Some((of, at));
                of += 1;
                continue;
            }
            Some('?') => Some(of + 1),
            Some('[') => match set(pattern.get(of + 1..).unwrap_or(&[]), *letter) {
                Some((true, length)) => Some(of + 1 + length),
                Some((false, _)) => None,
                // A bracket that never closes means itself.
                None => (*letter == '[').then_some(of + 1),
            },
            Some(same) => (same == letter).then_some(of + 1),
            None => None,
        };
        match (next, star) {
            (Some(next), _) => (at, of) = (at + 1, next),
            (None, Some((starred, from))) => {
                star = Some((starred, from + 1));
                (at, of) = (from + 1, starred + 1);
            }
            (None, None) => return false,
        }
    }
    false
}

/// Whether a letter is in the set whose inside begins here, and how long the set is with its
/// closing bracket. `!` or `^` first turns it round; a `]` first is one of its letters.
fn set(inside: &[char], letter: char) -> Option<(bool, usize)> {
    let turned = matches!(inside.first(), Some('!' | '^'));
    let from = usize::from(turned);
    let close = inside.iter().skip(from + 1).position(|letter| *letter == ']')? + from + 1;
    let letters = inside.get(from..close)?;
    let mut rest = letters;
    let mut found = false;
    while let Some((first, more)) = rest.split_first() {
        match more {
            ['-', last, after @ ..] => {
                found |= (*first..=*last).contains(&letter);
                rest = after;
            }
            _ => {
                found |= *first == letter;
                rest = more;
            }
        }
    }
    Some((found != turned, close + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, want) in [
            ("*", "", true),
            ("*", "a", true),
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt.gz", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("é?", "éx", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]a]", "]", true),
            ("[a-]", "-", true),
            ("[", "[", true),
            ("[a", "a", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_end_soon() {
        assert!(!matches(&"*a".repeat(120), &"a".repeat(100)));
        assert!(!matches(&format!("{}b", "a*".repeat(100)), &"a".repeat(255)));
    }
}
