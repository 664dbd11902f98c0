//! The description of the interface (OpenAPI 3.1), made from the table of routes and from the
//! types that are sent. Schemas of types come from their own definitions: a field that is added to
//! a noun stands in the description at once. A copy is `docs/openapi.json`; a test compares it.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::routes::{self, HasVersion, Parameter, Repeats, Route};
use super::schemas::{Schema, Schemas};

/// The description as it is served.
pub(crate) fn text() -> String {
    let mut text = serde_json::to_string_pretty(&description()).unwrap_or_default();
    text.push('\n');
    text
}

fn description() -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for route in routes::all() {
        let operation = operation(&route, &mut schemas);
        let path = paths.entry(route.path.clone()).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(methods) = path {
            methods.insert(route.method.as_str().to_ascii_lowercase(), operation);
        }
    }
    let info = json!({
        "title": "Entrepot",
        "version": "1",
        "description": "The administration of an Entrepot installation. Every address is about \
            the site of the account that signs in; administrators of 'main' name another one by \
            'site'.",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    });
    document(&info, paths, schemas)
}

/// A description of operations and of the types that they name.
pub(super) fn document(info: &Value, paths: Map<String, Value>, schemas: Schemas) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": info,
        "security": [{ "basic": [] }, { "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": { "type": "http", "scheme": "basic" },
                "token": { "type": "http", "scheme": "bearer" },
            },
            "responses": {
                "Problem": {
                    "description": "Why the request was refused or failed (RFC 9457).",
                    "content": { "application/problem+json": { "schema": problem() } },
                },
            },
            "schemas": schemas.into_definitions(),
        },
    })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": { "type": "string", "description": "The address of the code's page." },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "What happened and what to do." },
            "code": { "type": "string", "pattern": "^EP[0-9]{4}$" },
            "request": { "type": "string", "description": "Names the request in the log." },
        },
    })
}

pub(super) fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = Map::new();
    operation.insert("operationId".to_owned(), json!(route.id));
    operation.insert("tags".to_owned(), json!([route.tag]));
    operation.insert("summary".to_owned(), json!(route.summary));
    operation.insert("parameters".to_owned(), Value::Array(parameters(route)));
    if let Some(body) = &route.body {
        let media = match body {
            Schema::MergePatch => "application/merge-patch+json",
            _ => "application/json",
        };
        let content = json!({ media: { "schema": schemas.make(body) } });
        let body = json!({ "required": true, "content": content });
        operation.insert("requestBody".to_owned(), body);
    }
    operation.insert("responses".to_owned(), responses(route, schemas));
    Value::Object(operation)
}

fn responses(route: &Route, schemas: &mut Schemas) -> Value {
    let answer = &route.answer;
    let has_plan = route.query.iter().any(is_dry_run);
    let plan = has_plan.then(|| schemas.make(&Schema::Plan));
    let mut response = Map::from_iter([("description".to_owned(), json!(answer.about))]);
    if answer.status != 204 {
        let mut schema = match &answer.schema {
            Some(schema) => schemas.make(schema),
            None => json!({ "type": "string" }),
        };
        if route.query.iter().any(|parameter| parameter.name == "fields") {
            let part = json!({ "type": "object", "description": "With `fields`: only those." });
            schema = json!({ "anyOf": [schema, part] });
        }
        if let Some(plan) = plan.as_ref().filter(|_| answer.status == 200) {
            schema = json!({ "anyOf": [schema, plan] });
        }
        response.insert("content".to_owned(), json!({ answer.media: { "schema": schema } }));
    }
    if answer.has_version == HasVersion::Yes {
        let about = "The version, for 'If-Match' and 'If-None-Match'.";
        let tag = json!({ "description": about, "schema": { "type": "string" } });
        response.insert("headers".to_owned(), json!({ "ETag": tag }));
    }
    let mut responses = Map::from_iter([(answer.status.to_string(), Value::Object(response))]);
    if let Some(plan) = plan.filter(|_| answer.status != 200) {
        let about = "With 'dry_run': what would change.";
        let content = json!({ "application/json": { "schema": plan } });
        let planned = json!({ "description": about, "content": content });
        responses.insert("200".to_owned(), planned);
    }
    let problem = json!({ "$ref": "#/components/responses/Problem" });
    responses.insert("default".to_owned(), problem);
    Value::Object(responses)
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters: Vec<Value> = path_words(&route.path)
        .map(|name| {
            let schema = match name {
                "id" => json!({ "type": "string", "format": "uuid" }),
                _ => json!({ "type": "string" }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    let site = Parameter {
        name: "site",
        about: "The site that the request is about; that of the account if unset.",
        repeats: Repeats::Once,
    };
    parameters.extend(route.query.iter().chain([&site]).map(|parameter| {
        let one = match parameter.name {
            "limit" => json!({ "type": "integer", "minimum": 1, "maximum": 1000 }),
            "dry_run" | "lost" => json!({ "type": "boolean" }),
            "since" | "until" => json!({ "type": "string", "format": "date-time" }),
            "session" | "transfer" | "job" => json!({ "type": "string", "format": "uuid" }),
            _ => json!({ "type": "string" }),
        };
        let schema = match parameter.repeats {
            Repeats::Once => one,
            Repeats::Often => json!({ "type": "array", "items": one }),
        };
        let (name, about) = (parameter.name, parameter.about);
        json!({ "name": name, "in": "query", "description": about, "schema": schema })
    }));
    let header = |name: &str, about: &str| {
        let schema = json!({ "type": "string" });
        json!({ "name": name, "in": "header", "description": about, "schema": schema })
    };
    let is_change = route.method != Method::GET;
    if is_change {
        let about = "A repetition of the same request under the same key within 24 hours is \
                     answered as the first one was, and changes nothing.";
        parameters.push(header("Idempotency-Key", about));
    }
    if is_change && route.method != Method::POST && route.query.iter().any(is_dry_run) {
        let about = "Only if the noun has one of these versions; else 412.";
        parameters.push(header("If-Match", about));
    }
    if route.query.iter().any(|parameter| parameter.name == "last_event_id") {
        parameters.push(header("Last-Event-ID", "Begin behind this event."));
    }
    parameters
}

fn is_dry_run(parameter: &Parameter) -> bool {
    parameter.name == "dry_run"
}

/// The names of the parameters in a path.
fn path_words(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|word| word.strip_prefix('{')?.strip_suffix('}'))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use entrepot_nouns::Kind;

    use super::super::schemas::definition_name;
    use super::*;

    /// Write it with `UPDATE_OPENAPI=1 cargo test -p entrepot-web openapi`.
    #[test]
    fn the_copy_in_the_documentation_is_the_description() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(&file, text()).unwrap();
        }
        let copy = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(copy == text(), "docs/openapi.json is old: run this test with UPDATE_OPENAPI=1");
    }

    #[test]
    fn every_reference_leads_to_a_schema_and_every_operation_has_its_own_name() {
        let description = description();
        let text = description.to_string();
        let schemas = description["components"]["schemas"].as_object().unwrap();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
        let ids: Vec<String> = routes::all().into_iter().map(|route| route.id).collect();
        let distinct: HashSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert!(ids.iter().all(|id| !id.is_empty()));
        for kind in Kind::ALL {
            let fields = schemas[definition_name(kind)]["properties"].as_object().unwrap();
            assert!(fields.contains_key("name") && fields.contains_key("revision"), "{kind}");
        }
        assert_eq!(schemas["Account"]["properties"]["password"]["writeOnly"], true);
    }
}
