//! Lists of nouns: filtered, in any order, a page at a time.

use std::cmp::Ordering;

use entrepot_nouns::{AnyNoun, Kind, SiteId, Stored};
use serde_json::Value;

use crate::cursor::{Cursor, Position, of_another_list};
use crate::diff::shown_body;
use crate::error::{AdminError, Result};
use crate::filter::{FieldFilter, SortKey, SortOrder, is_sortable};
use crate::limits;
use crate::parts::AdminParts;
use crate::reader;
use crate::request::{Request, Response};
use crate::secrets;

/// What a list is asked for.
struct ListQuery {
    kind: Kind,
    filter: Vec<FieldFilter>,
    sort: Option<SortOrder>,
    after: Option<Cursor>,
    limit: Option<u32>,
}

impl ListQuery {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(limits::LIST_ROWS_DEFAULT).clamp(1, limits::QUERY_ROWS) as usize
    }

    fn passes(&self, stored: &Stored<AnyNoun>) -> bool {
        self.filter.is_empty() || {
            let shown = Value::Object(shown_body(&stored.noun));
            let field = |filter: &FieldFilter| at(&shown, &filter.field);
            self.filter.iter().all(|filter| field(filter).is_some_and(|it| filter.passes(it)))
        }
    }
}

/// The value at a path such as `quota.files`.
fn at<'a>(body: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(body, |value, word| value.get(word))
}

/// A page of the nouns of a kind, without their secrets.
pub(crate) async fn nouns(parts: &AdminParts, site: SiteId, asked: Request) -> Result<Response> {
    let Request::List { kind, filter, sort, after, limit } = asked else {
        return Err(AdminError::Query { problem: "this asks for no list".to_owned() });
    };
    let query = ListQuery { kind, filter, sort, after, limit };
    let (size, limit) = (query.filter.len(), limits::LIST_FILTERS);
    if size > limit {
        return Err(AdminError::TooMuch { what: "conditions of a list", size, limit });
    }
    match query.sort.clone().filter(|sort| !sort.is_by_name()) {
        None => by_name(parts, site, &query).await,
        Some(sort) => sorted(parts, site, &query, &sort).await,
    }
}

async fn by_name(parts: &AdminParts, site: SiteId, query: &ListQuery) -> Result<Response> {
    let mut after = match query.after.as_ref().map(Position::of).transpose()? {
        None => None,
        Some(Position::Name(name)) => Some(name),
        Some(Position::Sorted { .. } | Position::Row { .. }) => return Err(of_another_list()),
    };
    let limit = query.limit();
    let page = match query.filter.as_slice() {
        [] => u32::try_from(limit).unwrap_or(limits::QUERY_ROWS),
        _ => limits::LIST_SCAN_PAGE,
    };
    let (mut nouns, mut scanned) = (Vec::new(), 0);
    loop {
        // One more tells whether there is another page.
        let mut read = reader::page(&parts.db, site, query.kind, after.as_ref(), page + 1).await?;
        let mut has_more = read.len() > page as usize;
        read.truncate(page as usize);
        scanned += read.len();
        let mut read = read.into_iter();
        for mut stored in read.by_ref() {
            after = Some(stored.noun.name().clone());
            stored.noun = secrets::redacted(stored.noun);
            if query.passes(&stored) {
                nouns.push(stored);
            }
            if nouns.len() == limit {
                break;
            }
        }
        has_more |= read.len() > 0;
        let is_full = nouns.len() == limit || scanned >= limits::LIST_SCANNED;
        if !has_more || is_full {
            let next = after.filter(|_| has_more).map(|name| Position::Name(name).cursor());
            return Ok(Response::Nouns { nouns, next: next.transpose()? });
        }
    }
}

/// A noun and what it has in the field by which the list is ordered.
struct SortedRow {
    value: Value,
    stored: Stored<AnyNoun>,
}

impl SortedRow {
    fn key(&self) -> SortKey<'_> {
        SortKey { value: &self.value, name: self.stored.noun.name() }
    }
}

/// Reads all of the kind and keeps a page.
async fn sorted(
    parts: &AdminParts,
    site: SiteId,
    query: &ListQuery,
    sort: &SortOrder,
) -> Result<Response> {
    let most = limits::LIST_SORTED;
    let read = reader::page(&parts.db, site, query.kind, None, most as u32 + 1).await?;
    if read.len() > most {
        let problem = format!(
            "there are more than {most} of this kind, they are listed by name only; leave 'sort' \
             out"
        );
        return Err(AdminError::Query { problem });
    }
    let mut rows: Vec<SortedRow> = Vec::new();
    for mut stored in read {
        stored.noun = secrets::redacted(stored.noun);
        if query.passes(&stored) {
            rows.push(SortedRow { value: sort_value(&stored, sort.field()), stored });
        }
    }
    rows.sort_by(|one, other| sort.compare(one.key(), other.key()));
    match query.after.as_ref().map(Position::of).transpose()? {
        None => {}
        Some(Position::Sorted { sort: of, value, name }) if of == sort.0 => {
            let last = SortKey { value: &value, name: &name };
            rows.retain(|row| sort.compare(row.key(), last) == Ordering::Greater);
        }
        Some(_) => return Err(of_another_list()),
    }
    let has_more = rows.len() > query.limit();
    rows.truncate(query.limit());
    let next = rows.last().filter(|_| has_more).map(|last| {
        let (value, name) = (last.value.clone(), last.stored.noun.name().clone());
        Position::Sorted { sort: sort.0.clone(), value, name }.cursor()
    });
    let nouns = rows.into_iter().map(|row| row.stored).collect();
    Ok(Response::Nouns { nouns, next: next.transpose()? })
}

/// What the list is ordered by; of what is no text, number or boolean nothing.
fn sort_value(stored: &Stored<AnyNoun>, field: &str) -> Value {
    match field {
        "changed_at" => return Value::from(stored.changed_at.micros()),
        "revision" => return Value::from(stored.revision),
        _ => {}
    }
    let shown = Value::Object(shown_body(&stored.noun));
    at(&shown, field).filter(|value| is_sortable(value)).cloned().unwrap_or_default()
}
