//! The formats of plugins and marketplaces: which one it is, and which locations its manifest declares.

pub(crate) mod detect;
pub(crate) mod locations;
pub(crate) mod manifest;
pub(crate) mod marketplace;
