//! `list`, `show`, `create`, `change`, `delete` of every kind; `apply`, `plan`, `export`.

use std::io::Read;
use std::path::{Path, PathBuf};

use entrepot_admin::{Action, Document, PlannedChange, Response};
use entrepot_nouns::endpoint::EndpointTarget;
use entrepot_nouns::{AnyNoun, Kind, Stored};
use serde_json::{Map, Value, json};

use crate::admin_client::AdminClient;
use crate::args::{ApplyArgs, ExportArgs, FieldArgs, NounCommand};
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::standard_input::line_from_stdin;
use crate::table;

/// Nouns that a list fetches at a time: the most that the administration gives.
const LIST_PAGE: u32 = 10_000;

/// Runs one of the noun commands.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    kind: Kind,
    command: NounCommand,
) -> Result<(), Failure> {
    let request = match &command {
        NounCommand::List => {
            let nouns = all(client, kind).await?;
            return output.rows(&nouns, |nouns| print_nouns(kind, nouns));
        }
        NounCommand::Show { name } => json!({"request": "show", "kind": kind, "name": name}),
        NounCommand::Delete { name } => json!({"request": "delete", "kind": kind, "name": name}),
        NounCommand::Create(fields) => {
            let mut noun = assignments(fields)?;
            noun.insert("name".to_owned(), json!(fields.name));
            json!({"request": "create", "noun": {kind.as_str(): noun}})
        }
        NounCommand::Change(fields) => json!({
            "request": "change", "kind": kind, "name": fields.name, "patch": assignments(fields)?,
        }),
    };
    match client.ask(request).await? {
        Response::Noun { noun, warnings } => {
            warn(&warnings);
            output.value(&noun, || print_fields("", &body(&with_defaults(&noun.noun))))
        }
        Response::Done => output.done(),
        _ => Err(unexpected()),
    }
}

/// With the defaults of fields of which one wants to know what holds.
fn with_defaults(noun: &AnyNoun) -> AnyNoun {
    let mut noun = noun.clone();
    if let AnyNoun::Endpoint(endpoint) = &mut noun
        && let EndpointTarget::Object(object) = &mut endpoint.target
    {
        object.requests = object.requests.in_full();
    }
    noun
}

/// Every noun of a kind, by name, page after page.
pub(crate) async fn all(client: &AdminClient, kind: Kind) -> Result<Vec<Stored<AnyNoun>>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let request = json!({"request": "list", "kind": kind, "after": after, "limit": LIST_PAGE});
        let Response::Nouns { nouns, next } = client.ask(request).await? else {
            return Err(unexpected());
        };
        all.extend(nouns);
        if next.is_none() {
            return Ok(all);
        }
        after = next;
    }
}

/// Turns `quota.files=100` into a nested object.
pub(crate) fn assignments(args: &FieldArgs) -> Result<Map<String, Value>, Failure> {
    let mut object = Map::new();
    for text in &args.fields {
        let (path, value) = text
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("'{text}' is not of the form FIELD=VALUE")))?;
        let value = match value {
            "" => Value::Null,
            _ => serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned())),
        };
        assign(&mut object, path, value)?;
    }
    for text in &args.from_file {
        let (path, file) = text
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("'{text}' is not of the form FIELD=FILE")))?;
        let content = std::fs::read_to_string(file)
            .map_err(|error| Failure::file(format!("cannot read '{file}': {error}")))?;
        assign(&mut object, path, Value::String(content.trim_end().to_owned()))?;
    }
    if args.password_stdin {
        assign(&mut object, "password", Value::String(line_from_stdin()?))?;
    }
    Ok(object)
}

fn assign(object: &mut Map<String, Value>, path: &str, value: Value) -> Result<(), Failure> {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => {
            let inner = object.entry(first).or_insert_with(|| Value::Object(Map::new()));
            match inner {
                Value::Object(inner) => assign(inner, rest, value),
                _ => Err(Failure::usage(format!("'{first}' is given both a value and fields"))),
            }
        }
    }
}

fn print_fields(prefix: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                print_fields(&format!("{prefix}{dot}{name}"), value);
            }
        }
        Value::String(text) => println!("{prefix:<24} {}", table::printable(text)),
        Value::Bool(_) => println!("{prefix:<24} {}", cell(Some(value))),
        other => println!("{prefix:<24} {}", table::printable(&other.to_string())),
    }
}

/// The columns of a kind: heading and path of the field.
fn columns(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Site => &[("name", "name"), ("policy", "policy"), ("note", "note")],
        Kind::Account => &[
            ("name", "name"),
            ("type", "type"),
            ("enabled", "enabled"),
            ("groups", "groups"),
            ("policy", "policy"),
            ("note", "note"),
        ],
        Kind::Mount => &[
            ("name", "name"),
            ("account", "account"),
            ("path", "path"),
            ("endpoint", "endpoint"),
            ("prefix", "prefix"),
            ("rights", "rights"),
        ],
        Kind::Endpoint => &[("name", "name"), ("target", "target"), ("note", "note")],
        Kind::Model => &[
            ("name", "name"),
            ("enabled", "enabled"),
            ("endpoint", "endpoint"),
            ("max", "pool.max"),
            ("note", "note"),
        ],
        Kind::Rule => &[
            ("name", "name"),
            ("enabled", "enabled"),
            ("when", "when"),
            ("if", "if"),
            ("do", "do"),
        ],
        Kind::Key => {
            &[("name", "name"), ("type", "type"), ("account", "account"), ("public", "public")]
        }
        Kind::Listener => &[
            ("name", "name"),
            ("protocol", "protocol"),
            ("address", "address"),
            ("enabled", "enabled"),
            ("policy", "policy"),
        ],
        Kind::Policy => &[
            ("name", "name"),
            ("sessions", "sessions"),
            ("idle s", "idle_seconds"),
            ("up B/s", "upload_bytes_per_second"),
            ("down B/s", "download_bytes_per_second"),
            ("allow", "allow"),
            ("deny", "deny"),
        ],
    }
}

/// The fields of a noun. Documents leave out what is as usual; people want to see this one.
fn body(noun: &AnyNoun) -> Value {
    let mut body = match serde_json::to_value(noun) {
        Ok(Value::Object(fields)) => fields.into_iter().next().map(|(_, body)| body),
        _ => None,
    };
    let can_be_disabled =
        matches!(noun.kind(), Kind::Account | Kind::Model | Kind::Rule | Kind::Listener);
    if let Some(Value::Object(fields)) = &mut body
        && can_be_disabled
    {
        fields.entry("enabled").or_insert(Value::Bool(true));
    }
    body.unwrap_or_default()
}

fn print_nouns(kind: Kind, nouns: &[Stored<AnyNoun>]) {
    let columns = columns(kind);
    let rows: Vec<Vec<String>> = nouns
        .iter()
        .map(|stored| {
            let body = body(&stored.noun);
            columns.iter().map(|(_, field)| cell(body.get(field))).collect()
        })
        .collect();
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    table::print(&headings, &rows);
}

/// A value in one cell: lists with commas, objects as `key=value`, long texts cut.
fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(true)) => "yes".to_owned(),
        Some(Value::Bool(false)) => "no".to_owned(),
        Some(Value::Array(items)) => {
            items.iter().map(|item| cell(Some(item))).collect::<Vec<_>>().join(",")
        }
        Some(Value::Object(fields)) => {
            let part = |(name, value): (&String, &Value)| match value {
                Value::Object(inner) if inner.is_empty() => name.clone(),
                Value::Object(_) => format!("{name}({})", cell(Some(value))),
                _ => format!("{name}={}", cell(Some(value))),
            };
            fields.iter().map(part).collect::<Vec<_>>().join(" ")
        }
        Some(other) => other.to_string(),
    };
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

/// Runs `plan` or `apply`.
pub(crate) async fn apply(
    client: &AdminClient,
    output: Output,
    verb: &str,
    args: &ApplyArgs,
) -> Result<(), Failure> {
    let documents = documents(&args.paths)?;
    let request = json!({"request": verb, "documents": documents, "prune": args.prune});
    match client.ask(request).await? {
        Response::Plan { changes, warnings } => {
            warn(&warnings);
            output.rows(&changes, |changes| print_plan(verb, changes))
        }
        _ => Err(unexpected()),
    }
}

/// What is done all the same; not on the standard output, which scripts read.
fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("warning: {}", table::printable(warning));
    }
}

fn print_plan(verb: &str, changes: &[PlannedChange]) {
    let mut counts = [0usize; 5];
    for change in changes {
        let (at, sign) = match change.action {
            Action::Create => (0, '+'),
            Action::Change => (1, '~'),
            Action::Delete => (2, '-'),
            Action::Unchanged => (3, '='),
            Action::Compare => (4, '?'),
        };
        if let Some(count) = counts.get_mut(at) {
            *count += 1;
        }
        if change.action == Action::Unchanged {
            continue;
        }
        println!("{sign} {} {}", change.kind, change.name);
        for field in &change.fields {
            let old = field.old.as_ref().map_or_else(|| "(unset)".to_owned(), |v| cell(Some(v)));
            let new = field.new.as_ref().map_or_else(|| "(unset)".to_owned(), |v| cell(Some(v)));
            println!("    {}: {}", field.field, table::printable(&format!("{old} → {new}")));
        }
    }
    let [created, changed, deleted, same, unknown] = counts;
    let tense = if verb == "plan" { "would be " } else { "" };
    print!("{created} {tense}created, {changed} changed, {deleted} deleted, {same} unchanged");
    if unknown > 0 {
        print!(", {unknown} with a password that apply compares");
    }
    println!();
}

/// Reads documents; folders give their `*.yaml` and `*.yml`, sorted.
pub(crate) fn documents(paths: &[PathBuf]) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::file(format!("cannot read standard input: {error}")))?;
            documents.push(Document { file: "<stdin>".to_owned(), text });
            continue;
        }
        for file in files(path)? {
            let text = std::fs::read_to_string(&file).map_err(|error| {
                Failure::file(format!("cannot read '{}': {error}", file.display()))
            })?;
            documents.push(Document { file: file.display().to_string(), text });
        }
    }
    Ok(documents)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error| Failure::file(format!("cannot read '{}': {error}", path.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::file(format!("'{}' holds no *.yaml or *.yml", path.display())));
    }
    Ok(files)
}

/// Prints the configuration as documents, or writes them into a folder, a file for each kind.
pub(crate) async fn export(
    client: &AdminClient,
    output: Output,
    args: &ExportArgs,
) -> Result<(), Failure> {
    let request = json!({"request": "export", "kinds": args.kinds});
    let Response::Documents { documents } = client.ask(request).await? else {
        return Err(unexpected());
    };
    if let Some(folder) = &args.output {
        crate::parts::private_folder(folder)?;
        for document in &documents {
            let file = folder.join(&document.file);
            std::fs::write(&file, &document.text).map_err(|error| {
                Failure::file(format!("cannot write '{}': {error}", file.display()))
            })?;
            println!("wrote {}", file.display());
        }
        return Ok(());
    }
    output.rows(&documents, |documents| {
        for (at, document) in documents.iter().enumerate() {
            print!("{}{}", if at > 0 { "---\n" } else { "" }, document.text);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_nested_json() {
        let args = FieldArgs {
            name: "m".parse().unwrap(),
            fields: ["quota.files=100", "rights=[\"read\"]", "note=hello there", "policy="]
                .map(str::to_owned)
                .to_vec(),
            password_stdin: false,
            from_file: Vec::new(),
        };
        let value = Value::Object(assignments(&args).unwrap());
        let want = json!({
            "quota": {"files": 100}, "rights": ["read"], "note": "hello there", "policy": null,
        });
        assert_eq!(value, want);
    }

    #[test]
    fn cells_are_short() {
        assert_eq!(cell(Some(&json!({"event": "file.uploaded"}))), "event=file.uploaded");
        assert_eq!(cell(Some(&json!([{"delete": {}}]))), "delete");
        assert_eq!(cell(None), "-");
        assert_eq!(cell(Some(&json!("x".repeat(100)))).chars().count(), 61);
    }
}
