//! Changes of the configuration that the server makes by itself: what is told of them.

use entrepot_journal::Recorder;
use entrepot_nouns::{Fact, Kind, Name};

/// Who makes them.
pub(crate) fn author(recorder: &Recorder) -> String {
    format!("node:{}", recorder.node())
}

/// That a field of a noun is another one now.
pub(crate) fn changed(recorder: &Recorder, noun: Kind, name: &Name, field: &str) -> Fact {
    Fact::ConfigChanged {
        noun,
        name: name.clone(),
        action: "changed".to_owned(),
        by: author(recorder),
        fields: vec![field.to_owned()],
    }
}
