//! The one table of all state actions: where each belongs, who may send it, since which
//! protocol version it exists, what older versions get for it, and how soon it must be on disk.
//!
//! The published crate has no such table, so this is the host's own. It is exhaustive: an
//! action added upstream does not compile here until it has a row.

use ahp_types::actions::*;

use crate::clients::access::Scope;
use crate::protocol::dialect::Version;

/// The kinds of state channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelKind {
    /// `ahp-root://`.
    Root,
    /// A session.
    Session,
    /// A chat of a session.
    Chat,
    /// A canvas.
    Canvas,
    /// A set of file changes.
    Changeset,
    /// A session's annotations.
    Annotations,
    /// A terminal.
    Terminal,
    /// A watch on files.
    ResourceWatch,
    /// The catalogue of automations.
    Automations,
    /// One run of an automation.
    AutomationRun,
}

impl ChannelKind {
    /// The part before the slash in the names of its actions.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Session => "session",
            Self::Chat => "chat",
            Self::Canvas => "canvas",
            Self::Changeset => "changeset",
            Self::Annotations => "annotations",
            Self::Terminal => "terminal",
            Self::ResourceWatch => "resourceWatch",
            Self::Automations => "automation",
            Self::AutomationRun => "automationRun",
        }
    }
}

/// The originators that an action may have (DSP-06).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dispatcher {
    /// The host alone.
    HostOnly,
    /// Any client whose scope reaches it.
    AnyClient,
    /// A client, about itself: the id in the payload is the dispatcher's (DSP-09).
    OwnClientId,
    /// The client that contributed the tool call.
    CallOwner,
    /// The client that holds the terminal's claim.
    ClaimHolder,
    /// The client that owns the watched files (F-06).
    WatchOwner,
    /// Any client, where the agent or the host advertised the capability.
    Capability,
}

/// Whether the translation of an action for older versions depends on the state before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Translation {
    /// The action alone says what an older version gets.
    Stateless,
    /// The state of its channel before the action is needed.
    Stateful,
}

/// Durability class of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// On disk before any client sees it.
    Durable,
    /// Streamed output: written behind, in groups.
    Stream,
    /// Not in the journal: an event that is part of no state, or of a state that is persisted elsewhere.
    Fleeting,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionRule {
    /// The wire name, such as `chat/turnStarted`.
    pub name: &'static str,
    /// The kind of channel it belongs to (DSP-07).
    pub kind: ChannelKind,
    /// Its permitted originators.
    pub dispatcher: Dispatcher,
    /// The scope a client needs to dispatch it.
    pub scope: Scope,
    /// The version that introduced it. Older versions get nothing, unless a step of the ladder rewrites it.
    pub since: Version,
    /// The oldest version in which the same bytes mean the same. Clients of this version and of every newer one get the
    /// shared bytes; for older ones the action is translated.
    pub same: Version,
    /// Whether the translation needs the state before it.
    pub translation: Translation,
    /// Its durability class.
    pub durability: Durability,
}

macro_rules! action_table {
    ($($variant:ident($payload:ident) = $name:literal, $kind:ident, $dispatcher:ident, $scope:ident, $since:ident, $same:ident, $translation:ident, $durability:ident;)+) => {
        /// All rows, in the order of the table.
        pub const RULES: &[ActionRule] = &[$(ActionRule {
            name: $name,
            kind: ChannelKind::$kind,
            dispatcher: Dispatcher::$dispatcher,
            scope: Scope::$scope,
            since: Version::$since,
            same: Version::$same,
            translation: Translation::$translation,
            durability: Durability::$durability,
        }),+];


        #[derive(Clone, Copy)]
        enum Row { $($variant),+ }

        /// Returns the row of an action; `None` only for [`StateAction::Unknown`].
        pub fn rule(action: &StateAction) -> Option<&'static ActionRule> {
            match action {
                $(StateAction::$variant(_) => Some(&RULES[Row::$variant as usize]),)+
                StateAction::Unknown(_) => None,
            }
        }

        /// Returns the row of an action by its wire name.
        pub fn rule_named(name: &str) -> Option<&'static ActionRule> {
            match name {
                $($name => Some(&RULES[Row::$variant as usize]),)+
                _ => None,
            }
        }

        /// Decodes the payload of a known action name; `None` when the name is unknown.
        ///
        /// The published enum falls back to `Unknown` for a known name with bad fields, so
        /// each row decodes its own payload and can say which field is wrong (DSP-08, E-42).
        ///
        /// It takes text and not any deserializer: every further kind compiles all payloads once more.
        pub(crate) fn decode_payload(name: &str, payload: &str) -> Option<Result<StateAction, serde_path_to_error::Error<serde_json::Error>>> {
            let json = &mut serde_json::Deserializer::from_str(payload);
            match name {
                $($name => Some(serde_path_to_error::deserialize::<_, $payload>(json).map(|payload| StateAction::$variant(payload.into()))),)+
                _ => None,
            }
        }
    };
}

action_table! {
    RootAgentsChanged(RootAgentsChangedAction) = "root/agentsChanged", Root, HostOnly, Drive, V0_1, V0_8, Stateless, Durable;
    RootActiveSessionsChanged(RootActiveSessionsChangedAction) = "root/activeSessionsChanged", Root, HostOnly, Drive, V0_1, V0_2, Stateless, Durable;
    RootConfigChanged(RootConfigChangedAction) = "root/configChanged", Root, AnyClient, Admin, V0_1, V0_2, Stateless, Durable;
    RootTerminalsChanged(RootTerminalsChangedAction) = "root/terminalsChanged", Root, HostOnly, Drive, V0_1, V0_9, Stateless, Stream;

    SessionReady(SessionReadyAction) = "session/ready", Session, HostOnly, Drive, V0_1, V0_2, Stateless, Durable;
    SessionCreationFailed(SessionCreationFailedAction) = "session/creationFailed", Session, HostOnly, Drive, V0_1, V0_2, Stateless, Durable;
    SessionChatAdded(SessionChatAddedAction) = "session/chatAdded", Session, HostOnly, Drive, V0_4, V0_7, Stateless, Durable;
    SessionChatRemoved(SessionChatRemovedAction) = "session/chatRemoved", Session, HostOnly, Drive, V0_4, V0_4, Stateless, Durable;
    SessionChatUpdated(SessionChatUpdatedAction) = "session/chatUpdated", Session, HostOnly, Drive, V0_4, V0_7, Stateless, Durable;
    SessionChatsReordered(SessionChatsReorderedAction) = "session/chatsReordered", Session, HostOnly, Drive, V1_0, V1_0, Stateful, Durable;
    SessionDefaultChatChanged(SessionDefaultChatChangedAction) = "session/defaultChatChanged", Session, HostOnly, Drive, V0_4, V0_4, Stateless, Durable;
    SessionTitleChanged(SessionTitleChangedAction) = "session/titleChanged", Session, AnyClient, Drive, V0_1, V0_2, Stateless, Durable;
    SessionIsReadChanged(SessionIsReadChangedAction) = "session/isReadChanged", Session, AnyClient, Drive, V0_1, V0_4, Stateless, Durable;
    SessionIsArchivedChanged(SessionIsArchivedChangedAction) = "session/isArchivedChanged", Session, AnyClient, Drive, V0_1, V0_2, Stateless, Durable;
    SessionActivityChanged(SessionActivityChangedAction) = "session/activityChanged", Session, HostOnly, Drive, V0_1, V0_4, Stateless, Stream;
    SessionChangesetsChanged(SessionChangesetsChangedAction) = "session/changesetsChanged", Session, HostOnly, Drive, V0_2, V0_2, Stateless, Durable;
    SessionServerToolsChanged(SessionServerToolsChangedAction) = "session/serverToolsChanged", Session, HostOnly, Drive, V0_1, V0_2, Stateless, Durable;
    SessionActiveClientSet(SessionActiveClientSetAction) = "session/activeClientSet", Session, OwnClientId, Drive, V0_5_0, V0_8, Stateful, Durable;
    SessionActiveClientRemoved(SessionActiveClientRemovedAction) = "session/activeClientRemoved", Session, OwnClientId, Drive, V0_5_0, V0_5_0, Stateful, Durable;
    SessionWorkingDirectorySet(SessionWorkingDirectorySetAction) = "session/workingDirectorySet", Session, Capability, Admin, V0_7, V0_7, Stateless, Durable;
    SessionWorkingDirectoryRemoved(SessionWorkingDirectoryRemovedAction) = "session/workingDirectoryRemoved", Session, Capability, Drive, V0_7, V0_7, Stateless, Durable;
    SessionWorkingDirectoryReplaced(SessionWorkingDirectoryReplacedAction) = "session/workingDirectoryReplaced", Session, Capability, Admin, V0_8, V0_8, Stateful, Durable;
    SessionInputNeededSet(SessionInputNeededSetAction) = "session/inputNeededSet", Session, HostOnly, Drive, V0_5_1, V0_7, Stateless, Durable;
    SessionInputNeededRemoved(SessionInputNeededRemovedAction) = "session/inputNeededRemoved", Session, HostOnly, Drive, V0_5_1, V0_5_1, Stateless, Durable;
    SessionCustomizationsChanged(SessionCustomizationsChangedAction) = "session/customizationsChanged", Session, HostOnly, Drive, V0_1, V0_8, Stateless, Durable;
    SessionCustomizationToggled(SessionCustomizationToggledAction) = "session/customizationToggled", Session, AnyClient, Drive, V0_1, V0_8, Stateful, Durable;
    SessionCustomizationUpdated(SessionCustomizationUpdatedAction) = "session/customizationUpdated", Session, HostOnly, Drive, V0_2, V0_8, Stateful, Durable;
    SessionCustomizationRemoved(SessionCustomizationRemovedAction) = "session/customizationRemoved", Session, HostOnly, Drive, V0_2, V0_2, Stateful, Durable;
    SessionMcpServerStateChanged(SessionMcpServerStateChangedAction) = "session/mcpServerStateChanged", Session, HostOnly, Drive, V0_3, V0_3, Stateless, Durable;
    SessionMcpServerStartRequested(SessionMcpServerStartRequestedAction) = "session/mcpServerStartRequested", Session, AnyClient, Drive, V0_5_2, V0_5_2, Stateless, Durable;
    SessionMcpServerStopRequested(SessionMcpServerStopRequestedAction) = "session/mcpServerStopRequested", Session, AnyClient, Drive, V0_5_2, V0_5_2, Stateless, Durable;
    SessionMcpServerBackgroundRequested(SessionMcpServerBackgroundRequestedAction) = "session/mcpServerBackgroundRequested", Session, AnyClient, Drive, V1_0, V0_9, Stateless, Durable;
    SessionConfigChanged(SessionConfigChangedAction) = "session/configChanged", Session, AnyClient, Drive, V0_1, V0_2, Stateless, Durable;
    SessionMetaChanged(SessionMetaChangedAction) = "session/metaChanged", Session, HostOnly, Drive, V0_1, V0_5_0, Stateful, Durable;

    ChatTurnStarted(ChatTurnStartedAction) = "chat/turnStarted", Chat, AnyClient, Drive, V0_4, V0_9, Stateless, Durable;
    ChatDelta(ChatDeltaAction) = "chat/delta", Chat, HostOnly, Drive, V0_4, V0_4, Stateless, Stream;
    ChatResponsePart(ChatResponsePartAction) = "chat/responsePart", Chat, HostOnly, Drive, V0_4, V0_9, Stateless, Durable;
    ChatToolCallStart(ChatToolCallStartAction) = "chat/toolCallStart", Chat, HostOnly, Drive, V0_4, V0_4, Stateless, Durable;
    ChatToolCallDelta(ChatToolCallDeltaAction) = "chat/toolCallDelta", Chat, HostOnly, Drive, V0_4, V0_7, Stateless, Stream;
    ChatToolCallReady(ChatToolCallReadyAction) = "chat/toolCallReady", Chat, HostOnly, Drive, V0_4, V0_7, Stateful, Durable;
    ChatToolCallConfirmed(ChatToolCallConfirmedAction) = "chat/toolCallConfirmed", Chat, AnyClient, Drive, V0_4, V0_9, Stateful, Durable;
    ChatToolCallComplete(ChatToolCallCompleteAction) = "chat/toolCallComplete", Chat, CallOwner, Drive, V0_4, V0_7, Stateful, Durable;
    ChatToolCallResultConfirmed(ChatToolCallResultConfirmedAction) = "chat/toolCallResultConfirmed", Chat, AnyClient, Drive, V0_4, V0_4, Stateless, Durable;
    ChatToolCallContentChanged(ChatToolCallContentChangedAction) = "chat/toolCallContentChanged", Chat, CallOwner, Drive, V0_4, V0_7, Stateless, Stream;
    ChatToolCallAuthRequired(ChatToolCallAuthRequiredAction) = "chat/toolCallAuthRequired", Chat, HostOnly, Drive, V0_6, V0_6, Stateless, Durable;
    ChatToolCallAuthResolved(ChatToolCallAuthResolvedAction) = "chat/toolCallAuthResolved", Chat, HostOnly, Drive, V0_6, V0_6, Stateless, Durable;
    ChatTurnComplete(ChatTurnCompleteAction) = "chat/turnComplete", Chat, HostOnly, Drive, V0_4, V0_4, Stateless, Durable;
    ChatTurnCancelled(ChatTurnCancelledAction) = "chat/turnCancelled", Chat, AnyClient, Drive, V0_4, V0_4, Stateless, Durable;
    ChatError(ChatErrorAction) = "chat/error", Chat, HostOnly, Drive, V0_4, V0_9, Stateless, Durable;
    ChatTurnResume(ChatTurnResumeAction) = "chat/turnResume", Chat, AnyClient, Drive, V0_9, V0_9, Stateful, Durable;
    ChatActivityChanged(ChatActivityChangedAction) = "chat/activityChanged", Chat, HostOnly, Drive, V0_5_0, V0_5_0, Stateless, Stream;
    ChatBackgroundWorkSet(ChatBackgroundWorkSetAction) = "chat/backgroundWorkSet", Chat, HostOnly, Drive, V1_0, V0_9, Stateless, Durable;
    ChatBackgroundWorkRemoved(ChatBackgroundWorkRemovedAction) = "chat/backgroundWorkRemoved", Chat, HostOnly, Drive, V1_0, V0_9, Stateless, Durable;
    ChatMovableChanged(ChatMovableChangedAction) = "chat/movableChanged", Chat, HostOnly, Drive, V1_0, V0_9, Stateless, Durable;
    ChatChangesetsChanged(ChatChangesetsChangedAction) = "chat/changesetsChanged", Chat, HostOnly, Drive, V1_0, V0_9, Stateless, Durable;
    ChatCanvasesChanged(ChatCanvasesChangedAction) = "chat/canvasesChanged", Chat, HostOnly, Drive, V1_0, V1_0, Stateless, Durable;
    ChatUsage(ChatUsageAction) = "chat/usage", Chat, HostOnly, Drive, V0_4, V0_4, Stateless, Stream;
    ChatReasoning(ChatReasoningAction) = "chat/reasoning", Chat, HostOnly, Drive, V0_4, V0_4, Stateless, Stream;
    ChatWorkingDirectorySet(ChatWorkingDirectorySetAction) = "chat/workingDirectorySet", Chat, Capability, Drive, V0_7, V0_7, Stateless, Durable;
    ChatWorkingDirectoryRemoved(ChatWorkingDirectoryRemovedAction) = "chat/workingDirectoryRemoved", Chat, Capability, Drive, V0_7, V0_7, Stateless, Durable;
    ChatPendingMessageSet(ChatPendingMessageSetAction) = "chat/pendingMessageSet", Chat, AnyClient, Drive, V0_4, V0_9, Stateless, Durable;
    ChatPendingMessageRemoved(ChatPendingMessageRemovedAction) = "chat/pendingMessageRemoved", Chat, AnyClient, Drive, V0_4, V0_4, Stateless, Durable;
    ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction) = "chat/queuedMessagesReordered", Chat, AnyClient, Drive, V0_4, V0_4, Stateless, Durable;
    ChatDraftChanged(ChatDraftChangedAction) = "chat/draftChanged", Chat, AnyClient, Drive, V0_5_0, V0_9, Stateless, Stream;
    ChatIsReadChanged(ChatIsReadChangedAction) = "chat/isReadChanged", Chat, AnyClient, Drive, V1_0, V0_9, Stateless, Durable;
    ChatIsArchivedChanged(ChatIsArchivedChangedAction) = "chat/isArchivedChanged", Chat, AnyClient, Drive, V1_0, V0_9, Stateless, Durable;
    ChatInputRequested(ChatInputRequestedAction) = "chat/inputRequested", Chat, HostOnly, Drive, V0_4, V0_4, Stateless, Durable;
    ChatInputAnswerChanged(ChatInputAnswerChangedAction) = "chat/inputAnswerChanged", Chat, AnyClient, Drive, V0_4, V0_4, Stateless, Durable;
    ChatInputCompleted(ChatInputCompletedAction) = "chat/inputCompleted", Chat, AnyClient, Drive, V0_4, V0_4, Stateless, Durable;
    ChatTruncated(ChatTruncatedAction) = "chat/truncated", Chat, AnyClient, Drive, V0_4, V0_4, Stateless, Durable;
    ChatTurnsLoaded(ChatTurnsLoadedAction) = "chat/turnsLoaded", Chat, HostOnly, Drive, V0_5_1, V0_9, Stateless, Durable;

    CanvasStateChanged(CanvasStateChangedAction) = "canvas/stateChanged", Canvas, HostOnly, Drive, V1_0, V1_0, Stateless, Durable;

    ChangesetStatusChanged(ChangesetStatusChangedAction) = "changeset/statusChanged", Changeset, HostOnly, Drive, V0_2, V1_0, Stateless, Fleeting;
    ChangesetFileSet(ChangesetFileSetAction) = "changeset/fileSet", Changeset, HostOnly, Drive, V0_2, V0_2, Stateless, Fleeting;
    ChangesetFileRemoved(ChangesetFileRemovedAction) = "changeset/fileRemoved", Changeset, HostOnly, Drive, V0_2, V0_2, Stateless, Fleeting;
    ChangesetFilesReviewChanged(ChangesetFilesReviewChangedAction) = "changeset/filesReviewChanged", Changeset, AnyClient, Drive, V0_6, V0_6, Stateless, Durable;
    ChangesetContentChanged(ChangesetContentChangedAction) = "changeset/contentChanged", Changeset, HostOnly, Drive, V0_4, V0_9, Stateful, Fleeting;
    ChangesetOperationsChanged(ChangesetOperationsChangedAction) = "changeset/operationsChanged", Changeset, HostOnly, Drive, V0_2, V0_4, Stateless, Fleeting;
    ChangesetOperationStatusChanged(ChangesetOperationStatusChangedAction) = "changeset/operationStatusChanged", Changeset, HostOnly, Drive, V0_3, V0_4, Stateless, Fleeting;
    ChangesetCleared(ChangesetClearedAction) = "changeset/cleared", Changeset, HostOnly, Drive, V0_2, V0_2, Stateless, Fleeting;

    AnnotationsSet(AnnotationsSetAction) = "annotations/set", Annotations, AnyClient, Drive, V0_4, V0_9, Stateless, Durable;
    AnnotationsUpdated(AnnotationsUpdatedAction) = "annotations/updated", Annotations, AnyClient, Drive, V0_4, V0_9, Stateless, Durable;
    AnnotationsRemoved(AnnotationsRemovedAction) = "annotations/removed", Annotations, AnyClient, Drive, V0_4, V0_4, Stateless, Durable;
    AnnotationsEntrySet(AnnotationsEntrySetAction) = "annotations/entrySet", Annotations, AnyClient, Drive, V0_4, V0_4, Stateless, Durable;
    AnnotationsEntryRemoved(AnnotationsEntryRemovedAction) = "annotations/entryRemoved", Annotations, AnyClient, Drive, V0_4, V0_4, Stateless, Durable;

    // The service of terminals persists their states; the journal has none of their actions.
    TerminalData(TerminalDataAction) = "terminal/data", Terminal, HostOnly, Drive, V0_1, V0_2, Stateless, Fleeting;
    TerminalInput(TerminalInputAction) = "terminal/input", Terminal, AnyClient, Drive, V0_1, V0_2, Stateless, Fleeting;
    TerminalResized(TerminalResizedAction) = "terminal/resized", Terminal, AnyClient, Drive, V0_1, V0_2, Stateless, Fleeting;
    TerminalClaimed(TerminalClaimedAction) = "terminal/claimed", Terminal, ClaimHolder, Drive, V0_1, V0_2, Stateless, Fleeting;
    TerminalTitleChanged(TerminalTitleChangedAction) = "terminal/titleChanged", Terminal, AnyClient, Drive, V0_1, V0_2, Stateless, Fleeting;
    TerminalCwdChanged(TerminalCwdChangedAction) = "terminal/cwdChanged", Terminal, HostOnly, Drive, V0_1, V0_2, Stateless, Fleeting;
    TerminalExited(TerminalExitedAction) = "terminal/exited", Terminal, HostOnly, Drive, V0_1, V0_2, Stateless, Fleeting;
    TerminalCleared(TerminalClearedAction) = "terminal/cleared", Terminal, AnyClient, Drive, V0_1, V0_2, Stateless, Fleeting;
    TerminalCommandDetectionAvailable(TerminalCommandDetectionAvailableAction) = "terminal/commandDetectionAvailable", Terminal, HostOnly, Drive, V0_1, V0_2, Stateless, Fleeting;
    TerminalCommandExecuted(TerminalCommandExecutedAction) = "terminal/commandExecuted", Terminal, HostOnly, Drive, V0_1, V0_2, Stateless, Fleeting;
    TerminalCommandFinished(TerminalCommandFinishedAction) = "terminal/commandFinished", Terminal, HostOnly, Drive, V0_1, V0_2, Stateless, Fleeting;

    ResourceWatchChanged(ResourceWatchChangedAction) = "resourceWatch/changed", ResourceWatch, WatchOwner, Drive, V0_2, V0_2, Stateless, Fleeting;

    AutomationCreateRequested(AutomationCreateRequestedAction) = "automation/createRequested", Automations, Capability, Admin, V0_9, V0_9, Stateless, Durable;
    AutomationUpdateRequested(AutomationUpdateRequestedAction) = "automation/updateRequested", Automations, Capability, Admin, V0_9, V0_9, Stateless, Durable;
    AutomationSet(AutomationSetAction) = "automation/set", Automations, HostOnly, Drive, V0_9, V0_9, Stateless, Durable;
    AutomationRemoved(AutomationRemovedAction) = "automation/removed", Automations, Capability, Admin, V0_9, V0_9, Stateless, Durable;

    AutomationRunLifecycleChanged(AutomationRunLifecycleChangedAction) = "automationRun/lifecycleChanged", AutomationRun, HostOnly, Drive, V0_9, V0_9, Stateless, Durable;
    AutomationRunSessionSet(AutomationRunSessionSetAction) = "automationRun/sessionSet", AutomationRun, HostOnly, Drive, V0_9, V0_9, Stateless, Durable;
    AutomationRunSessionRemoved(AutomationRunSessionRemovedAction) = "automationRun/sessionRemoved", AutomationRun, HostOnly, Drive, V0_9, V0_9, Stateless, Durable;
    AutomationRunPrimarySessionChanged(AutomationRunPrimarySessionChangedAction) = "automationRun/primarySessionChanged", AutomationRun, HostOnly, Drive, V0_9, V0_9, Stateless, Durable;
    AutomationRunCancelRequested(AutomationRunCancelRequestedAction) = "automationRun/cancelRequested", AutomationRun, Capability, Admin, V0_9, V0_9, Stateless, Durable;
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_table_has_all_106_actions_once() {
        let names: HashSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(RULES.len(), 106);
        assert_eq!(names.len(), 106);
    }

    #[test]
    fn every_name_decodes_to_the_action_of_its_row() {
        for rule in RULES {
            // Payloads without required fields decode; the others name what is missing.
            match decode_payload(rule.name, "{}").expect("known name") {
                Ok(action) => assert_eq!(super::rule(&action).map(|row| row.name), Some(rule.name)),
                Err(error) => assert!(error.to_string().contains("missing field"), "{}: {error}", rule.name),
            }
        }
    }

    #[test]
    fn the_prefix_of_a_name_agrees_with_its_channel_kind() {
        for rule in RULES {
            assert_eq!(rule.name.split('/').next(), Some(rule.kind.prefix()), "{}", rule.name);
        }
    }

    #[test]
    fn neg08_each_action_goes_unchanged_only_to_versions_that_know_it() {
        // Upstream's registry tags eight of the ten actions that were published with 1.0 as known to 0.9.
        const KNOWN_TO_0_9: [&str; 7] = [
            "session/mcpServerBackgroundRequested",
            "chat/isReadChanged",
            "chat/isArchivedChanged",
            "chat/backgroundWorkSet",
            "chat/backgroundWorkRemoved",
            "chat/movableChanged",
            "chat/changesetsChanged",
        ];
        for rule in RULES {
            let known_since = match KNOWN_TO_0_9.contains(&rule.name) {
                true => Version::V0_9,
                false => rule.since,
            };
            assert!(rule.same >= known_since, "{}", rule.name);
        }
    }

    #[test]
    fn streamed_output_is_shared_with_every_version_that_has_chats() {
        for name in ["chat/delta", "chat/reasoning", "chat/usage"] {
            assert_eq!(rule_named(name).map(|rule| rule.same), Some(Version::V0_4), "{name}");
        }
    }

    #[test]
    fn a_row_is_found_by_name() {
        for rule in RULES {
            assert_eq!(rule_named(rule.name), Some(rule));
        }
        assert_eq!(rule_named("session/delta"), None);
    }
}
