//! Which keys steps of rules need.

use crate::name::Name;

/// A key that a step names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse<'n> {
    /// Of the step's document, with its word: `sign.key`.
    pub field: &'static str,
    /// The name of the key, which must be of type `openpgp`.
    pub name: &'n Name,
    /// What the step needs of it.
    pub half: KeyHalf,
}

impl<'n> KeyUse<'n> {
    pub(super) fn of(
        field: &'static str,
        half: KeyHalf,
        names: &'n [Name],
    ) -> impl Iterator<Item = KeyUse<'n>> {
        names.iter().map(move |name| KeyUse { field, name, half })
    }
}

/// What is needed of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHalf {
    /// What everybody may have: to encrypt to it, or to see what it signed.
    Public,
    /// What only its owner has: to decrypt, or to sign.
    Private,
}

#[cfg(test)]
mod tests {
    use crate::noun::Noun as _;
    use crate::rule::Rule;

    #[test]
    fn a_key_that_a_step_names_is_a_reference() {
        let text = r#"{"name": "r", "when": {"event": "file.uploaded"}, "do": [
            {"encrypt": {"keys": ["a"], "signers": ["b"]}}, {"sign": {"key": "c"}},
            {"decrypt": {"keys": ["d"], "signed_by": ["e"]}}, {"verify": {"signed_by": ["f"]}}]}"#;
        let rule: Rule = serde_json::from_str(text).unwrap();
        let references = rule.references();
        let found: Vec<_> =
            references.iter().map(|it| (it.field.as_str(), it.name.as_str())).collect();
        let wanted = [
            ("do.0.encrypt.keys", "a"),
            ("do.0.encrypt.signers", "b"),
            ("do.1.sign.key", "c"),
            ("do.2.decrypt.keys", "d"),
            ("do.2.decrypt.signed_by", "e"),
            ("do.3.verify.signed_by", "f"),
        ];
        assert_eq!(found, wanted);
    }
}
