//! The records of a recordset: which rows of a page each has, how pages are turned, and what steps
//! do with records.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use entrepot_tn3270_proto::Key;
use serde_json::{Map, Value as Json};

use super::called::{Call, CallError, Worked, wrong_kind};
use super::values::{is_number, value};
use crate::action::Place;
use crate::limits::RECORDS;
use crate::model::{
    Each, Entries, Entry, HostKey, ModelColumn, Named, Pick, ReadRows, RecordRows, RecordSize,
    Recordset, RowTest, Value,
};
use crate::shown::{characters_at, shows, text_at};

/// A recordset and the entity that it is on.
#[derive(Clone, Copy)]
struct OnEntity<'m> {
    entity: &'m str,
    rows: &'m Recordset,
}

/// What a column must show.
struct Wanted<'m> {
    column: &'m ModelColumn,
    text: String,
}

/// Whether another page of a recordset stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Next,
    Last,
}

/// Rows of a page that belong to one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: usize,
    last: usize,
    begin: Begin,
}

/// Where the record begins of which a page shows rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Here,
    /// On a page before.
    Before,
}

/// Where a record stands: its page, by what that shows, and its number on it.
struct Found {
    page: Arc<Vec<String>>,
    number: usize,
}

/// What all columns show in each row of a record.
type Lines = Vec<Vec<String>>;

impl<'m> Worked<'m> {
    /// The pages of a recordset, until the application or the same page again says that it is the
    /// last one, or there are as many records as are wanted.
    pub(super) async fn read_rows(
        &mut self,
        read: &'m ReadRows,
        call: &mut Call<'m>,
    ) -> Result<(), CallError> {
        let on = self.recordset(&read.name.name)?;
        let OnEntity { entity, rows } = on;
        let most = self.limit(&read.name, read.limit.as_ref(), call)?;
        let mut records: Vec<Json> = Vec::new();
        // A record that may go on with the next page.
        let mut open: Lines = Vec::new();
        loop {
            for span in self.spans(rows) {
                if rows.size.ends_with_its_page() {
                    records.extend(self.record(on, span)?.map(Json::Object));
                    continue;
                }
                if span.begin == Begin::Here {
                    let whole = std::mem::take(&mut open);
                    records.extend(record_of(on, &whole)?.map(Json::Object));
                }
                if span.begin == Begin::Here || !open.is_empty() {
                    open.extend(self.lines(rows, span));
                }
            }
            if records.len() >= most || self.turn_page(on).await? == Page::Last {
                break;
            }
        }
        records.extend(record_of(on, &open)?.map(Json::Object));
        records.truncate(most);
        call.gathered.records(entity, &rows.name.name, records);
        Ok(())
    }

    /// To the next page of a recordset, where there is one.
    async fn turn_page(&mut self, on: OnEntity<'m>) -> Result<Page, CallError> {
        let terminal = self.session.terminal();
        let is_last = on.rows.end.iter().any(|test| test.holds(terminal));
        match on.rows.next.as_ref().filter(|_| !is_last) {
            Some(next) => self.press_for_page(on, next.key).await,
            None => Ok(Page::Last),
        }
    }

    /// To the page before, where there is one.
    async fn turn_back(&mut self, on: OnEntity<'m>) -> Result<Page, CallError> {
        match &on.rows.previous {
            Some(previous) => self.press_for_page(on, previous.key).await,
            None => Ok(Page::Last),
        }
    }

    async fn press_for_page(&mut self, on: OnEntity<'m>, key: HostKey) -> Result<Page, CallError> {
        let before: String = self.page(on.rows).collect();
        self.press(key).await?;
        self.entity(on.entity)?;
        Ok(if self.page(on.rows).eq(before.chars()) { Page::Last } else { Page::Next })
    }

    /// The recordset of the entity that stands, by its name as in `Loans.loans`.
    fn recordset(&self, name: &'m str) -> Result<OnEntity<'m>, CallError> {
        let entity = name.split('.').next().unwrap_or(name);
        let found = self.entity(entity)?.value.rows.as_ref();
        let rows = found.ok_or_else(|| self.lost(&format!("the recordset '{name}'")))?;
        Ok(OnEntity { entity, rows })
    }

    /// The rows of each record that the page shows, from above.
    fn spans(&self, rows: &Recordset) -> Vec<Span> {
        let area = rows.area.first..=rows.area.last;
        let begin = Begin::Here;
        match &rows.size {
            RecordSize::Rows(height) => {
                let of = |first: usize| Span { first, last: first + height - 1, begin };
                area.step_by(*height).map(of).collect()
            }
            RecordSize::Start(test) => {
                let mut spans: Vec<Span> = Vec::new();
                for row in area {
                    let is_start = self.holds(rows, test, row);
                    match spans.last_mut() {
                        Some(span) if !is_start => span.last = row,
                        _ => {
                            let begin = if is_start { Begin::Here } else { Begin::Before };
                            spans.push(Span { first: row, last: row, begin });
                        }
                    }
                }
                spans
            }
            RecordSize::Delimiter(test) => {
                let mut spans: Vec<Span> = Vec::new();
                for row in area.filter(|row| !self.holds(rows, test, *row)) {
                    match spans.last_mut() {
                        Some(span) if span.last + 1 == row => span.last = row,
                        _ => spans.push(Span { first: row, last: row, begin }),
                    }
                }
                spans.retain(|span| !(span.first..=span.last).all(|row| self.is_empty(row)));
                spans
            }
        }
    }

    fn holds(&self, rows: &Recordset, test: &RowTest, row: usize) -> bool {
        let shown = |name: &Named| {
            let column = rows.columns.value(&name.name);
            column.map(|column| self.cell(column, row)).unwrap_or_default()
        };
        match test {
            RowTest::Blank => self.is_empty(row),
            RowTest::Shows { text, column } => {
                shows(self.session.terminal(), Some(Place { row, column: *column }), text)
            }
            RowTest::AnyText(name) => !shown(name).trim().is_empty(),
            RowTest::Number(name) => is_number(shown(name).trim()),
        }
    }

    /// True if nothing stands in a row.
    fn is_empty(&self, row: usize) -> bool {
        let terminal = self.session.terminal();
        let columns = terminal.screen().size().columns;
        text_at(terminal, Place { row, column: 1 }, columns).trim().is_empty()
    }

    /// What columns must show.
    fn wanted(
        &self,
        rows: &'m Recordset,
        matching: &Entries<Value>,
        call: &Call<'_>,
    ) -> Result<Vec<Wanted<'m>>, CallError> {
        let mut wanted = Vec::new();
        for Entry { key, value } in matching.iter() {
            let text = self.resolve(value, call)?.trim().to_owned();
            wanted.push(Wanted { column: column(rows, &key.name)?, text });
        }
        Ok(wanted)
    }

    fn is_wanted(&self, span: Span, wanted: &[Wanted<'_>]) -> bool {
        wanted.iter().all(|it| self.text(it.column, span).trim() == it.text)
    }

    /// Opens the records one after the other; what is read in each becomes a part of it.
    pub(super) async fn each(
        &mut self,
        each: &'m Each,
        call: &mut Call<'m>,
    ) -> Result<(), CallError> {
        let on = self.recordset(&each.rows.name.name)?;
        let OnEntity { entity, rows } = on;
        let wanted = self.wanted(rows, &each.matching, call)?;
        let most = self.limit(&each.rows.name, each.limit.as_ref(), call)?;
        let mut records: Vec<Json> = Vec::new();
        if let Some(last) = &each.rows.last {
            let count = self.limit(&each.rows.name, Some(last), call)?;
            for found in self.last_records(on, &wanted, count).await?.into_iter().take(most) {
                self.find_page(on, &found.page).await?;
                if let Some(span) = self.spans(rows).get(found.number).copied() {
                    records.extend(self.opened(each, on, span, call).await?);
                }
            }
            call.gathered.records(entity, &rows.name.name, records);
            return Ok(());
        }
        'pages: loop {
            let page = self.shown(rows);
            for span in self.spans(rows) {
                if records.len() >= most {
                    break 'pages;
                }
                if !self.is_meant(rows, span, &wanted) {
                    continue;
                }
                if let Some(record) = self.opened(each, on, span, call).await? {
                    records.push(record);
                    self.find_page(on, &page).await?;
                }
            }
            if self.turn_page(on).await? == Page::Last {
                break;
            }
        }
        call.gathered.records(entity, &rows.name.name, records);
        Ok(())
    }

    /// Opens a record, does what is to be done there, and goes back to the list. `None`: it is
    /// none.
    async fn opened(
        &mut self,
        each: &'m Each,
        on: OnEntity<'m>,
        span: Span,
        call: &mut Call<'m>,
    ) -> Result<Option<Json>, CallError> {
        let OnEntity { entity, rows } = on;
        let Some(mut record) = self.record(on, span)? else { return Ok(None) };
        call.record = self.texts(rows, span);
        self.type_into_record(rows, span, &each.fill, call).await?;
        self.press(each.key).await?;
        let outer = std::mem::take(&mut call.gathered);
        // Types that the model says are of the procedure, not of the record.
        let output = std::mem::take(&mut call.output);
        for step in &each.steps {
            self.step(step, call).await?;
        }
        call.output = output;
        let read = std::mem::replace(&mut call.gathered, outer);
        read.of_record(&mut record, output.and_then(|output| output.list_of(entity)));
        call.record.clear();
        self.go(entity, call).await?;
        Ok(Some(Json::Object(record)))
    }

    /// The last so many records that show what is wanted. The last page stands then.
    async fn last_records(
        &mut self,
        on: OnEntity<'m>,
        wanted: &[Wanted<'m>],
        count: usize,
    ) -> Result<VecDeque<Found>, CallError> {
        let mut last = VecDeque::new();
        for _ in 0..RECORDS {
            let page = Arc::new(self.shown(on.rows));
            for (number, span) in self.spans(on.rows).into_iter().enumerate() {
                if self.is_meant(on.rows, span, wanted) && self.record(on, span)?.is_some() {
                    last.push_back(Found { page: Arc::clone(&page), number });
                }
                if last.len() > count {
                    last.pop_front();
                }
            }
            if self.turn_page(on).await? == Page::Last {
                break;
            }
        }
        Ok(last)
    }

    /// True for a record that begins there and shows what is wanted.
    fn is_meant(&self, rows: &Recordset, span: Span, wanted: &[Wanted<'_>]) -> bool {
        span.begin == Begin::Here && !self.is_blank(rows, span) && self.is_wanted(span, wanted)
    }

    /// How many records of a recordset are wanted.
    fn limit(
        &self,
        rows: &Named,
        limit: Option<&Value>,
        call: &Call<'_>,
    ) -> Result<usize, CallError> {
        let Some(limit) = limit else { return Ok(RECORDS) };
        let text = self.resolve(limit, call)?;
        let number: usize = text
            .trim()
            .parse()
            .map_err(|_| CallError::Caller(format!("the limit of '{}' is no number", rows.name)))?;
        Ok(number.min(RECORDS))
    }

    /// Behind a record some applications show the page that stood before, and others the first one.
    /// Of several records the page may also be one before.
    async fn find_page(&mut self, on: OnEntity<'m>, page: &[String]) -> Result<(), CallError> {
        for _ in 0..RECORDS {
            if self.shown(on.rows) == page {
                return Ok(());
            }
            if self.turn_page(on).await? == Page::Last {
                break;
            }
        }
        for _ in 0..RECORDS {
            if self.turn_back(on).await? == Page::Last {
                break;
            }
            if self.shown(on.rows) == page {
                return Ok(());
            }
        }
        Err(self.lost(&format!("the page of '{}' that stood before", on.rows.name.name)))
    }

    /// What the columns of a record show.
    fn texts(&self, rows: &Recordset, span: Span) -> BTreeMap<String, String> {
        let text = |column: &ModelColumn| self.text(column, span).trim().to_owned();
        rows.columns.iter().map(|it| (it.key.name.clone(), text(&it.value))).collect()
    }

    /// True if a record shows nothing in the columns that are read.
    fn is_blank(&self, rows: &Recordset, span: Span) -> bool {
        let is_empty = |column: &ModelColumn| self.text(column, span).trim().is_empty();
        let mut read = rows.columns.iter().map(|it| &it.value).filter(|it| it.out).peekable();
        read.peek().is_some() && read.all(is_empty)
    }

    /// What a page shows in the columns that are read: what was typed does not count.
    fn shown(&self, rows: &Recordset) -> Vec<String> {
        let read = || rows.columns.iter().filter(|column| column.value.out);
        let spans = self.spans(rows).into_iter();
        spans.flat_map(|span| read().map(move |column| self.text(&column.value, span))).collect()
    }

    pub(super) async fn pick(&mut self, pick: &'m Pick, call: &Call<'_>) -> Result<(), CallError> {
        let on = self.recordset(&pick.rows.name)?;
        let wanted = self.wanted(on.rows, &pick.matching, call)?;
        for _ in 0..RECORDS {
            let mut all = self.spans(on.rows).into_iter();
            let meant = |span: &Span| span.begin == Begin::Here && self.is_wanted(*span, &wanted);
            if let Some(span) = all.find(meant) {
                self.type_into_record(on.rows, span, &pick.fill, call).await?;
                return self.press(pick.key).await.map(drop);
            }
            if self.turn_page(on).await? == Page::Last {
                break;
            }
        }
        let otherwise = pick.missing.as_ref().map(|missing| self.outcome(missing, call));
        Err(otherwise.unwrap_or_else(|| CallError::Outcome {
            error: "not_found".to_owned(),
            http: 404,
            text: format!("'{}' has no such record", pick.rows.name),
        }))
    }

    async fn type_into_record(
        &mut self,
        rows: &Recordset,
        span: Span,
        fill: &Entries<Value>,
        call: &Call<'_>,
    ) -> Result<(), CallError> {
        let first = rows.columns.0.first().map_or(1, |first| first.value.column);
        self.session.move_cursor(Place { row: span.first, column: first });
        for Entry { key, value } in fill.iter() {
            let text = self.resolve(value, call)?;
            let column = column(rows, &key.name)?;
            if text.chars().count() > column.length {
                let what = format!("what goes into '{}' is too long", key.name);
                return Err(CallError::Caller(what));
            }
            let row = span.first + column.rows.first() - 1;
            if row > span.last {
                let what = format!("the record has no row for '{}'", key.name);
                return Err(CallError::Caller(what));
            }
            self.session.move_cursor(Place { row, column: column.column });
            self.session.press(Key::EraseEof).await?;
            self.session.type_text(&text).await?;
        }
        Ok(())
    }

    /// What stands in a row where a column is.
    fn cell(&self, column: &ModelColumn, row: usize) -> String {
        let at = Place { row, column: column.column };
        text_at(self.session.terminal(), at, column.length)
    }

    /// What a column of a record shows.
    fn text(&self, column: &ModelColumn, span: Span) -> String {
        let first = span.first + column.rows.first() - 1;
        match column.rows {
            RecordRows::One(_) if first > span.last => String::new(),
            RecordRows::One(_) => self.cell(column, first),
            RecordRows::From(_) => {
                joined((first..=span.last).map(|row| self.cell(column, row)).collect())
            }
        }
    }

    /// What all columns show in each row, without empty rows at the end.
    fn lines(&self, rows: &Recordset, span: Span) -> Lines {
        let last = (span.first..=span.last).rfind(|row| !self.is_empty(*row));
        let line = |row| rows.columns.iter().map(|it| self.cell(&it.value, row)).collect();
        last.map_or_else(Vec::new, |last| (span.first..=last).map(line).collect())
    }

    /// What the rows of a recordset show, all columns.
    fn page(&self, rows: &Recordset) -> impl Iterator<Item = char> {
        let terminal = self.session.terminal();
        let columns = terminal.screen().size().columns;
        let area = (rows.area.first..=rows.area.last).count();
        characters_at(terminal, Place { row: rows.area.first, column: 1 }, area * columns)
    }

    fn record(&self, on: OnEntity<'_>, span: Span) -> Result<Option<Map<String, Json>>, CallError> {
        values_of(on, |_, column| self.text(column, span))
    }
}

/// The record that has these rows; without any it is none.
fn record_of(on: OnEntity<'_>, lines: &Lines) -> Result<Option<Map<String, Json>>, CallError> {
    if lines.is_empty() {
        return Ok(None);
    }
    let cell = |row: usize, at: usize| lines.get(row - 1).and_then(|line| line.get(at)).cloned();
    values_of(on, |at, column| match column.rows {
        RecordRows::One(row) => cell(row, at).unwrap_or_default(),
        RecordRows::From(row) => {
            joined((row..=lines.len()).filter_map(|row| cell(row, at)).collect())
        }
    })
}

/// What the columns of a record show, as values. `None`: it is none.
fn values_of(
    on: OnEntity<'_>,
    text: impl Fn(usize, &ModelColumn) -> String,
) -> Result<Option<Map<String, Json>>, CallError> {
    let mut record = Map::with_capacity(on.rows.columns.0.len());
    for (at, Entry { key, value: column }) in on.rows.columns.iter().enumerate() {
        let text = text(at, column);
        let skips = on.rows.skip.as_ref().is_some_and(|skip| skip.0.name == key.name);
        if skips && text.trim().is_empty() {
            return Ok(None);
        }
        if !column.out {
            // It is there to be typed into.
            continue;
        }
        let read = value(&column.kind, &text);
        let read = read.ok_or_else(|| wrong_kind(on.entity, &key.name, &column.kind, &text))?;
        record.insert(key.name.clone(), read);
    }
    Ok(Some(record))
}

/// Rows of a text, without empty ones at the end.
fn joined(rows: Vec<String>) -> String {
    let text = rows.join("\n");
    text.trim_end().to_owned()
}

fn column<'r>(rows: &'r Recordset, name: &str) -> Result<&'r ModelColumn, CallError> {
    let found = rows.columns.value(name);
    found.ok_or_else(|| CallError::Caller(format!("'{}' has no column '{name}'", rows.name.name)))
}
