//! What a turn has at hand before it begins: the role that it plays, the model that is asked, and
//! the tools that it keeps to.

use std::sync::{Arc, Mutex};

use innkeeper_host::{AgentError, EventSink, TurnInput};
use serde_json::Value;

use crate::model::agent::models::effort_named;
use crate::model::agent::sampling::SpentOnServers;
use crate::model::agent::state::Shared;
use crate::model::customizations::{Brought, Kept, Role};
use crate::model::toolbox::Toolbox;
use crate::model::toolbox::own_tools::OwnTool;
use crate::model::turn::{Choice, Run};
use crate::tools::Surroundings;

impl<'a> Run<'a> {
    /// Prepares a turn that a person started.
    pub(in crate::model) async fn new(
        shared: &'a Arc<Shared>,
        events: &'a EventSink,
        turn: &TurnInput,
    ) -> Result<Self, AgentError> {
        let (role, missing) = Role::of(turn).await?;
        let (key, is_clients_key) = shared.key_for(turn).await?;
        let model = tokio::select! {
            biased;
            () = events.cancelled() => return Err(AgentError::Cancelled),
            model = shared.model(turn.model.as_deref(), key.as_ref()) => model?,
        };
        let effort = turn.model_settings.get("effort").and_then(Value::as_str);
        let choice = Choice {
            effort: effort.and_then(effort_named),
            model,
            key,
            is_clients_key,
            client_tools: turn.client_tools.clone(),
            is_helper: false,
        };
        let called = turn.called.as_ref();
        let brought = Brought::new(turn.customizations.clone(), &turn.working_directories, role);
        brought.touch_attached(&turn.attachments);
        if let Some(called) = called {
            brought.let_read_of(called.directory.as_deref(), called.plugin_root.as_deref());
        }
        missing.into_iter().for_each(|missing| brought.tell(missing));
        // What a prompt says counts more than what the agent says that it runs in.
        let of_prompt = called.map(|called| (called.model.clone(), called.tools.clone()));
        let (model, tools) = of_prompt.unwrap_or_default();
        let role = brought.role.as_ref();
        let model = model.or_else(|| role.and_then(|role| role.model.clone()));
        let tools = match role {
            Some(role) if tools.is_empty() => role.tools.clone(),
            _ => tools,
        };
        Ok(Self::made(
            shared,
            events,
            &turn.working_directories,
            brought,
            choice,
            &OwnTool::ALL,
        )
        .asking(model.as_deref())
        .keeping_to([tools].to_vec()))
    }

    fn made(
        shared: &'a Arc<Shared>,
        events: &'a EventSink,
        directories: &[String],
        brought: Brought,
        choice: Choice,
        own: &[OwnTool],
    ) -> Self {
        let mut offered = OwnTool::in_session(&brought.given);
        offered.retain(|(_, tool)| own.contains(tool));
        Self {
            shared,
            events,
            toolbox: Toolbox::new(&shared.tools, offered, &events.mcp().tools(), &choice.client_tools),
            surroundings: Surroundings {
                working_directories: directories.to_vec(),
                readable: Vec::new(),
            },
            brought,
            keeps_to: Vec::new(),
            choice,
            step: Mutex::default(),
            spent_on_servers: SpentOnServers::default(),
        }
    }

    /// Has another model asked, if there is such a one here.
    fn asking(mut self, wanted: Option<&str>) -> Self {
        let Some(wanted) = wanted.filter(|wanted| !wanted.eq_ignore_ascii_case("inherit")) else {
            return self;
        };
        match self.shared.model_called(wanted) {
            Some(model) => self.choice.model = model,
            None => self.brought.tell(format!(
                "The model {wanted:?}, which was asked for, is not one of {}. It goes on with {}.",
                self.shared.display_name, self.choice.model.name
            )),
        }
        self
    }

    /// Keeps to lists of tools, all of them.
    fn keeping_to(mut self, lists: Vec<Vec<String>>) -> Self {
        for list in &lists {
            let Kept { unknown, narrowed, .. } = self.toolbox.keep_to(list);
            if !narrowed.is_empty() {
                self.brought.tell(format!(
                    "The list of tools allows only some uses of {}. That is not kept to here: the whole tool can be \
                     called, and the session's permissions decide. Take it off the list if that is too much.",
                    narrowed.join(", ")
                ));
            }
            if !unknown.is_empty() {
                self.brought.tell(format!(
                    "Some of the tools that were asked for are not known here: {}.",
                    unknown.join(", ")
                ));
            }
        }
        self.keeps_to = lists;
        self
    }

    /// The same for a helper: it has its own conversation, and nobody to ask.
    pub(in crate::model) fn helper<'b>(&'b self, events: &'b EventSink, role: Option<Role>) -> Run<'b> {
        let choice = Choice {
            is_helper: true,
            ..self.choice.clone()
        };
        let model = role.as_ref().and_then(|role| role.model.clone());
        // Whoever is sent may do no more than whoever sends.
        let mut lists = self.keeps_to.clone();
        lists.extend(role.as_ref().map(|role| role.tools.clone()));
        let directories = &self.surroundings.working_directories;
        let brought = Brought::new(self.brought.given.clone(), directories, role);
        for directory in self.brought.readable() {
            brought.let_read(&directory);
        }
        // No helpers of helpers: each level would multiply how many work at once, and nobody is
        // asked whether it should.
        let own = [OwnTool::Plan, OwnTool::Skill];
        Run::made(self.shared, events, directories, brought, choice, &own)
            .asking(model.as_deref())
            .keeping_to(lists)
    }
}
