//! Scenarios about resources: browsing, grants, watches.

mod browsing;
mod grants;
mod watches;
