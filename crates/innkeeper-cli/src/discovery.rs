//! Finding the host of a data directory: the directory and its lock, the endpoint file and the token file.
//!
//! The program writes these files and clients read them.

mod data_dir;
mod endpoint;
mod token_file;

pub use data_dir::{DataDir, DataDirLock, create_atomically, default_data_dir, unusable, write_atomically};
pub use endpoint::{Endpoint, PublishedEndpoint};
pub use token_file::{FILE_NAME as TOKEN_FILE_NAME, TokenFile};
