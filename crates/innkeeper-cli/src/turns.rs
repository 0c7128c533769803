//! `innkeeper cancel`, `queue`, `steer`, `resume` and `attach`: turns of a session that exists.

use ahp_types::actions::{ChatPendingMessageSetAction, ChatTurnCancelledAction, ChatTurnResumeAction, StateAction};
use ahp_types::commands::{SubscribeParams, SubscribeView};
use ahp_types::state::{
    ChatState, Message, MessageKind, MessageOrigin, PendingMessageKind, ResponsePart, SessionState,
};

use crate::args::{AttachArgs, CancelArgs, ConnectArgs, FollowArgs, MessageArgs, ResumeArgs, SessionArg};
use crate::connection::Connection;
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::follow::{FollowedChat, Follower, Way};
use crate::format;
use crate::pending::settle;
use crate::send::ready_chat;
use crate::sessions::find;
use crate::terminal::{Output, StopSignals, note, one_line};

/// Cancels the turn that runs.
pub(crate) async fn cancel(dir: &DataDir, args: CancelArgs) -> Result<(), Failure> {
    let mut connection = Connection::open(dir, &args.connect).await?;
    let (followed, chat) = open(&connection, &args.connect, &args.session, None).await?;
    let Some(active) = &chat.active_turn else {
        return Err(Failure::new(
            Kind::Rejected,
            format!("no turn runs in {}", one_line(&followed.state.title, 100)),
        ));
    };
    let started = active.started_at.parse::<jiff::Timestamp>();
    let elapsed = started.map(|started| jiff::Timestamp::now().duration_since(started).as_millis());
    let cancelled = StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
        turn_id: active.id.clone(),
        duration: elapsed
            .ok()
            .and_then(|elapsed| i64::try_from(elapsed).ok())
            .unwrap_or_default()
            .max(0),
        meta: None,
    });
    settle(&mut connection, &followed.chat, cancelled).await?;
    connection.close().await;
    note(&format!("Cancelled: {}", one_line(&active.message.text, 200)));
    Ok(())
}

/// Adds a message to the queue, or hands it to the turn that runs.
pub(crate) async fn add_message(dir: &DataDir, args: MessageArgs, kind: PendingMessageKind) -> Result<(), Failure> {
    let mut connection = Connection::open(dir, &args.connect).await?;
    let session = SessionArg { session: args.session };
    let (followed, chat) = open(&connection, &args.connect, &session, None).await?;
    let text = args.text.join(" ");
    let set = StateAction::ChatPendingMessageSet(ChatPendingMessageSetAction {
        kind,
        id: uuid::Uuid::new_v4().to_string(),
        message: Message {
            text,
            origin: MessageOrigin {
                kind: MessageKind::User,
            },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        },
    });
    settle(&mut connection, &followed.chat, set).await?;
    connection.close().await;
    let title = one_line(&followed.state.title, 100);
    note(&match (kind, chat.active_turn.is_some()) {
        (_, false) => format!("No turn ran in {title}: the message starts one."),
        (PendingMessageKind::Steering, true) => format!("The running turn of {title} gets the message."),
        (PendingMessageKind::Queued, true) => format!("The message follows the running turn of {title}."),
    });
    Ok(())
}

/// Resumes the latest turn, which failed, and shows it to its end.
pub(crate) async fn resume(dir: &DataDir, args: ResumeArgs) -> Result<(), Failure> {
    let connection = Connection::open(dir, &args.connect).await?;
    let (followed, chat) = open(&connection, &args.connect, &args.session, Some(1)).await?;
    let is_resumable = |part: &ResponsePart| matches!(part, ResponsePart::Error(part) if part.resumable == Some(true));
    let latest = chat
        .turns
        .last()
        .filter(|turn| turn.response_parts.iter().any(is_resumable));
    let Some(turn_id) = latest
        .map(|turn| turn.id.clone())
        .filter(|_| chat.active_turn.is_none())
    else {
        return Err(Failure::new(
            Kind::Rejected,
            format!("no turn of {} can be resumed", one_line(&followed.state.title, 100)),
        )
        .hint("only a latest turn that failed with a resumable error can be"));
    };
    let session = followed.session.clone();
    let mut signals = StopSignals::listen()?;
    let way = Way {
        dir,
        connect: &args.connect,
    };
    let mut follower = Follower::new(way, &args.follow, connection, followed);
    let action = StateAction::ChatTurnResume(ChatTurnResumeAction {
        turn_id: turn_id.clone(),
    });
    let ended = follower.run(&mut signals, &turn_id, action).await?;
    follower.close().await;
    ended.result(&args.connect, &session)
}

/// Shows the latest turns of a session, then everything that happens there, until Ctrl-C.
pub(crate) async fn attach(dir: &DataDir, args: AttachArgs) -> Result<(), Failure> {
    let connection = Connection::open(dir, &args.connect).await?;
    let (followed, chat) = open(&connection, &args.connect, &args.session, Some(args.turns)).await?;
    let mut output = Output::stdout();
    output.show(&format!("{}\n", one_line(&followed.state.title, 200)))?;
    let skipped = chat.turns.len().saturating_sub(args.turns);
    for turn in chat.turns.iter().skip(skipped) {
        output.show(&format!("\n{}", format::turn(&turn.message, &turn.response_parts)))?;
    }
    let mut signals = StopSignals::listen()?;
    let way = Way {
        dir,
        connect: &args.connect,
    };
    let follow = FollowArgs::default();
    let mut follower = Follower::new(way, &follow, connection, followed);
    follower.attend(&mut signals, chat.active_turn).await?;
    follower.close().await;
    note("[detached; the session goes on]");
    Ok(())
}

/// Subscribes to the session that the arguments select, and to its chat.
async fn open(
    connection: &Connection,
    connect: &ConnectArgs,
    wanted: &SessionArg,
    turns: Option<usize>,
) -> Result<(FollowedChat, ChatState), Failure> {
    let session = find(connection, connect, wanted).await?;
    let (state, _): (SessionState, i64) = connection.subscribe_to_state(&session).await?;
    let Some(uri) = ready_chat(&state)? else {
        return Err(Failure::new(Kind::Rejected, "the session is still starting").hint("try again in a moment"));
    };
    let mut params = SubscribeParams::new(uri.as_str());
    params.view = turns.map(|turns| SubscribeView {
        turns: i64::try_from(turns).ok(),
    });
    let (chat, _): (ChatState, i64) = connection.subscribe_to_state_with(params).await?;
    let followed = FollowedChat {
        session,
        state,
        chat: uri,
    };
    Ok((followed, chat))
}
