//! What nouns are checked for besides what their types say: the crates that use them know.

use crate::admin::Admin;
use crate::secrets::{EndpointCheck, ListenerCheck, ModelCheck, RuleCheck};

impl Admin {
    /// Checks rules further than their types do: whoever runs them knows what can be run.
    #[must_use]
    pub fn with_rule_check(mut self, check: RuleCheck) -> Self {
        self.settler.rule_check = check;
        self
    }

    /// Checks listeners further than their types do: whoever serves them knows what can be read.
    #[must_use]
    pub fn with_listener_check(mut self, check: ListenerCheck) -> Self {
        self.settler.listener_check = check;
        self
    }

    /// Checks endpoints further than their types do: this node does not open each one.
    #[must_use]
    pub fn with_endpoint_check(mut self, check: EndpointCheck) -> Self {
        self.settler.endpoint_check = check;
        self
    }

    /// Checks models further than their types do: whoever calls them knows what can be read.
    #[must_use]
    pub fn with_model_check(mut self, check: ModelCheck) -> Self {
        self.settler.model_check = check;
        self
    }
}
