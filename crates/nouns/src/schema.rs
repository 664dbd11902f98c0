//! JSON Schemas of types that are written as one text, for descriptions of interfaces. All others
//! derive theirs.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::command::CommandPattern;
use crate::event::{EventClock, UnknownFact};
use crate::mount::{ModeMask, Right, Rights};
use crate::name::Name;
use crate::noun::NounVersion;
use crate::path::{StorePath, VPath};
use crate::retention::Keep;
use crate::secret::Secret;
use crate::site::HostName;
use crate::source::Source;
use crate::time::Timestamp;

macro_rules! schemas {
    ($($name:ident $schema:tt)*) => { $(
        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )* };
}

schemas! {
    Name {
        "type": "string",
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$",
        "description": "1 to 64 letters, digits and . _ - @, the first of them a letter or digit.",
    }
    Timestamp {
        "type": "string",
        "format": "date-time",
        "description": "A point in time (RFC 3339) in UTC, to the microsecond.",
    }
    Secret {
        "type": "string",
        "description": "A secret in clear text: hashed or sealed on the way in, never shown.",
    }
    VPath { "type": "string", "description": "A virtual path, as accounts see it; from '/' on." }
    StorePath { "type": "string", "description": "A path inside an endpoint." }
    HostName { "type": "string", "description": "A host name, in lower case." }
    Source { "type": "string", "description": "An address, a network or a host name." }
    Keep { "type": "string", "description": "How long something is kept, such as 90d, or forever." }
    ModeMask {
        "type": "string",
        "pattern": "^0[0-7]{3}$",
        "description": "Octal digits from 0000 to 0777.",
    }
    EventClock { "type": "string", "description": "MILLISECONDS.COUNTER.SLOT of a hybrid clock." }
    NounVersion { "type": "string", "description": "ID.REVISION of a noun." }
    CommandPattern { "type": "string", "description": "A command, or a pattern of commands." }
    UnknownFact {
        "type": "object",
        "description": "A fact of a newer program.",
        "properties": { "kind": { "type": "string" } },
        "required": ["kind"],
    }
}

impl JsonSchema for Rights {
    fn schema_name() -> Cow<'static, str> {
        "Rights".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let right = generator.subschema_for::<Right>();
        json_schema!({
            "description": "What may be done: all, read-only, or a list of rights.",
            "anyOf": [
                { "type": "string", "enum": ["all", "read-only"] },
                { "type": "array", "items": right },
            ],
        })
    }
}
