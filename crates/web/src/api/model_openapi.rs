//! The description of the interface of one model (OpenAPI 3.1), for programs that make clients: its
//! procedures by their own parameters and results, and the sessions that clients hold.

use entrepot_host::model::Described;
use entrepot_nouns::Name;
use serde_json::{Map, Value, json};

use super::openapi::{document, operation};
use super::routes;
use super::schemas::Schemas;

/// Of what the caller may call.
pub(crate) fn description(model: &Name, procedures: &[Described]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for procedure in procedures {
        let path = format!("/api/v1/models/{model}/procedures/{}", procedure.name);
        let called = called(procedure, &procedure.name);
        paths.insert(path, json!({ "post": called }));
    }
    for mut route in routes::of_host_sessions() {
        route.path = route.path.replace("{name}", model.as_str());
        let method = route.method.as_str().to_ascii_lowercase();
        let described = operation(&route, &mut schemas);
        if !route.path.ends_with("/{procedure}") {
            let path = paths.entry(route.path).or_insert_with(|| json!({}));
            path.as_object_mut().and_then(|methods| methods.insert(method, described));
            continue;
        }
        for procedure in procedures {
            let called = called(procedure, &format!("{}_in_session", procedure.name));
            let parameters = json!([{
                "name": "id",
                "in": "path",
                "required": true,
                "schema": { "type": "string", "format": "uuid" },
            }]);
            let path = route.path.replace("{procedure}", &procedure.name);
            // Of the path: what is said there holds for all of its methods.
            paths.insert(path, json!({ "parameters": parameters, "post": called }));
        }
    }
    let info = json!({ "title": format!("Procedures of {model}"), "version": "1" });
    document(&info, paths, schemas)
}

fn called(procedure: &Described, id: &str) -> Value {
    let Described { name, summary, input, output } = procedure;
    json!({
        "operationId": id,
        "summary": summary.clone().unwrap_or_else(|| name.clone()),
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": input } },
        },
        "responses": {
            "200": {
                "description": "What the procedure has read.",
                "content": { "application/json": { "schema": output } },
            },
            "default": {
                "description": "Why it failed (RFC 9457).",
                "content": { "application/problem+json": { "schema": failure() } },
            },
        },
    })
}

/// Why a procedure failed: what a model says stands beside what every problem says.
fn failure() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "code": { "type": "string" },
            "error": { "type": "string", "description": "The model's word for it." },
            "entity": { "type": "string", "description": "The screen that stood." },
            "screen": {
                "type": "array",
                "items": { "type": "string" },
                "description": "Its rows, without secrets.",
            },
        },
    })
}
