//! Fields that a document may leave out: what they are then, and when they are left out of what is
//! written.

/// The default of fields that are on unless a document turns them off.
pub(crate) trait OnByDefault {
    /// What a document means that does not name the field.
    fn on() -> Self;
    /// True if the field need not be written.
    fn is_on(&self) -> bool;
}

impl OnByDefault for bool {
    fn on() -> Self {
        true
    }

    fn is_on(&self) -> bool {
        *self
    }
}

/// True of a field that has the default of its type and need not be written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
