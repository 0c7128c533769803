//! Containers of components: plugins, directories, and the loose files of a workspace or a user.

pub(crate) mod directory;
pub(crate) mod loose;
pub(crate) mod plugin;
pub(crate) mod well_known;
