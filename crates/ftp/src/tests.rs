//! The adapter with everything real around it.
