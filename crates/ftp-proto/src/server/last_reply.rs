//! The last reply in the output, as long as no part of it was written.

/// Where the last reply begins, as long as it may be taken back.
#[derive(Debug, Default)]
pub(super) struct LastReply {
    at: Option<usize>,
}

impl LastReply {
    /// A reply begins at this length of the output.
    pub(super) fn begins(&mut self, at: usize) {
        self.at = Some(at);
    }

    /// So many bytes of the output went out.
    pub(super) fn written(&mut self, count: usize) {
        self.at = self.at.and_then(|at| at.checked_sub(count));
    }

    /// Where the reply begins, unless part of it was written; it can be taken back once.
    pub(super) fn take(&mut self) -> Option<usize> {
        self.at.take()
    }
}
