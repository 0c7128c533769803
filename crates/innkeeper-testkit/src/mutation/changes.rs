//! Bugs about changesets and annotations: what is computed, and who is told of it.

use std::collections::BTreeMap;

use innkeeper_core::changesets::{ChangedFile, ChangesetInput};
use innkeeper_core::{ActionFrame, ChangesCommand, ChannelId, Effect, Input, PartInput};

use super::mutator::envelope;
use super::{Mutation, Mutator};

/// The buggy host's knowledge of views: the files of their last reports.
#[derive(Debug, Default)]
pub struct ReportedFiles(BTreeMap<ChannelId, Vec<ChangedFile>>);

impl Mutator {
    /// Whether an effect on the service of changes is dropped.
    pub(super) fn loses_changes(&mut self, effect: &Effect) -> bool {
        match effect {
            Effect::Changes(ChangesCommand::Unfollow { .. }) => self.strikes(Mutation::LoseUnfollow),
            Effect::Changes(ChangesCommand::Invoke { .. }) => self.strikes(Mutation::LoseOperation),
            _ => false,
        }
    }

    /// Takes the former content of a changed file for the present one.
    pub(super) fn miss_change(&mut self, input: &mut Input) {
        let Input::Part(PartInput::Changeset(ChangesetInput::Computed {
            channel,
            outcome: Ok(computed),
        })) = input
        else {
            return;
        };
        let before = self.reported.0.insert(*channel, computed.files.clone());
        for file in &mut computed.files {
            let known = before.iter().flatten().find(|known| known.id() == file.id());
            if let Some(known) = known.filter(|known| known.fingerprint() != file.fingerprint())
                && self.mutation == Some(Mutation::MissChange)
            {
                file.clone_from(known);
            }
        }
    }

    /// Whether no subscriber gets an action about an annotation or a review.
    pub(super) fn hides_part(&mut self, frame: &ActionFrame) -> bool {
        let Some(bug @ (Mutation::HideAnnotation | Mutation::HideReview)) = self.mutation else {
            return false;
        };
        let envelope = envelope(frame);
        let kind = envelope["action"]["type"].as_str().unwrap_or_default();
        let is_meant = match bug {
            Mutation::HideAnnotation => kind == "annotations/set",
            _ => kind == "changeset/filesReviewChanged",
        };
        is_meant && self.strikes(bug)
    }
}
