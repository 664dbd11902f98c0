//! The If header (RFC 4918 §10.4): lists of conditions, of which one list must hold whole. Clients
//! submit the tokens of their locks in it.

use crate::headers::{BadHeader, bad};
use crate::limits::{IF_BYTES, IF_CONDITIONS};

/// What is asked of the state of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is locked with this token.
    Token(String),
    /// It has this entity tag, written as in ETag.
    ETag(String),
}

/// One condition of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// It must not hold.
    pub negated: bool,
    /// What is asked.
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    /// Of which resource; `None`: of that of the request.
    resource: Option<String>,
    conditions: Vec<Condition>,
}

/// An If header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct If(Vec<List>);

impl If {
    /// Reads a header.
    ///
    /// # Errors
    /// It is longer or has more conditions than the limits say, or is not as §10.4.2 says.
    pub fn parse(header: &str) -> Result<If, BadHeader> {
        const PROBLEM: &str = "is not as RFC 4918 section 10.4 says";
        if header.len() > IF_BYTES {
            return Err(bad("If", "is too long"));
        }
        let mut lists = Vec::new();
        let mut count = 0;
        let mut resource: Option<String> = None;
        let mut rest = header.trim_start();
        let mut awaits_list = true;
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('<') {
                if awaits_list && resource.is_some() || resource.is_none() && !lists.is_empty() {
                    return Err(bad("If", PROBLEM));
                }
                let (uri, behind) = inside.split_once('>').ok_or(bad("If", PROBLEM))?;
                resource = Some(uri.to_owned());
                awaits_list = true;
                rest = behind.trim_start();
                continue;
            }
            let inside = rest.strip_prefix('(').ok_or(bad("If", PROBLEM))?;
            let (conditions, behind) = list(inside).ok_or(bad("If", PROBLEM))?;
            count += conditions.len();
            if count > IF_CONDITIONS {
                return Err(bad("If", "has too many conditions"));
            }
            lists.push(List { resource: resource.clone(), conditions });
            awaits_list = false;
            rest = behind.trim_start();
        }
        if awaits_list {
            return Err(bad("If", PROBLEM));
        }
        Ok(If(lists))
    }

    /// The tokens that the client submits: those that are not asked to be absent.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        let conditions = self.0.iter().flat_map(|list| &list.conditions);
        conditions.filter(|condition| !condition.negated).filter_map(|condition| {
            match &condition.state {
                State::Token(token) => Some(&**token),
                State::ETag(_) => None,
            }
        })
    }

    /// The resources other than that of the request that it asks about.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|list| list.resource.as_deref())
    }

    /// True if a list holds whole. `holds` says whether a state is that of a resource, given by
    /// its URI or `None` for that of the request.
    pub fn holds(&self, mut holds: impl FnMut(Option<&str>, &State) -> bool) -> bool {
        self.0.iter().any(|list| {
            let resource = list.resource.as_deref();
            let mut conditions = list.conditions.iter();
            conditions.all(|asked| holds(resource, &asked.state) != asked.negated)
        })
    }
}

/// The conditions up to the closing bracket, and what follows it.
fn list(mut rest: &str) -> Option<(Vec<Condition>, &str)> {
    let mut conditions = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix(')') {
            return (!conditions.is_empty()).then_some((conditions, behind));
        }
        let not = rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("not"));
        if not {
            rest = rest.get(3..)?.trim_start();
        }
        let (state, behind) = if let Some(inside) = rest.strip_prefix('<') {
            let (token, behind) = inside.split_once('>')?;
            (State::Token(token.to_owned()), behind)
        } else {
            let inside = rest.strip_prefix('[')?;
            // The tag is quoted, and may hold a bracket.
            let open = inside.find('"')?;
            let close = inside.get(open + 1..)?.find('"')? + open + 2;
            let (tag, behind) = (inside.get(..close)?, inside.get(close..)?);
            (State::ETag(tag.trim().to_owned()), behind.trim_start().strip_prefix(']')?)
        };
        conditions.push(Condition { negated: not, state });
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(header: &str, state: &[(&str, &str)]) -> bool {
        If::parse(header).unwrap().holds(|resource, asked| {
            let asked = match asked {
                State::Token(text) | State::ETag(text) => text,
            };
            state.contains(&(resource.unwrap_or("-"), asked))
        })
    }

    #[test]
    fn examples_of_the_rfc() {
        // §10.4.6 to §10.4.9.
        let both = "(<urn:uuid:181d4fae-7d8c-11d0-a765-00a0c91e6bf2> [\"I am an ETag\"]) \
                    ([\"I am another ETag\"])";
        assert!(holds(both, &[("-", "\"I am another ETag\"")]));
        assert!(!holds(both, &[("-", "\"I am an ETag\"")]));
        let not = "(Not <urn:1> <urn:2>)";
        assert!(holds(not, &[("-", "urn:2")]));
        assert!(!holds(not, &[("-", "urn:1"), ("-", "urn:2")]));
        assert!(holds("(<urn:1>) (Not <DAV:no-lock>)", &[]));
        let tagged = "</resource1> (<urn:1> [W/\"A weak ETag\"]) ([\"strong ETag\"])";
        assert!(holds(tagged, &[("/resource1", "urn:1"), ("/resource1", "W/\"A weak ETag\"")]));
        assert!(!holds(tagged, &[("-", "\"strong ETag\"")]));
        let two = "</a> (<urn:1>) </b> (<urn:2>)";
        assert!(holds(two, &[("/b", "urn:2")]));
        assert_eq!(If::parse(two).unwrap().tokens().collect::<Vec<_>>(), ["urn:1", "urn:2"]);
        assert_eq!(If::parse(not).unwrap().tokens().collect::<Vec<_>>(), ["urn:2"]);
    }

    #[test]
    fn what_is_no_if_header() {
        for header in [
            "",
            "()",
            "(",
            "<a>",
            "(<a>",
            "(<a)",
            "([x])",
            "([\"x\")",
            "(<a>) </b> (<c>)",
            "</a> </b> (<c>)",
            "</a> (<c>) </b>",
            "(not)",
            "é",
            "(é)",
            "garbage",
        ] {
            assert!(If::parse(header).is_err(), "{header}");
        }
        let long = format!("({})", "<a>".repeat(IF_CONDITIONS + 1));
        assert!(If::parse(&long).is_err());
        assert!(If::parse(&"(".repeat(IF_BYTES + 1)).is_err());
    }
}
