//! Bugs about customizations: what is told of them, and to whom.

use innkeeper_core::{ActionFrame, AgentCommand, CustomizationCommand, Effect};
use serde_json::Value;

use super::mutator::envelope;
use super::{Mutation, Mutator};

impl Mutator {
    /// Whether an action about customizations is dropped.
    pub(super) fn hides(&mut self, frame: &ActionFrame) -> bool {
        let Some(mutation @ (Mutation::KeepSwitchToItself | Mutation::LeaveCustomization)) = self.mutation else {
            return false;
        };
        let told = envelope(frame);
        let kind = &told["action"]["type"];
        let is_meant = match mutation {
            Mutation::KeepSwitchToItself => *kind == "session/customizationToggled" && told["origin"].is_null(),
            _ => *kind == "session/customizationRemoved",
        };
        is_meant && self.strikes(mutation)
    }

    /// Bends an action about customizations, if there is anything to bend.
    pub(super) fn bend_customizations(&mut self, told: &mut Value) -> bool {
        let is_update = told["action"]["type"] == "session/customizationUpdated";
        let entry = &mut told["action"]["customization"];
        match self.mutation {
            Some(Mutation::UnsortDecisions) if is_update => {
                let decisions = entry["enablement"].as_array_mut().filter(|all| all.len() > 1);
                let Some(decisions) = decisions else {
                    return false;
                };
                decisions.reverse();
                self.strikes(Mutation::UnsortDecisions)
            }
            Some(Mutation::UpdateWithoutChildren) if is_update => {
                let children = entry["children"].as_array_mut().filter(|all| !all.is_empty());
                let Some(children) = children else {
                    return false;
                };
                children.clear();
                self.strikes(Mutation::UpdateWithoutChildren)
            }
            _ => false,
        }
    }

    /// Whether something that is to be done about customizations is not done; what a turn is told of
    /// them may be bent.
    pub(super) fn loses(&mut self, effect: &mut Effect) -> bool {
        match effect {
            Effect::Customizations(CustomizationCommand::Follow { .. }) => self.strikes(Mutation::LoseFollow),
            Effect::Customizations(CustomizationCommand::Unfollow { .. }) => self.strikes(Mutation::LoseForget),
            Effect::Agent(AgentCommand::StartTurn { start, .. }) => {
                if !start.disabled_ids.is_empty() && self.strikes(Mutation::IgnoreSwitches) {
                    start.disabled_ids = Default::default();
                }
                false
            }
            _ => false,
        }
    }
}
