//! Pages of lists that are in memory as a whole.

use entrepot_admin::Cursor;

use crate::problem::Problem;

/// A page of such a list.
pub(crate) struct MemoryPage<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) next: Option<Cursor>,
}

/// The rows behind the cursor, in the order of their keys.
pub(crate) fn page<T>(
    mut rows: Vec<T>,
    key: impl Fn(&T) -> String,
    after: Option<Cursor>,
    limit: u32,
) -> Result<MemoryPage<T>, Problem> {
    rows.sort_by_cached_key(&key);
    if let Some(after) = after {
        rows.retain(|row| key(row).as_str() > after.as_str());
    }
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|last| Cursor::new(key(last)));
    Ok(MemoryPage { rows, next })
}
