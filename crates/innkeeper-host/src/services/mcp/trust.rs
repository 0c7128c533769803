//! Asks users in a turn whether the MCP servers of a workspace or of a client's plugin may run (P12).
//!
//! A server that waits for a decision is reported as `notTrusted`. The next turn of its session asks, with one question
//! for all servers of one workspace or plugin. The decision counts for exactly the commands that the question showed. A
//! turn waits for the answer within limits and continues without the servers if there is no answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::agent::AnswerValue;
use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::{ServerDeclaration, SessionLink, StartPermission};
use crate::agent::{AgentError, Answer, Choice, EventSink, Form, Response};

/// The kind of the failure that a server has which no user has allowed to run.
pub const NOT_TRUSTED: &str = "notTrusted";

/// How often a turn reports that it is at work while it waits.
const ALIVE_PACE: Duration = Duration::from_secs(20);

const QUESTION: &str = "trust";
const ALLOW: &str = "allow";
const NOT_NOW: &str = "notNow";
const NEVER: &str = "never";

/// The decision of users about the servers of one place, as they are declared now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// They may run.
    Allowed,
    /// They may not run.
    Refused,
    /// No user has decided about them as they are now.
    Undecided(TrustQuestion),
}

/// The question about the servers of one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustQuestion {
    /// The place, as `innkeeper trust` names it, in one line without characters that users cannot see.
    pub place: String,
    /// Identifies everything that would run. A decision is for this digest alone.
    pub digest: String,
    /// The text that users are shown.
    pub message: String,
}

/// A decision about everything that a [`TrustQuestion`] showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustDecision {
    /// It may run until it changes.
    Allow,
    /// It may not run until it changes.
    Refuse,
}

/// How long a turn waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrustTimeouts {
    /// For answers; zero asks nothing.
    pub(crate) answer: Duration,
    /// For servers that were just allowed to start.
    pub(crate) start: Duration,
}

/// The questions that a session has asked about its servers.
#[derive(Debug)]
pub(crate) struct Asking {
    /// One question at a time: a second turn finds it answered.
    one: Semaphore,
    state: Mutex<AskingState>,
}

#[derive(Debug, Default)]
struct AskingState {
    /// Questions without a decision, by place and digest, with the newest start among the servers that they were
    /// about. A user who starts such a server again is asked again.
    left_open: HashMap<(String, String), u64>,
    /// The notices that users were shown already.
    notices: HashSet<String>,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            one: Semaphore::new(1),
            state: Mutex::default(),
        }
    }
}

impl Asking {
    fn state(&self) -> MutexGuard<'_, AskingState> {
        self.state.lock()
    }

    fn was_left_open(&self, question: &TrustQuestion, attempt: u64) -> bool {
        let left = self.state().left_open.get(&key(question)).copied();
        left.is_some_and(|left| left >= attempt)
    }

    fn leave_open(&self, question: &TrustQuestion, attempt: u64) {
        self.state().left_open.insert(key(question), attempt);
    }

    fn is_news(&self, notice: &str) -> bool {
        self.state().notices.insert(notice.to_owned())
    }
}

fn key(question: &TrustQuestion) -> (String, String) {
    (question.place.clone(), question.digest.clone())
}

/// The servers of one place that wait for a decision.
struct Group {
    permission: Arc<dyn StartPermission>,
    servers: Vec<String>,
    /// The newest start among them.
    attempt: u64,
}

/// The consequence for the servers that a turn asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartConsent {
    MayRun,
    MayNotRun,
    Unanswered,
}

/// The end of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Decided(TrustDecision),
    /// With `innkeeper trust`, or in another session.
    DecidedElsewhere,
    NotNow,
    Unanswered,
}

impl EventSink {
    /// Asks about the servers of the session that wait for a decision, and waits until those that were allowed are
    /// ready.
    ///
    /// # Errors
    ///
    /// When the turn is cancelled.
    pub(crate) async fn ask_about_servers(&self, timeouts: TrustTimeouts) -> Result<(), AgentError> {
        let Some(link) = self.mcp().link().filter(|_| !timeouts.answer.is_zero()) else {
            return Ok(());
        };
        if self.undecided(&link).is_empty() {
            return Ok(());
        }
        let asking = self.ask_each(&link, timeouts);
        tokio::pin!(asking);
        loop {
            tokio::select! {
                biased;
                () = self.cancelled.cancelled() => return Err(AgentError::Cancelled),
                asked = &mut asking => return asked,
                () = sleep(ALIVE_PACE) => self.alive().await?,
            }
        }
    }

    /// The servers that wait for a decision, by place.
    fn undecided(&self, link: &SessionLink) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (declared, is_on) in self.customizations.declared_servers() {
            let ServerDeclaration { about, permission, .. } = &**declared;
            let (Some(permission), Some(attempt)) = (&permission.0, link.untrusted(&about.id)) else {
                continue;
            };
            if !is_on {
                continue;
            }
            // All servers of one place share their permission.
            let is_same = |group: &&mut Group| Arc::ptr_eq(&group.permission, permission);
            match groups.iter_mut().find(is_same) {
                Some(group) => {
                    group.servers.push(about.id.clone());
                    group.attempt = group.attempt.max(attempt);
                }
                None => groups.push(Group {
                    permission: Arc::clone(permission),
                    servers: vec![about.id.clone()],
                    attempt,
                }),
            }
        }
        groups
    }

    async fn ask_each(&self, link: &SessionLink, timeouts: TrustTimeouts) -> Result<(), AgentError> {
        let Ok(_turn) = timeout(timeouts.answer, link.asking.one.acquire()).await else {
            return Ok(());
        };
        let mut allowed = Vec::new();
        let mut is_answered = true;
        // Looked for again: another turn may have asked while this one waited.
        for group in self.undecided(link) {
            // An unattended session does not answer the next question either.
            let time = if is_answered { timeouts.answer } else { Duration::ZERO };
            match self.ask_about(link, &group, time).await? {
                StartConsent::MayRun => allowed.extend(group.servers),
                StartConsent::MayNotRun => {}
                StartConsent::Unanswered => is_answered = false,
            }
        }
        if !allowed.is_empty() {
            // A server that takes longer starts while the turn continues.
            let _ = timeout(timeouts.start, link.started(&allowed)).await;
        }
        Ok(())
    }

    /// Asks about the servers of one place. Without any time, the question is left open at once.
    async fn ask_about(&self, link: &SessionLink, group: &Group, time: Duration) -> Result<StartConsent, AgentError> {
        let question = match group.permission.trust().await {
            Ok(Trust::Undecided(question)) => question,
            Ok(Trust::Allowed) => return Ok(StartConsent::MayRun),
            Ok(Trust::Refused) => return Ok(StartConsent::MayNotRun),
            Err(why) => {
                self.tell_once(link, format!("This session cannot ask about MCP servers: {why}"))
                    .await?;
                return Ok(StartConsent::MayNotRun);
            }
        };
        if link.asking.was_left_open(&question, group.attempt) {
            return Ok(StartConsent::MayNotRun);
        }
        let outcome = match time.is_zero() {
            true => Outcome::Unanswered,
            false => self.wait_for_decision(group, &question, time).await?,
        };
        tracing::info!(place = question.place, ?outcome, "users were asked about MCP servers");
        match outcome {
            Outcome::Decided(decision) => {
                if let Err(why) = group.permission.decide(&question, decision).await {
                    let place = &question.place;
                    self.notice(format!("The MCP servers of {place} do not run: {why}"))
                        .await?;
                    return Ok(StartConsent::MayNotRun);
                }
                Ok(match decision {
                    TrustDecision::Allow => StartConsent::MayRun,
                    TrustDecision::Refuse => StartConsent::MayNotRun,
                })
            }
            Outcome::DecidedElsewhere => Ok(match group.permission.trust().await {
                Ok(Trust::Allowed) => StartConsent::MayRun,
                Ok(Trust::Refused | Trust::Undecided(_)) | Err(_) => StartConsent::MayNotRun,
            }),
            Outcome::NotNow => {
                link.asking.leave_open(&question, group.attempt);
                Ok(StartConsent::MayNotRun)
            }
            Outcome::Unanswered => {
                link.asking.leave_open(&question, group.attempt);
                let place = &question.place;
                let notice = format!(
                    "This turn continues without the MCP servers of {place}: no user answered whether they may run. Start \
                     one of them in this session to be asked again, or use `innkeeper trust allow '{place}'`."
                );
                self.notice(notice).await?;
                Ok(StartConsent::Unanswered)
            }
        }
    }

    async fn wait_for_decision(
        &self,
        group: &Group,
        question: &TrustQuestion,
        time: Duration,
    ) -> Result<Outcome, AgentError> {
        tokio::select! {
            answer = self.ask(form(question)) => Ok(outcome_of(&answer?)),
            () = decided_elsewhere(&*group.permission, question) => Ok(Outcome::DecidedElsewhere),
            () = sleep(time) => Ok(Outcome::Unanswered),
        }
    }

    async fn tell_once(&self, link: &SessionLink, notice: String) -> Result<(), AgentError> {
        match link.asking.is_news(&notice) {
            true => self.notice(notice).await,
            false => Ok(()),
        }
    }
}

/// Completes when the question is out of date: users decided with `innkeeper trust` or in another session, or the
/// servers are declared differently by now.
async fn decided_elsewhere(permission: &dyn StartPermission, question: &TrustQuestion) {
    loop {
        permission.decided().await;
        match permission.trust().await {
            Ok(Trust::Undecided(now)) if now.digest == question.digest => {}
            Ok(_) => return,
            Err(_) => {}
        }
    }
}

fn form(question: &TrustQuestion) -> Form {
    let options = [
        Choice::new(ALLOW, "Allow them, now and in future, until they change"),
        Choice::new(NOT_NOW, "Not now: continue without them in this session"),
        Choice::new(NEVER, "Never allow them, until they change"),
    ];
    Form::new(question.message.clone())
        .one(QUESTION, "May these MCP servers run?", options)
        .required()
}

fn outcome_of(answer: &Answer) -> Outcome {
    let Some(AnswerValue::Selected { ids, .. }) = answer.values.get(QUESTION) else {
        return Outcome::NotNow;
    };
    match (answer.response, ids.first().map(String::as_str)) {
        (Response::Accept, Some(ALLOW)) => Outcome::Decided(TrustDecision::Allow),
        (Response::Accept, Some(NEVER)) => Outcome::Decided(TrustDecision::Refuse),
        _ => Outcome::NotNow,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn p12_only_an_accepted_choice_decides() {
        let answer = |response, choice: Option<&str>| {
            let chosen = choice.map(|id| {
                let ids = vec![id.to_owned()];
                (
                    QUESTION.to_owned(),
                    AnswerValue::Selected {
                        ids,
                        freeform: Vec::new(),
                    },
                )
            });
            let values: BTreeMap<_, _> = chosen.into_iter().collect();
            outcome_of(&Answer { response, values })
        };
        let allow = Outcome::Decided(TrustDecision::Allow);
        let never = Outcome::Decided(TrustDecision::Refuse);
        assert_eq!(answer(Response::Accept, Some(ALLOW)), allow);
        assert_eq!(answer(Response::Accept, Some(NEVER)), never);
        assert_eq!(answer(Response::Accept, Some(NOT_NOW)), Outcome::NotNow);
        assert_eq!(answer(Response::Accept, None), Outcome::NotNow);
        // A user's unsent answer does not count when another user declines.
        assert_eq!(answer(Response::Decline, Some(ALLOW)), Outcome::NotNow);
        assert_eq!(answer(Response::Cancel, Some(NEVER)), Outcome::NotNow);
    }

    #[test]
    fn p12_a_question_without_a_decision_comes_back_with_a_change_or_a_start() {
        let asking = Asking::default();
        let question = |digest: &str| TrustQuestion {
            place: "/w".to_owned(),
            digest: digest.to_owned(),
            message: String::new(),
        };
        assert!(!asking.was_left_open(&question("a"), 3));
        asking.leave_open(&question("a"), 3);
        assert!(asking.was_left_open(&question("a"), 3));
        assert!(!asking.was_left_open(&question("b"), 3), "it changed");
        assert!(!asking.was_left_open(&question("a"), 4), "a user started it again");
    }
}
