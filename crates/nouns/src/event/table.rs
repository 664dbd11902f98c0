//! What the table of facts becomes.

macro_rules! facts {
    ($( $(#[$doc:meta])* $word:literal $name:ident {
        $( $(#[$field_doc:meta])* $field:ident : $ty:ty ),* $(,)?
    } )*) => {
        /// What happened. `kind` in JSON is the word that rules and searches use.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind")]
        pub enum Fact { $(
            $(#[$doc])*
            #[serde(rename = $word)]
            $name { $( $(#[$field_doc])* $field: $ty, )* },
        )*
            /// What a newer program recorded. It is kept and shown as it is.
            #[serde(untagged)]
            Unknown(UnknownFact),
        }

        impl Fact {
            /// Every kind, as rules and searches name it.
            pub const KINDS: &'static [&'static str] = &[$($word,)*];

            /// The word that rules and searches use, such as `file.uploaded`.
            pub fn kind(&self) -> &str {
                match self {
                    $(Fact::$name { .. } => $word,)*
                    Fact::Unknown(fact) => fact.kind(),
                }
            }
        }
    };
}
