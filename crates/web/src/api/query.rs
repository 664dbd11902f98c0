//! The query of a request: each parameter is known and can be read, or the request is refused.

use std::fmt::Display;
use std::str::FromStr;

use axum::http::StatusCode;
use entrepot_admin::{Cursor, explained};
use serde::de::DeserializeOwned;

use crate::limits::{API_ROWS, API_ROWS_MOST};
use crate::problem::Problem;

/// The parameters that were sent and not looked at yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<Parameter>);

#[derive(Clone, Debug)]
struct Parameter {
    name: String,
    value: String,
}

impl Query {
    /// Reads the query of an address (`application/x-www-form-urlencoded`).
    pub(crate) fn parse(text: &str) -> Result<Query, Problem> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok(Parameter { name: decoded(name)?, value: decoded(value)? })
        });
        Ok(Query(parameters.collect::<Result<_, Problem>>()?))
    }

    /// All values of a parameter.
    pub(crate) fn all<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Vec<T>, Problem> {
        let found = self.0.extract_if(.., |parameter| parameter.name == name);
        found.map(|parameter| read(name, &parameter.value)).collect()
    }

    /// The value of a parameter that may be given once.
    pub(crate) fn one<T: FromStr<Err: Display>>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, Problem> {
        let mut found = self.all(name)?;
        if found.len() > 1 {
            return Err(refused(format!("'{name}' stands twice")));
        }
        Ok(found.pop())
    }

    /// A parameter that is `true` or `false`; one without a value is `true`.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        match self.one::<String>(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true" | "") => Ok(true),
            Some(other) => Err(refused(format!("'{name}' is true or false, not '{other}'"))),
        }
    }

    /// Rows of a page, within bounds.
    pub(crate) fn limit(&mut self) -> Result<u32, Problem> {
        let limit = self.one("limit")?.unwrap_or(API_ROWS);
        if (1..=API_ROWS_MOST).contains(&limit) {
            return Ok(limit);
        }
        Err(refused(format!("'limit' is a number from 1 to {API_ROWS_MOST}, not {limit}")))
    }

    /// Where the page begins.
    pub(crate) fn cursor(&mut self) -> Result<Option<Cursor>, Problem> {
        Ok(self.one::<String>("cursor")?.map(Cursor::new))
    }

    /// Refuses parameters that nothing has looked at: a filter with a slip of the pen would show
    /// too much.
    pub(crate) fn finish(&self) -> Result<(), Problem> {
        match self.0.first() {
            None => Ok(()),
            Some(Parameter { name, .. }) => {
                Err(refused(format!("this request has no parameter '{name}'")))
            }
        }
    }
}

/// A word of an enum, spelt as in JSON.
pub(crate) fn word<T: DeserializeOwned>(
    query: &mut Query,
    name: &str,
) -> Result<Option<T>, Problem> {
    let Some(text) = query.one::<String>(name)? else { return Ok(None) };
    let word = serde_json::from_value(serde_json::Value::String(text));
    word.map(Some).map_err(|error| refused(format!("'{name}': {}", explained(&error.to_string()))))
}

fn read<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T, Problem> {
    value.parse().map_err(|problem| refused(format!("'{name}': {problem}")))
}

/// The query says what cannot be done.
pub(crate) fn refused(problem: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "EP1114", problem)
}

/// A word of a query: `+` is a blank, `%` and two digits a byte.
fn decoded(text: &str) -> Result<String, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let pair = high.zip(low).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                pair.ok_or_else(|| refused("the query has a '%' that encodes nothing".to_owned()))?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| refused("the query is no UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_unknown_ones_are_refused() {
        let mut query = Query::parse("a=1&b=x%20y+z&a=2&dry_run&limit=7").unwrap();
        assert_eq!(query.all::<u32>("a").unwrap(), [1, 2]);
        assert_eq!(query.one::<String>("b").unwrap().as_deref(), Some("x y z"));
        assert!(query.flag("dry_run").unwrap());
        assert_eq!(query.limit().unwrap(), 7);
        assert_eq!(query.limit().unwrap(), API_ROWS);
        query.finish().unwrap();
        for bad in ["x=1", "limit=0", "limit=x", "limit=1&limit=2", "limit=1000000", "dry_run=no"] {
            let mut query = Query::parse(bad).unwrap();
            let read = query.limit().and_then(|_| query.flag("dry_run")).map(drop);
            assert_eq!(read.and_then(|()| query.finish()).unwrap_err().code, "EP1114", "{bad}");
        }
        for bad in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert!(Query::parse(bad).is_err(), "{bad}");
        }
    }
}
