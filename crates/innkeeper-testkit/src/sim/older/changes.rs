//! Views of changes and annotations in the hands of older clients: they look at them, review files, invoke operations
//! and annotate in the words of their version.

use super::Intent;
use super::client::OlderClient;
use super::operations::At;
use crate::sim::changes::{FILES, file_uri};
use crate::sim::{Choices, Sim, Violation};

/// The views of a session, by their names in its URI. Some turns start later, and some never.
const VIEWS: [&str; 5] = ["session", "uncommitted", "branch", "turn/t1", "turns/t1/t2"];

impl Sim {
    /// A view and the annotations of every session, as far as the version of a client has them.
    pub(super) fn parts_for_older(&self, index: usize) -> Vec<String> {
        let version = self.older[index].client.version();
        if !self.config.serves_changes || !version.has_channels() {
            return Vec::new();
        }
        let sessions = self.sessions();
        let parts = sessions.flat_map(|session| {
            let annotations = (!version.session_is_chat()).then(|| format!("{session}/annotations"));
            std::iter::once(format!("{session}/changeset/session")).chain(annotations)
        });
        parts.collect()
    }

    /// Lets an older client do one thing that has to do with changes.
    pub(super) fn change_older(&mut self, at: At, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let sessions: Vec<String> = self.sessions().map(str::to_owned).collect();
        let client = self.older_at(at);
        if !client.is_ready || !client.version().has_channels() {
            return Ok(());
        }
        match choices.below(8) {
            0 | 1 => match choices.pick(&sessions) {
                Some(session) => {
                    let view = VIEWS[choices.below(VIEWS.len())];
                    self.subscribe_older(at, &format!("{session}/changeset/{view}"), None)
                }
                None => Ok(()),
            },
            2 => self.invoke_older(at, choices),
            3 | 4 => self.review_older(at, choices),
            _ => self.annotate_older(at, choices),
        }
    }

    fn invoke_older(&mut self, at: At, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let Some(view) = some_part(self.older_at(at), "/changeset/", choices) else {
            return Ok(());
        };
        let operation = ["discard", "commit", "explode"][choices.below(3)];
        let file = choices.one_in(3).then(|| file_uri(FILES[choices.below(FILES.len())]));
        let id = self.next_id();
        let request = self.older_at(at).invoke(id, &view, operation, file)?;
        self.note(|| format!("{at:?} invokes {operation} on {view}"));
        self.count("operations of older clients");
        self.handle(request)
    }

    fn review_older(&mut self, at: At, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let Some(view) = some_part(self.older_at(at), "/changeset/", choices) else {
            return Ok(());
        };
        let files = vec![file_uri(FILES[choices.below(FILES.len())])];
        let reviewed = choices.below(3) > 0;
        if reviewed {
            self.note_review(&view, &files);
        }
        self.count("reviews of older clients");
        self.act_older(at, &view, &Intent::Review { files, reviewed })
    }

    fn annotate_older(&mut self, at: At, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let Some(channel) = some_part(self.older_at(at), "/annotations", choices) else {
            return Ok(());
        };
        let session = channel.trim_end_matches("/annotations").to_owned();
        let (id, entry) = (format!("a{}", choices.below(3)), format!("e{}", choices.below(3)));
        let intent = match choices.below(8) {
            0..=2 => Intent::Annotate {
                session,
                id,
                entry,
                resource: file_uri(FILES[0]),
                text: self.words(),
            },
            3 => Intent::Resolve {
                id,
                is_resolved: choices.below(2) == 0,
            },
            4 | 5 => Intent::WriteEntry {
                id,
                entry,
                text: self.words(),
            },
            6 => Intent::RemoveEntry { id, entry },
            _ => Intent::RemoveAnnotation { id },
        };
        self.count("annotations of older clients");
        self.act_older(at, &channel, &intent)
    }
}

/// A view or annotations that a client has.
fn some_part(client: &OlderClient, kind: &str, choices: &mut Choices<'_>) -> Option<String> {
    let parts: Vec<&String> = client
        .channels
        .iter()
        .filter(|channel| channel.contains(kind))
        .collect();
    choices.pick(&parts).map(|part| (*part).clone())
}
