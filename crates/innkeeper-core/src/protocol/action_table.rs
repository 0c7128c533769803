//! The one table of all state actions: where each belongs, who may send it, since which
//! protocol version it exists, and how soon it must be on disk.
//!
//! The published crate has no such table, so this is the host's own. It is exhaustive: an
//! action added upstream does not compile here until it has a row.

use ahp_types::actions::*;

use crate::clients::access::Scope;
use crate::protocol::dialect::ProtocolVersion;

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

/// Durability class of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// On disk before any client sees it.
    Durable,
    /// Streamed output: written behind, in groups.
    Stream,
    /// Never persisted: it is an event, and part of no state.
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
    /// The version that introduced it.
    pub since: ProtocolVersion,
    /// Its durability class.
    pub durability: Durability,
}

macro_rules! action_table {
    ($($variant:ident($payload:ident) = $name:literal, $kind:ident, $dispatcher:ident, $scope:ident, $since:ident, $durability:ident;)+) => {
        /// All rows, in the order of the table.
        pub const RULES: &[ActionRule] = &[$(ActionRule {
            name: $name,
            kind: ChannelKind::$kind,
            dispatcher: Dispatcher::$dispatcher,
            scope: Scope::$scope,
            since: ProtocolVersion::$since,
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
    RootAgentsChanged(RootAgentsChangedAction) = "root/agentsChanged", Root, HostOnly, Drive, V0_9, Durable;
    RootActiveSessionsChanged(RootActiveSessionsChangedAction) = "root/activeSessionsChanged", Root, HostOnly, Drive, V0_9, Durable;
    RootConfigChanged(RootConfigChangedAction) = "root/configChanged", Root, AnyClient, Admin, V0_9, Durable;
    RootTerminalsChanged(RootTerminalsChangedAction) = "root/terminalsChanged", Root, HostOnly, Drive, V0_9, Durable;

    SessionReady(SessionReadyAction) = "session/ready", Session, HostOnly, Drive, V0_9, Durable;
    SessionCreationFailed(SessionCreationFailedAction) = "session/creationFailed", Session, HostOnly, Drive, V0_9, Durable;
    SessionChatAdded(SessionChatAddedAction) = "session/chatAdded", Session, HostOnly, Drive, V0_9, Durable;
    SessionChatRemoved(SessionChatRemovedAction) = "session/chatRemoved", Session, HostOnly, Drive, V0_9, Durable;
    SessionChatUpdated(SessionChatUpdatedAction) = "session/chatUpdated", Session, HostOnly, Drive, V0_9, Durable;
    SessionChatsReordered(SessionChatsReorderedAction) = "session/chatsReordered", Session, HostOnly, Drive, V0_9, Durable;
    SessionDefaultChatChanged(SessionDefaultChatChangedAction) = "session/defaultChatChanged", Session, HostOnly, Drive, V0_9, Durable;
    SessionTitleChanged(SessionTitleChangedAction) = "session/titleChanged", Session, AnyClient, Drive, V0_9, Durable;
    SessionIsReadChanged(SessionIsReadChangedAction) = "session/isReadChanged", Session, AnyClient, Drive, V0_9, Durable;
    SessionIsArchivedChanged(SessionIsArchivedChangedAction) = "session/isArchivedChanged", Session, AnyClient, Drive, V0_9, Durable;
    SessionActivityChanged(SessionActivityChangedAction) = "session/activityChanged", Session, HostOnly, Drive, V0_9, Stream;
    SessionChangesetsChanged(SessionChangesetsChangedAction) = "session/changesetsChanged", Session, HostOnly, Drive, V0_9, Durable;
    SessionServerToolsChanged(SessionServerToolsChangedAction) = "session/serverToolsChanged", Session, HostOnly, Drive, V0_9, Durable;
    SessionActiveClientSet(SessionActiveClientSetAction) = "session/activeClientSet", Session, OwnClientId, Drive, V0_9, Durable;
    SessionActiveClientRemoved(SessionActiveClientRemovedAction) = "session/activeClientRemoved", Session, OwnClientId, Drive, V0_9, Durable;
    SessionWorkingDirectorySet(SessionWorkingDirectorySetAction) = "session/workingDirectorySet", Session, Capability, Admin, V0_9, Durable;
    SessionWorkingDirectoryRemoved(SessionWorkingDirectoryRemovedAction) = "session/workingDirectoryRemoved", Session, Capability, Drive, V0_9, Durable;
    SessionWorkingDirectoryReplaced(SessionWorkingDirectoryReplacedAction) = "session/workingDirectoryReplaced", Session, Capability, Admin, V0_9, Durable;
    SessionInputNeededSet(SessionInputNeededSetAction) = "session/inputNeededSet", Session, HostOnly, Drive, V0_9, Durable;
    SessionInputNeededRemoved(SessionInputNeededRemovedAction) = "session/inputNeededRemoved", Session, HostOnly, Drive, V0_9, Durable;
    SessionCustomizationsChanged(SessionCustomizationsChangedAction) = "session/customizationsChanged", Session, HostOnly, Drive, V0_9, Durable;
    SessionCustomizationToggled(SessionCustomizationToggledAction) = "session/customizationToggled", Session, AnyClient, Drive, V0_9, Durable;
    SessionCustomizationUpdated(SessionCustomizationUpdatedAction) = "session/customizationUpdated", Session, HostOnly, Drive, V0_9, Durable;
    SessionCustomizationRemoved(SessionCustomizationRemovedAction) = "session/customizationRemoved", Session, HostOnly, Drive, V0_9, Durable;
    SessionMcpServerStateChanged(SessionMcpServerStateChangedAction) = "session/mcpServerStateChanged", Session, HostOnly, Drive, V0_9, Durable;
    SessionMcpServerStartRequested(SessionMcpServerStartRequestedAction) = "session/mcpServerStartRequested", Session, AnyClient, Drive, V0_9, Durable;
    SessionMcpServerStopRequested(SessionMcpServerStopRequestedAction) = "session/mcpServerStopRequested", Session, AnyClient, Drive, V0_9, Durable;
    SessionMcpServerBackgroundRequested(SessionMcpServerBackgroundRequestedAction) = "session/mcpServerBackgroundRequested", Session, AnyClient, Drive, V0_9, Durable;
    SessionConfigChanged(SessionConfigChangedAction) = "session/configChanged", Session, AnyClient, Drive, V0_9, Durable;
    SessionMetaChanged(SessionMetaChangedAction) = "session/metaChanged", Session, HostOnly, Drive, V0_9, Durable;

    ChatTurnStarted(ChatTurnStartedAction) = "chat/turnStarted", Chat, AnyClient, Drive, V0_9, Durable;
    ChatDelta(ChatDeltaAction) = "chat/delta", Chat, HostOnly, Drive, V0_9, Stream;
    ChatResponsePart(ChatResponsePartAction) = "chat/responsePart", Chat, HostOnly, Drive, V0_9, Durable;
    ChatToolCallStart(ChatToolCallStartAction) = "chat/toolCallStart", Chat, HostOnly, Drive, V0_9, Durable;
    ChatToolCallDelta(ChatToolCallDeltaAction) = "chat/toolCallDelta", Chat, HostOnly, Drive, V0_9, Stream;
    ChatToolCallReady(ChatToolCallReadyAction) = "chat/toolCallReady", Chat, HostOnly, Drive, V0_9, Durable;
    ChatToolCallConfirmed(ChatToolCallConfirmedAction) = "chat/toolCallConfirmed", Chat, AnyClient, Drive, V0_9, Durable;
    ChatToolCallComplete(ChatToolCallCompleteAction) = "chat/toolCallComplete", Chat, CallOwner, Drive, V0_9, Durable;
    ChatToolCallResultConfirmed(ChatToolCallResultConfirmedAction) = "chat/toolCallResultConfirmed", Chat, AnyClient, Drive, V0_9, Durable;
    ChatToolCallContentChanged(ChatToolCallContentChangedAction) = "chat/toolCallContentChanged", Chat, CallOwner, Drive, V0_9, Stream;
    ChatToolCallAuthRequired(ChatToolCallAuthRequiredAction) = "chat/toolCallAuthRequired", Chat, HostOnly, Drive, V0_9, Durable;
    ChatToolCallAuthResolved(ChatToolCallAuthResolvedAction) = "chat/toolCallAuthResolved", Chat, HostOnly, Drive, V0_9, Durable;
    ChatTurnComplete(ChatTurnCompleteAction) = "chat/turnComplete", Chat, HostOnly, Drive, V0_9, Durable;
    ChatTurnCancelled(ChatTurnCancelledAction) = "chat/turnCancelled", Chat, AnyClient, Drive, V0_9, Durable;
    ChatError(ChatErrorAction) = "chat/error", Chat, HostOnly, Drive, V0_9, Durable;
    ChatTurnResume(ChatTurnResumeAction) = "chat/turnResume", Chat, AnyClient, Drive, V0_9, Durable;
    ChatActivityChanged(ChatActivityChangedAction) = "chat/activityChanged", Chat, HostOnly, Drive, V0_9, Stream;
    ChatBackgroundWorkSet(ChatBackgroundWorkSetAction) = "chat/backgroundWorkSet", Chat, HostOnly, Drive, V0_9, Durable;
    ChatBackgroundWorkRemoved(ChatBackgroundWorkRemovedAction) = "chat/backgroundWorkRemoved", Chat, HostOnly, Drive, V0_9, Durable;
    ChatMovableChanged(ChatMovableChangedAction) = "chat/movableChanged", Chat, HostOnly, Drive, V0_9, Durable;
    ChatChangesetsChanged(ChatChangesetsChangedAction) = "chat/changesetsChanged", Chat, HostOnly, Drive, V0_9, Durable;
    ChatCanvasesChanged(ChatCanvasesChangedAction) = "chat/canvasesChanged", Chat, HostOnly, Drive, V1_0, Durable;
    ChatUsage(ChatUsageAction) = "chat/usage", Chat, HostOnly, Drive, V0_9, Stream;
    ChatReasoning(ChatReasoningAction) = "chat/reasoning", Chat, HostOnly, Drive, V0_9, Stream;
    ChatWorkingDirectorySet(ChatWorkingDirectorySetAction) = "chat/workingDirectorySet", Chat, Capability, Drive, V0_9, Durable;
    ChatWorkingDirectoryRemoved(ChatWorkingDirectoryRemovedAction) = "chat/workingDirectoryRemoved", Chat, Capability, Drive, V0_9, Durable;
    ChatPendingMessageSet(ChatPendingMessageSetAction) = "chat/pendingMessageSet", Chat, AnyClient, Drive, V0_9, Durable;
    ChatPendingMessageRemoved(ChatPendingMessageRemovedAction) = "chat/pendingMessageRemoved", Chat, AnyClient, Drive, V0_9, Durable;
    ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction) = "chat/queuedMessagesReordered", Chat, AnyClient, Drive, V0_9, Durable;
    ChatDraftChanged(ChatDraftChangedAction) = "chat/draftChanged", Chat, AnyClient, Drive, V0_9, Stream;
    ChatIsReadChanged(ChatIsReadChangedAction) = "chat/isReadChanged", Chat, AnyClient, Drive, V0_9, Durable;
    ChatIsArchivedChanged(ChatIsArchivedChangedAction) = "chat/isArchivedChanged", Chat, AnyClient, Drive, V0_9, Durable;
    ChatInputRequested(ChatInputRequestedAction) = "chat/inputRequested", Chat, HostOnly, Drive, V0_9, Durable;
    ChatInputAnswerChanged(ChatInputAnswerChangedAction) = "chat/inputAnswerChanged", Chat, AnyClient, Drive, V0_9, Durable;
    ChatInputCompleted(ChatInputCompletedAction) = "chat/inputCompleted", Chat, AnyClient, Drive, V0_9, Durable;
    ChatTruncated(ChatTruncatedAction) = "chat/truncated", Chat, AnyClient, Drive, V0_9, Durable;
    ChatTurnsLoaded(ChatTurnsLoadedAction) = "chat/turnsLoaded", Chat, HostOnly, Drive, V0_9, Durable;

    CanvasStateChanged(CanvasStateChangedAction) = "canvas/stateChanged", Canvas, HostOnly, Drive, V1_0, Durable;

    ChangesetStatusChanged(ChangesetStatusChangedAction) = "changeset/statusChanged", Changeset, HostOnly, Drive, V0_9, Durable;
    ChangesetFileSet(ChangesetFileSetAction) = "changeset/fileSet", Changeset, HostOnly, Drive, V0_9, Durable;
    ChangesetFileRemoved(ChangesetFileRemovedAction) = "changeset/fileRemoved", Changeset, HostOnly, Drive, V0_9, Durable;
    ChangesetFilesReviewChanged(ChangesetFilesReviewChangedAction) = "changeset/filesReviewChanged", Changeset, AnyClient, Drive, V0_9, Durable;
    ChangesetContentChanged(ChangesetContentChangedAction) = "changeset/contentChanged", Changeset, HostOnly, Drive, V0_9, Durable;
    ChangesetOperationsChanged(ChangesetOperationsChangedAction) = "changeset/operationsChanged", Changeset, HostOnly, Drive, V0_9, Durable;
    ChangesetOperationStatusChanged(ChangesetOperationStatusChangedAction) = "changeset/operationStatusChanged", Changeset, HostOnly, Drive, V0_9, Durable;
    ChangesetCleared(ChangesetClearedAction) = "changeset/cleared", Changeset, HostOnly, Drive, V0_9, Durable;

    AnnotationsSet(AnnotationsSetAction) = "annotations/set", Annotations, AnyClient, Drive, V0_9, Durable;
    AnnotationsUpdated(AnnotationsUpdatedAction) = "annotations/updated", Annotations, AnyClient, Drive, V0_9, Durable;
    AnnotationsRemoved(AnnotationsRemovedAction) = "annotations/removed", Annotations, AnyClient, Drive, V0_9, Durable;
    AnnotationsEntrySet(AnnotationsEntrySetAction) = "annotations/entrySet", Annotations, AnyClient, Drive, V0_9, Durable;
    AnnotationsEntryRemoved(AnnotationsEntryRemovedAction) = "annotations/entryRemoved", Annotations, AnyClient, Drive, V0_9, Durable;

    TerminalData(TerminalDataAction) = "terminal/data", Terminal, HostOnly, Drive, V0_9, Stream;
    TerminalInput(TerminalInputAction) = "terminal/input", Terminal, AnyClient, Drive, V0_9, Stream;
    TerminalResized(TerminalResizedAction) = "terminal/resized", Terminal, AnyClient, Drive, V0_9, Stream;
    TerminalClaimed(TerminalClaimedAction) = "terminal/claimed", Terminal, ClaimHolder, Drive, V0_9, Durable;
    TerminalTitleChanged(TerminalTitleChangedAction) = "terminal/titleChanged", Terminal, AnyClient, Drive, V0_9, Durable;
    TerminalCwdChanged(TerminalCwdChangedAction) = "terminal/cwdChanged", Terminal, HostOnly, Drive, V0_9, Durable;
    TerminalExited(TerminalExitedAction) = "terminal/exited", Terminal, HostOnly, Drive, V0_9, Durable;
    TerminalCleared(TerminalClearedAction) = "terminal/cleared", Terminal, AnyClient, Drive, V0_9, Durable;
    TerminalCommandDetectionAvailable(TerminalCommandDetectionAvailableAction) = "terminal/commandDetectionAvailable", Terminal, HostOnly, Drive, V0_9, Durable;
    TerminalCommandExecuted(TerminalCommandExecutedAction) = "terminal/commandExecuted", Terminal, HostOnly, Drive, V0_9, Durable;
    TerminalCommandFinished(TerminalCommandFinishedAction) = "terminal/commandFinished", Terminal, HostOnly, Drive, V0_9, Durable;

    ResourceWatchChanged(ResourceWatchChangedAction) = "resourceWatch/changed", ResourceWatch, WatchOwner, Drive, V0_9, Fleeting;

    AutomationCreateRequested(AutomationCreateRequestedAction) = "automation/createRequested", Automations, Capability, Admin, V0_9, Durable;
    AutomationUpdateRequested(AutomationUpdateRequestedAction) = "automation/updateRequested", Automations, Capability, Admin, V0_9, Durable;
    AutomationSet(AutomationSetAction) = "automation/set", Automations, HostOnly, Drive, V0_9, Durable;
    AutomationRemoved(AutomationRemovedAction) = "automation/removed", Automations, Capability, Admin, V0_9, Durable;

    AutomationRunLifecycleChanged(AutomationRunLifecycleChangedAction) = "automationRun/lifecycleChanged", AutomationRun, HostOnly, Drive, V0_9, Durable;
    AutomationRunSessionSet(AutomationRunSessionSetAction) = "automationRun/sessionSet", AutomationRun, HostOnly, Drive, V0_9, Durable;
    AutomationRunSessionRemoved(AutomationRunSessionRemovedAction) = "automationRun/sessionRemoved", AutomationRun, HostOnly, Drive, V0_9, Durable;
    AutomationRunPrimarySessionChanged(AutomationRunPrimarySessionChangedAction) = "automationRun/primarySessionChanged", AutomationRun, HostOnly, Drive, V0_9, Durable;
    AutomationRunCancelRequested(AutomationRunCancelRequestedAction) = "automationRun/cancelRequested", AutomationRun, Capability, Admin, V0_9, Durable;
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
            let expected = match rule.name.split('/').next().expect("a prefix") {
                "root" => ChannelKind::Root,
                "session" => ChannelKind::Session,
                "chat" => ChannelKind::Chat,
                "canvas" => ChannelKind::Canvas,
                "changeset" => ChannelKind::Changeset,
                "annotations" => ChannelKind::Annotations,
                "terminal" => ChannelKind::Terminal,
                "resourceWatch" => ChannelKind::ResourceWatch,
                "automation" => ChannelKind::Automations,
                "automationRun" => ChannelKind::AutomationRun,
                other => panic!("unexpected prefix {other}"),
            };
            assert_eq!(rule.kind, expected, "{}", rule.name);
        }
    }

    #[test]
    fn neg08_only_canvas_actions_are_withheld_from_0_9() {
        let newer: Vec<_> = RULES
            .iter()
            .filter(|rule| rule.since == ProtocolVersion::V1_0)
            .map(|rule| rule.name)
            .collect();
        assert_eq!(newer, ["chat/canvasesChanged", "canvas/stateChanged"]);
    }
}
