//! Agents' handles against a main loop that the test plays itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::agent::{BackgroundChange, Permission, ToolReply, ToolStep};
use innkeeper_core::{AgentEvent, ChannelId, ChatInfo, Input, OpenChat, Reply, TurnEnd, TurnInfo, TurnKey, TurnStart};
use tokio::sync::{Notify, mpsc};
use tokio_util::task::TaskTracker;

use super::*;
use crate::agent::runtime::driver::{Driver, DriverDeps, RecordedTurns, TurnHistory};
use crate::agent::runtime::event_queue::{LoopWaker, MissedWakes};
use crate::main_loop::Message;
use crate::services::customizations::{CustomizationsWatch, TurnCustomizations};
use crate::services::prompt_transform::TransformLimits;

const CHAT: ChannelId = ChannelId(1);
const SUBAGENT: ChannelId = ChannelId(2);
const TURN: TurnKey = TurnKey(1);
const SUBAGENT_TURN: TurnKey = TurnKey(2);

/// The main loop's side.
struct Loop {
    inbox: mpsc::Receiver<Message>,
    sender: mpsc::Sender<Message>,
    missed: MissedWakes,
    tasks: TaskTracker,
    taken: VecDeque<Input>,
    /// Where the running turn looks for replies.
    mailbox: Arc<std::sync::Mutex<Option<Arc<runtime::mailbox::Mailbox>>>>,
}

impl Loop {
    fn new(room: usize) -> Self {
        let (sender, inbox) = mpsc::channel(room);
        Self {
            inbox,
            sender,
            missed: MissedWakes::default(),
            tasks: TaskTracker::new(),
            taken: VecDeque::new(),
            mailbox: Arc::default(),
        }
    }

    fn driver_deps(&self) -> DriverDeps {
        DriverDeps {
            waker: LoopWaker::new(self.sender.clone(), Arc::clone(&self.missed)),
            open_time: Duration::from_secs(5),
            cancel_time: Duration::from_millis(100),
            tasks: self.tasks.clone(),
            history: TurnHistory::new(None, usize::MAX),
            transform: TransformLimits {
                time: Duration::from_secs(5),
                bytes: 1 << 20,
            },
            mcp_reads: crate::services::resources::client_files::ReadLimits {
                time: Duration::from_secs(5),
                bytes: 1 << 20,
            },
            client_reads: crate::services::resources::client_files::ReadLimits {
                time: Duration::from_secs(5),
                bytes: 1 << 20,
            },
            app_requests: crate::services::mcp::AppRequests::default(),
            trust: crate::services::mcp::TrustTimeouts {
                answer: Duration::from_secs(5),
                start: Duration::from_secs(5),
            },
            changes: RecordedTurns(Arc::new(crate::services::changes::NoChanges)),
        }
    }

    /// The next input, as the real loop would handle it.
    async fn next(&mut self) -> Input {
        loop {
            if let Some(input) = self.taken.pop_front() {
                self.let_begin(&input);
                return input;
            }
            let message = tokio::time::timeout(Duration::from_secs(5), self.inbox.recv()).await;
            let message = message.expect("something happens").expect("the inbox is open");
            let missed = std::mem::take(&mut *self.missed.lock());
            let mut queues: Vec<_> = missed.into_iter().collect();
            match message {
                Message::Core(input) => self.taken.push_back(input),
                Message::Events(queue) => queues.insert(0, queue),
                other => panic!("unexpected: {other:?}"),
            }
            for queue in queues {
                let mut taken = VecDeque::new();
                queue.take(&mut taken);
                self.taken.append(&mut taken);
            }
        }
    }

    /// Says that a call may begin, as the core does once it is kept that it runs.
    fn let_begin(&self, input: &Input) {
        let Input::Agent {
            event: AgentEvent::Tool { call, step },
            ..
        } = input
        else {
            return;
        };
        if matches!(&**step, ToolStep::Ready(ready) if ready.permission == Permission::NotNeeded)
            && let Some(mailbox) = &*self.mailbox.lock().expect("no panic")
        {
            let (call, reply) = (call.clone(), ToolReply::Started);
            mailbox.deliver(Reply::Tool { call, reply });
        }
    }

    /// The next event of an agent, past anything else.
    async fn event(&mut self) -> (ChannelId, AgentEvent) {
        loop {
            if let Input::Agent { chat, event, .. } = self.next().await {
                return (chat, event);
            }
        }
    }

    /// The next end of a run.
    async fn end(&mut self) -> (ChannelId, TurnEnd) {
        loop {
            if let Input::TurnEnded { chat, end, .. } = self.next().await {
                return (chat, end);
            }
        }
    }

    /// The next change of background work.
    async fn background(&mut self) -> BackgroundChange {
        loop {
            if let Input::Background { change, .. } = self.next().await {
                return change;
            }
        }
    }

    /// A driver with a scripted agent, and a running turn.
    fn start<F>(&self, script: impl Fn(EventSink) -> F + Send + Sync + 'static) -> Driver
    where
        F: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let mailbox = Arc::clone(&self.mailbox);
        let agent = Scripted(Arc::new(move |events: EventSink| {
            *mailbox.lock().expect("no panic") = Some(Arc::clone(&events.mailbox));
            Box::pin(script(events))
        }));
        let mut driver = Driver::start(
            Arc::new(agent),
            open(),
            self.driver_deps(),
            CustomizationsWatch::default(),
            None,
        );
        driver.run(TURN, Box::new(turn_start()), CustomizationsWatch::default(), None);
        driver
    }

    /// Waits for a spawn and answers it.
    async fn spawned(&mut self, driver: &Driver, detached: bool) -> Driver {
        loop {
            if let (_, AgentEvent::Spawn(spawn)) = self.event().await {
                assert_eq!(spawn.detached, detached);
                let subagent = innkeeper_core::Subagent {
                    parent: (CHAT, TURN),
                    call: spawn.call.clone(),
                    chat: SUBAGENT,
                    chat_uri: "ahp-chat:/subagent".into(),
                    turn: SUBAGENT_TURN,
                    detached,
                };
                let (subagent_driver, handle) = Driver::subagent(&subagent, Some(driver), self.driver_deps());
                driver.hand_over(TURN, &spawn.call, handle);
                return subagent_driver;
            }
        }
    }
}

type Script = Arc<dyn Fn(EventSink) -> futures_util::future::BoxFuture<'static, Result<(), AgentError>> + Send + Sync>;

#[derive(Clone)]
struct Scripted(Script);

#[async_trait]
impl Agent for Scripted {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("scripted", "Scripted", "Does what the test says.")
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl AgentChat for Scripted {
    async fn run_turn(&mut self, _: TurnInput, events: EventSink) -> Result<(), AgentError> {
        (self.0)(events).await
    }
}

fn open() -> OpenChat {
    OpenChat {
        chat: CHAT,
        session: ChannelId(1),
        provider: "scripted".to_owned(),
        info: ChatInfo {
            session: "ahp-session:/s".into(),
            chat: "ahp-chat:/c".into(),
            working_directories: Vec::new(),
            context: Vec::new(),
            selection: None,
            settings: serde_json::Map::new(),
            memory: None,
        },
        history: innkeeper_core::agent::PastTurns::default(),
        credentials: Vec::new(),
        wants_progress: false,
        disabled_ids: Arc::default(),
    }
}

fn turn_start() -> TurnStart {
    TurnStart {
        session: ChannelId(1),
        info: TurnInfo {
            turn_id: "t1".to_owned(),
            text: "go".to_owned(),
            attachments: Vec::new(),
            model: None,
            model_settings: serde_json::Map::new(),
            agent: None,
            resume: false,
            so_far: None,
            turns_before: 0,
            session: "ahp-session:/s".into(),
            session_title: "s".to_owned(),
            working_directories: Vec::new(),
            settings: serde_json::Map::new(),
            client_tools: Vec::new(),
        },
        unread_chats: Vec::new(),
        asked_by: None,
        calls_before: Vec::new(),
        credentials: Vec::new(),
        disabled_ids: Arc::default(),
        app_request: None,
    }
}

async fn running_call(events: &EventSink) -> Result<ToolCall, AgentError> {
    events.tool("subagent").start().await?.run("Starts a subagent").await
}

#[tokio::test]
async fn cht12_a_subagent_speaks_in_its_own_chat_and_ends_with_its_work() {
    let mut main = Loop::new(64);
    let driver = main.start(|events| async move {
        let mut call = running_call(&events).await?;
        let subagent = call.subagent(SubagentSpec::new("Subagent", "Help")).await?;
        assert_eq!(subagent.uri(), "ahp-chat:/subagent");
        subagent
            .drive(|events| async move { events.text("from below").await })
            .await?;
        call.complete(ToolResult::text("Helped", "done")).await
    });
    let _subagent = main.spawned(&driver, false).await;
    assert_eq!(
        main.event().await,
        (SUBAGENT, AgentEvent::Text("from below".to_owned()))
    );
    assert_eq!(main.end().await, (SUBAGENT, TurnEnd::Complete));
    assert_eq!(main.end().await, (CHAT, TurnEnd::Complete));
}

#[tokio::test]
async fn cht12_subagents_wait_for_their_own_replies() {
    let mut main = Loop::new(64);
    let driver = main.start(|events| async move {
        let mut call = running_call(&events).await?;
        let subagent = call.subagent(SubagentSpec::new("Subagent", "Help")).await?;
        subagent
            .drive(|events| async move {
                let draft = events.tool("shell").id("below").start().await?;
                let verdict = draft.confirm("Runs", Confirmation::default()).await?;
                assert!(matches!(verdict, Verdict::Denied(_)));
                Ok(())
            })
            .await
            .map(|_| ())
    });
    let subagent = main.spawned(&driver, false).await;
    loop {
        if let (SUBAGENT, AgentEvent::Tool { call, step }) = main.event().await
            && matches!(*step, ToolStep::Ready(_))
        {
            assert_eq!(call, "below");
            break;
        }
    }
    let decision = Decision::by_host(false);
    let reply = ToolReply::Decided(decision);
    let reply = Reply::Tool {
        call: "below".to_owned(),
        reply,
    };
    driver.reply(TURN, reply.clone()); // Not the parent's to have.
    subagent.reply(SUBAGENT_TURN, reply);
    assert_eq!(main.end().await, (SUBAGENT, TurnEnd::Complete));
}

#[tokio::test]
async fn cht13_a_subagent_that_is_refused_says_why() {
    let mut main = Loop::new(64);
    let driver = main.start(|events| async move {
        let mut call = running_call(&events).await?;
        let refused = call
            .subagent(SubagentSpec::new("Subagent", "Help"))
            .await
            .expect_err("refused");
        assert_eq!(refused, AgentError::failed("subagentRefused", "too deep"));
        call.complete(ToolResult::failed("Not helped", refused.to_string()))
            .await
    });
    let call = loop {
        if let (_, AgentEvent::Spawn(spawn)) = main.event().await {
            break spawn.call;
        }
    };
    let reason = "too deep".to_owned();
    driver.reply(TURN, Reply::NotSpawned { call, reason });
    assert_eq!(main.end().await, (CHAT, TurnEnd::Complete));
}

#[tokio::test]
async fn cht12_a_subagent_that_is_dropped_or_comes_too_late_ends_as_cancelled() {
    // Dropped by its agent.
    let mut main = Loop::new(64);
    let driver = main.start(|events| async move {
        let mut call = running_call(&events).await?;
        drop(call.subagent(SubagentSpec::new("Subagent", "Help")).await?);
        call.complete(ToolResult::text("Let go", "done")).await
    });
    let _subagent = main.spawned(&driver, false).await;
    assert_eq!(main.end().await, (SUBAGENT, TurnEnd::Cancelled));

    // Given up while it was asked for: the next one gets its own subagent, not this one.
    let mut main = Loop::new(64);
    let driver = main.start(|events| async move {
        let mut call = running_call(&events).await?;
        let asking = call.subagent(SubagentSpec::new("First", "Help"));
        assert!(tokio::time::timeout(Duration::from_millis(20), asking).await.is_err());
        let second = call.subagent(SubagentSpec::new("Second", "Help")).await?;
        second.finish(Ok(()));
        Ok(())
    });
    let is_ready =
        |event: &AgentEvent| matches!(event, AgentEvent::Tool { step, .. } if matches!(**step, ToolStep::Ready(_)));
    while !is_ready(&main.event().await.1) {}
    tokio::time::sleep(Duration::from_millis(50)).await;
    let _first = main.spawned(&driver, false).await;
    let _second = main.spawned(&driver, false).await;
    assert_eq!(main.end().await, (SUBAGENT, TurnEnd::Cancelled), "the first");
    assert_eq!(main.end().await, (SUBAGENT, TurnEnd::Complete), "the second");
}

#[tokio::test]
async fn cht12_a_subagent_that_panics_fails_alone() {
    let mut main = Loop::new(64);
    let driver = main.start(|events| async move {
        let mut call = running_call(&events).await?;
        let subagent = call.subagent(SubagentSpec::new("Subagent", "Help")).await?;
        let outcome = subagent
            .drive(|events| async move {
                events.text("so far so good").await?;
                panic!("asked for by the test")
            })
            .await;
        assert!(matches!(&outcome, Err(AgentError::Failed { kind, .. }) if kind == "agentDied"));
        call.complete(ToolResult::failed("Not helped", "it died")).await
    });
    let _subagent = main.spawned(&driver, false).await;
    assert!(matches!(main.end().await, (SUBAGENT, TurnEnd::Failed { .. })));
    assert_eq!(main.end().await, (CHAT, TurnEnd::Complete));
}

#[tokio::test]
async fn pend04_words_that_come_just_before_a_cancel_are_heard() {
    let mut main = Loop::new(64);
    let (tell, mut heard) = mpsc::unbounded_channel();
    let mut driver = main.start(move |events| {
        let tell = tell.clone();
        async move {
            let words = events.steering().await?;
            let _ = tell.send(words);
            Ok(())
        }
    });
    assert_eq!(main.event().await.1, AgentEvent::TakeSteering);
    driver.reply(TURN, Reply::Steering(Some("to the left".to_owned())));
    driver.cancel(TURN);
    main.end().await;
    assert_eq!(heard.recv().await.flatten().as_deref(), Some("to the left"));
}

/// (CHT-24)
#[tokio::test]
async fn cht25_a_subagent_is_cancelled_with_its_parent_unless_it_is_detached() {
    for detached in [false, true] {
        let mut main = Loop::new(64);
        let may_end = Arc::new(Notify::new());
        let go = Arc::clone(&may_end);
        let mut driver = main.start(move |events| {
            let go = Arc::clone(&go);
            async move {
                let mut call = running_call(&events).await?;
                let spec = SubagentSpec::new("Subagent", "Help");
                let spec = if detached { spec.detached() } else { spec };
                let subagent = call.subagent(spec).await?;
                subagent.drive_apart(move |events| async move {
                    events.text("at work").await?;
                    tokio::select! {
                        () = go.notified() => Ok(()),
                        () = events.cancelled() => Err(AgentError::Cancelled),
                    }
                });
                std::future::pending().await
            }
        });
        let _subagent = main.spawned(&driver, detached).await;
        assert_eq!(main.event().await.1, AgentEvent::Text("at work".to_owned()));
        driver.cancel(TURN);
        if detached {
            may_end.notify_one();
        }
        let (chat, end) = loop {
            let (chat, end) = main.end().await;
            if chat == SUBAGENT {
                break (chat, end);
            }
        };
        let expected = if detached {
            TurnEnd::Complete
        } else {
            TurnEnd::Cancelled
        };
        assert_eq!((chat, end), (SUBAGENT, expected), "detached: {detached}");
    }
}

#[tokio::test]
async fn cht24_background_work_outlives_its_turn_and_driver_until_it_is_dropped() {
    let mut main = Loop::new(64);
    let kept = Arc::new(std::sync::Mutex::new(None));
    let keep = Arc::clone(&kept);
    let driver = main.start(move |events| {
        let keep = Arc::clone(&keep);
        async move {
            let mut background = events.background("Server", "serve").await?;
            background.relabel("Server, ready").await?;
            *keep.lock().expect("no panic") = Some(background);
            Ok(())
        }
    });
    let BackgroundChange::Set { id, label, .. } = main.background().await else {
        panic!("it is shown first");
    };
    assert_eq!(label, "Server");
    assert!(matches!(main.background().await, BackgroundChange::Set { label, .. } if label == "Server, ready"));
    assert_eq!(main.end().await, (CHAT, TurnEnd::Complete));
    drop(driver);
    let mut background: Background = kept.lock().expect("no panic").take().expect("kept");
    background.closed().await;
    assert_eq!(background.relabel("too late").await, Err(AgentError::Cancelled));
    drop(background);
    assert_eq!(main.background().await, BackgroundChange::Remove { id });
}

#[tokio::test]
async fn cht24_background_work_ends_with_its_future() {
    let mut main = Loop::new(64);
    let _driver = main.start(|events| async move {
        let background = events.background("Nap", "sleep").await?;
        background.during(tokio::time::sleep(Duration::from_millis(30)));
        Ok(())
    });
    assert!(matches!(main.background().await, BackgroundChange::Set { .. }));
    assert!(matches!(main.background().await, BackgroundChange::Remove { .. }));
}

#[tokio::test]
async fn an_event_of_a_dropped_call_is_delivered_after_a_full_inbox() {
    let mut main = Loop::new(1);
    let ready = Arc::new(Notify::new());
    let told = Arc::clone(&ready);
    let may_drop = Arc::new(Notify::new());
    let go = Arc::clone(&may_drop);
    let _driver = main.start(move |events| {
        let (told, go) = (Arc::clone(&told), Arc::clone(&go));
        async move {
            let draft = events.tool("shell").id("dropped").start().await?;
            told.notify_one();
            go.notified().await;
            drop(draft);
            std::future::pending().await
        }
    });
    // The chat is open and the call has started.
    assert!(matches!(main.event().await, (CHAT, AgentEvent::Tool { .. })));
    ready.notified().await;
    main.sender.try_send(Message::Core(Input::Tick)).expect("room for one");
    may_drop.notify_one();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let (_, event) = main.event().await;
    let AgentEvent::Tool { call, step } = event else {
        panic!("{event:?}");
    };
    assert_eq!(call, "dropped");
    assert!(matches!(*step, ToolStep::Done { result, .. } if !result.success));
}

#[tokio::test]
async fn trc05_a_new_driver_opens_after_the_old_one_has_let_go() {
    struct DropRecorder(Arc<std::sync::Mutex<Vec<&'static str>>>);
    impl Drop for DropRecorder {
        fn drop(&mut self) {
            self.0.lock().expect("no panic").push("let go");
        }
    }
    struct Recorder(Arc<std::sync::Mutex<Vec<&'static str>>>);
    #[async_trait]
    impl Agent for Recorder {
        fn info(&self) -> AgentInfo {
            AgentInfo::new("recorder", "Recorder", "Notes what happens.")
        }
        async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
            self.0.lock().expect("no panic").push("open");
            Ok(Box::new(DropRecorder(Arc::clone(&self.0))))
        }
    }
    #[async_trait]
    impl AgentChat for DropRecorder {
        async fn run_turn(&mut self, _: TurnInput, events: EventSink) -> Result<(), AgentError> {
            events.text("running").await?;
            std::future::pending().await
        }
    }
    let mut main = Loop::new(64);
    let notes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let agent: Arc<dyn Agent> = Arc::new(Recorder(Arc::clone(&notes)));
    let mut old = Driver::start(
        Arc::clone(&agent),
        open(),
        main.driver_deps(),
        CustomizationsWatch::default(),
        None,
    );
    old.run(TURN, Box::new(turn_start()), CustomizationsWatch::default(), None);
    main.event().await;
    let previous = old.close();
    let mut new = Driver::start(
        agent,
        open(),
        main.driver_deps(),
        CustomizationsWatch::default(),
        previous,
    );
    new.run(
        SUBAGENT_TURN,
        Box::new(turn_start()),
        CustomizationsWatch::default(),
        None,
    );
    assert_eq!(main.event().await, (CHAT, AgentEvent::Text("running".to_owned())));
    assert_eq!(*notes.lock().expect("no panic"), ["open", "let go", "open"]);
}

/// A turn whose session is never said to bring anything along: it says that it waits, and fails in the end.
#[tokio::test(start_paused = true)]
async fn a_turn_does_not_run_while_its_rules_and_hooks_are_not_known() {
    let mut main = Loop::new(64);
    let (_reports, found) = tokio::sync::watch::channel(None);
    let unknown = CustomizationsWatch::new(found, Arc::default());
    let agent = Scripted(Arc::new(|_| panic!("it must not run without what guards it")));
    let mut driver = Driver::start(
        Arc::new(agent),
        open(),
        main.driver_deps(),
        CustomizationsWatch::default(),
        None,
    );
    driver.run(TURN, Box::new(turn_start()), unknown, None);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let (_, event) = main.event().await;
    assert!(
        matches!(&event, AgentEvent::Notice(text) if text.contains("waits")),
        "{event:?}"
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (_, end) = main.end().await;
    let TurnEnd::Failed { failure, .. } = &end else {
        panic!("{end:?}")
    };
    assert_eq!(failure.kind, "customizationsUnknown");
    assert!(failure.message.contains("Send the message again"), "{failure:?}");
}

/// A turn that waits for the customizations of its session begins with them, or is cancelled at once.
#[tokio::test(start_paused = true)]
async fn a_waiting_turn_starts_when_ready_and_ends_when_cancelled() {
    let mut main = Loop::new(64);
    let (reports, found) = tokio::sync::watch::channel(None);
    let unknown = || CustomizationsWatch::new(found.clone(), Arc::default());
    let agent = Scripted(Arc::new(|events: EventSink| {
        assert!(events.customizations().is_known());
        Box::pin(async move { events.text("ran").await })
    }));
    let mut driver = Driver::start(
        Arc::new(agent),
        open(),
        main.driver_deps(),
        CustomizationsWatch::default(),
        None,
    );
    driver.run(TURN, Box::new(turn_start()), unknown(), None);
    driver.cancel(TURN);
    assert_eq!(main.end().await, (CHAT, TurnEnd::Cancelled));
    driver.run(SUBAGENT_TURN, Box::new(turn_start()), unknown(), None);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let nothing = TurnCustomizations::new(Arc::default(), Arc::default());
    reports.send_replace(Some(nothing));
    assert!(matches!(main.event().await, (_, AgentEvent::Notice(_))));
    assert_eq!(main.event().await, (CHAT, AgentEvent::Text("ran".to_owned())));
    assert_eq!(main.end().await, (CHAT, TurnEnd::Complete));
}

/// (AUTH-12)
#[tokio::test]
async fn tool15_the_next_step_after_a_sign_in_reports_its_success() {
    let mut main = Loop::new(64);
    let requirement = || AuthRequirement {
        resource: "https://r.example".to_owned(),
        ..AuthRequirement::default()
    };
    let driver = main.start(move |events| async move {
        let plain = running_call(&events).await?;
        let refused = plain.require_auth(requirement()).await.expect_err("not an MCP call");
        assert!(matches!(refused, AgentError::Failed { kind, .. } if kind == "notMcp"));
        let call = events.tool("remote").id("remote").mcp("server").start().await?;
        let call = call.run("Runs").await?;
        let SignIn::Granted(call, token) = call.require_auth(requirement()).await? else {
            panic!("a token was given");
        };
        assert_eq!(token.reveal(), "t0ken");
        assert!(!format!("{token:?}").contains("t0ken"));
        call.complete(ToolResult::text("Ran", "ok")).await?;
        let call = events.tool("remote").id("again").mcp("server").start().await?;
        let call = call.run("Runs").await?;
        assert!(matches!(call.require_auth(requirement()).await?, SignIn::Refused));
        Ok(())
    });
    let mut steps = Vec::new();
    let ended = loop {
        match main.next().await {
            Input::Agent {
                event: AgentEvent::Tool { call, step },
                ..
            } => {
                let reply = match (call.as_str(), &*step) {
                    ("remote", ToolStep::AuthRequired(_)) => Some(ToolReply::Authenticated {
                        token: Secret::new("t0ken"),
                    }),
                    ("again", ToolStep::AuthRequired(_)) => Some(ToolReply::AuthRefused),
                    _ => None,
                };
                if let Some(reply) = reply {
                    let call = call.clone();
                    driver.reply(TURN, Reply::Tool { call, reply });
                }
                steps.push((call, *step));
            }
            Input::TurnEnded { end, .. } => break end,
            _ => {}
        }
    };
    assert_eq!(ended, TurnEnd::Complete);
    let of = |id: &str| -> Vec<&ToolStep> {
        let steps = steps.iter().filter(|(call, _)| call == id);
        steps.map(|(_, step)| step).collect()
    };
    let [
        _,
        _,
        ToolStep::AuthRequired(_),
        ToolStep::AuthResolved,
        ToolStep::Done { .. },
    ] = of("remote")[..]
    else {
        panic!("{steps:?}");
    };
    let [_, _, ToolStep::AuthRequired(_)] = of("again")[..] else {
        panic!("a refused call is over: {steps:?}");
    };
}
