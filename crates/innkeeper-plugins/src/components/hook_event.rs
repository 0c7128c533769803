//! The events of hooks under one name each, however a format spells them.

macro_rules! events {
    ($($(#[doc = $doc:literal])* $variant:ident => $name:literal $(| $spelling:literal)*,)*) => {
        /// When a hook runs.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum HookEvent {
            $($(#[doc = $doc])* $variant,)*
            /// An unknown event, as written. Its hooks never run.
            Unknown(String),
        }

        impl HookEvent {
            /// The name of the event in its usual spelling.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => stringify!($variant),)*
                    Self::Unknown(name) => name,
                }
            }

            /// Finds the event that a file means.
            pub(crate) fn from_spelling(spelling: &str) -> Self {
                let plain: String = spelling
                    .chars()
                    .filter(char::is_ascii_alphanumeric)
                    .map(|c| c.to_ascii_lowercase())
                    .collect();
                match plain.as_str() {
                    $($name $(| $spelling)* => Self::$variant,)*
                    _ => Self::Unknown(crate::read::text::printable(spelling, 64)),
                }
            }
        }
    };
}

events! {
    /// Before a tool runs; can deny it.
    PreToolUse => "pretooluse",
    /// After a tool ran.
    PostToolUse => "posttooluse",
    /// After a tool failed.
    PostToolUseFailure => "posttoolusefailure",
    /// Before a user is asked for permission.
    PermissionRequest => "permissionrequest",
    /// When a user sends a prompt; can refuse it.
    UserPromptSubmit => "userpromptsubmit" | "userpromptsubmitted" | "beforesubmitprompt",
    /// When a command in a prompt is expanded.
    UserPromptExpansion => "userpromptexpansion",
    /// When a session starts.
    SessionStart => "sessionstart",
    /// When a session ends.
    SessionEnd => "sessionend",
    /// When a turn ends; can continue the agent.
    Stop => "stop" | "agentstop",
    /// When a turn ends in failure.
    StopFailure => "stopfailure",
    /// When a sub-agent starts.
    SubagentStart => "subagentstart",
    /// When a sub-agent ends.
    SubagentStop => "subagentstop",
    /// Before the context is compacted.
    PreCompact => "precompact",
    /// After the context was compacted.
    PostCompact => "postcompact",
    /// When the agent wants attention.
    Notification => "notification",
    /// When something failed.
    ErrorOccurred => "erroroccurred",
    /// When a task is created.
    TaskCreated => "taskcreated",
    /// When a task is done.
    TaskCompleted => "taskcompleted",
    /// When a teammate has nothing to do.
    TeammateIdle => "teammateidle",
    /// When instructions were loaded.
    InstructionsLoaded => "instructionsloaded",
    /// When a configuration changed.
    ConfigChange => "configchange",
    /// When the working directory changed.
    CwdChanged => "cwdchanged",
    /// When a watched file changed.
    FileChanged => "filechanged",
    /// When a worktree is made.
    WorktreeCreate => "worktreecreate",
    /// When a worktree is removed.
    WorktreeRemove => "worktreeremove",
    /// When an MCP server asks for input.
    Elicitation => "elicitation",
    /// When that input was given.
    ElicitationResult => "elicitationresult",
    /// Before a file is read.
    BeforeReadFile => "beforereadfile",
    /// After a file was edited.
    AfterFileEdit => "afterfileedit",
    /// Before a shell command runs.
    BeforeShellExecution => "beforeshellexecution",
    /// After a shell command ran.
    AfterShellExecution => "aftershellexecution",
    /// Before a tool of an MCP server runs.
    BeforeMcpExecution => "beforemcpexecution",
    /// After a tool of an MCP server ran.
    AfterMcpExecution => "aftermcpexecution",
    /// After the agent answered.
    AfterAgentResponse => "afteragentresponse",
    /// After the agent thought.
    AfterAgentThought => "afteragentthought",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_event_are_one_event() {
        for spelling in ["PreToolUse", "preToolUse", "pre-tool-use", "pre_tool_use"] {
            assert_eq!(HookEvent::from_spelling(spelling), HookEvent::PreToolUse, "{spelling}");
        }
        assert_eq!(
            HookEvent::from_spelling("userPromptSubmitted"),
            HookEvent::UserPromptSubmit
        );
        assert_eq!(HookEvent::from_spelling("agentStop"), HookEvent::Stop);
        assert_eq!(HookEvent::from_spelling("Whatever").as_str(), "Whatever");
    }
}
