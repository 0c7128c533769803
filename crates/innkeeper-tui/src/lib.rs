//! The full-screen terminal client: an ordinary AHP client that draws with ratatui.
//!
//! [`app::App`] has the state of the screen and no IO. The program feeds it events (keys, time, news of the connection),
//! performs the effects that it returns, and draws it with [`view::draw`] when it has changed. So every screen can be
//! tested without a terminal and without a host.

pub mod app;
pub mod args;
pub mod event;
pub mod theme;
pub mod view;

mod run;
mod text;

pub use run::run;
