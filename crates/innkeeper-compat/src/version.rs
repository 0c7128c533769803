//! The published versions.

use std::fmt;

use innkeeper_dialects::Version as Published;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::wire;

const COUNT: usize = Published::ALL.len();

mod v0_1 {
    sdk!(ahp_0_1, sessions);
}
mod v0_2 {
    sdk!(ahp_0_2, channels);
}
mod v0_3 {
    sdk!(ahp_0_3, channels);
}
mod v0_4 {
    sdk!(ahp_0_4, chats);
}
mod v0_5_2 {
    sdk!(ahp_0_5_2, chats);
}
mod v0_6 {
    sdk!(ahp_0_6, chats);
}
mod v0_7 {
    sdk!(ahp_0_7, chats);
}
mod v0_8 {
    sdk!(ahp_0_8, chats);
}
mod v0_9 {
    sdk!(ahp_0_9, chats);
}
mod v1_0 {
    sdk!(ahp_1_0, chats);
}

/// A published version of the protocol, with the differences that scenarios ask about. Older versions are less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(Published);

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! versions {
    ($($version:ident)+) => {
        impl Version {
            $(
                #[doc = concat!("The version `", stringify!($version), "`.")]
                pub const $version: Self = Self(Published::$version);
            )+
        }
    };
}

versions! { V0_1 V0_2 V0_3 V0_4 V0_5_0 V0_5_1 V0_5_2 V0_6 V0_7 V0_8 V0_9 V1_0 }

/// Where the published client of a version runs.
pub enum Runtime {
    /// In this program.
    Linked(fn(UnboundedReceiver<Value>, UnboundedSender<Value>) -> tokio::task::JoinHandle<()>),
    /// In a process of its own, built from this folder of `clients/`.
    Process(&'static str),
}

macro_rules! linked {
    ($module:ident) => {
        Runtime::Linked(|commands, events| tokio::spawn($module::run(commands, events)))
    };
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Self; COUNT] = {
        let mut all = [Self::V1_0; COUNT];
        let mut index = 0;
        while index < COUNT {
            all[index] = Self(Published::ALL[COUNT - 1 - index]);
            index += 1;
        }
        all
    };

    /// The version as the host knows it.
    pub fn published(self) -> Published {
        self.0
    }

    /// The number of the published crate.
    pub fn number(self) -> &'static str {
        self.0.as_str()
    }

    /// The version as its published client offers it in `initialize`.
    pub fn offer(self) -> Value {
        match self {
            Self::V0_1 => json!(1),
            newer => json!([newer.number()]),
        }
    }

    /// The version as a host confirms it.
    pub fn confirmed(self) -> Value {
        match self {
            Self::V0_1 => json!(1),
            newer => json!(newer.number()),
        }
    }

    /// Where the published client runs.
    pub(crate) fn runtime(self) -> Runtime {
        match self.0 {
            Published::V0_1 => linked!(v0_1),
            Published::V0_2 => linked!(v0_2),
            Published::V0_3 => linked!(v0_3),
            Published::V0_4 => linked!(v0_4),
            Published::V0_5_0 => Runtime::Process("v0_5_0"),
            Published::V0_5_1 => Runtime::Process("v0_5_1"),
            Published::V0_5_2 => linked!(v0_5_2),
            Published::V0_6 => linked!(v0_6),
            Published::V0_7 => linked!(v0_7),
            Published::V0_8 => linked!(v0_8),
            Published::V0_9 => linked!(v0_9),
            Published::V1_0 => linked!(v1_0),
        }
    }

    /// Whether every message names its channel.
    pub fn has_channels(self) -> bool {
        self >= Self::V0_2
    }

    /// Whether a session has chats with channels of their own.
    pub fn has_chats(self) -> bool {
        self >= Self::V0_4
    }

    /// Whether a user's message is called `message`; it was `userMessage`.
    pub fn has_messages(self) -> bool {
        self >= Self::V0_3
    }

    /// Whether a session has a list of active clients; it had one `activeClient`.
    pub fn has_active_clients(self) -> bool {
        self >= Self::V0_5_0
    }

    /// Whether turns are paged by cursors; they were fetched with `before` and `limit`.
    pub fn has_cursors(self) -> bool {
        self >= Self::V0_5_1
    }

    /// Whether a session lists the things that wait for the user.
    pub fn has_input_needed(self) -> bool {
        self >= Self::V0_5_1
    }

    /// Whether an answered question stays in the turn.
    pub fn keeps_answers(self) -> bool {
        self >= Self::V0_5_2
    }

    /// Whether turns have times and questions are parts of the turn.
    pub fn has_times(self) -> bool {
        self >= Self::V0_6
    }

    /// Whether a session has several working directories.
    pub fn has_directories(self) -> bool {
        self >= Self::V0_7
    }

    /// Whether enablement has scopes.
    pub fn has_enablement(self) -> bool {
        self >= Self::V0_8
    }

    /// Whether an error is a part of the turn, and a failed turn can be resumed.
    pub fn has_error_parts(self) -> bool {
        self >= Self::V0_9
    }

    /// Whether `createSession` has `fork`.
    pub fn has_session_forks(self) -> bool {
        self <= Self::V0_8
    }

    /// Whether the model is chosen for the session; later versions choose it for each message.
    pub fn has_session_model(self) -> bool {
        self <= Self::V0_4
    }

    /// Whether the reducer takes `modifiedAt` from the actions; older ones read their own clock.
    pub fn has_shared_times(self) -> bool {
        self >= Self::V0_9
    }
}
