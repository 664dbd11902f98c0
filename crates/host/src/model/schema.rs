//! The JSON Schema of the file of a model, for editors: made from the types that read it.

use schemars::generate::SchemaSettings;
use serde_json::Value as Json;

use super::document::Model;

/// The schema (2020-12).
pub fn schema() -> Json {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Model>();
    schema.insert("title".to_owned(), "The model of a host application".into());
    schema.to_value()
}
