//! Files, watches, grants, contents and repositories.

mod browsing;
mod changesets;
mod contents;
mod files;
mod grants;
mod repositories;
mod watches;
