//! `fs/*`: text files for the agent, confined to the directories of the session.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_std::{
    ConfinedPath, ConfinedRoot, Opened, TargetError, TempEntry, create_directories, leads_outside, read_whole,
};
use serde_json::{Value, json};

use crate::wire::{RpcError, code};

/// Largest file that is read or written.
const MAX_BYTES: u64 = 32 << 20;

/// The files of a session.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    directories: Vec<PathBuf>,
    umask: Option<u32>,
}

impl Files {
    pub(crate) fn new(directories: Vec<PathBuf>, umask: Option<u32>) -> Self {
        Self { directories, umask }
    }

    /// Serves `fs/read_text_file`.
    pub(crate) async fn read(self, params: Value) -> Result<Value, RpcError> {
        blocking(move || {
            let path = path_in(&params)?;
            let confined = self.find(&path, |root, relative| root.existing(relative))?;
            let file = match confined.open_file().map_err(|error| failed(&path, &error))? {
                Opened::File(file) => file,
                Opened::Directory | Opened::Special => return Err(invalid(format!("{path:?} is not a file"))),
            };
            let bytes = read_whole(file, MAX_BYTES).map_err(|error| failed(&path, &error))?;
            let bytes = bytes.ok_or_else(|| invalid(format!("{path:?} is larger than {MAX_BYTES} bytes")))?;
            let text = String::from_utf8(bytes).map_err(|_| invalid(format!("{path:?} is not text")))?;
            let number = |name: &str| params[name].as_u64().and_then(|number| usize::try_from(number).ok());
            Ok(json!({ "content": lines(text, number("line"), number("limit")) }))
        })
        .await
    }

    /// Serves `fs/write_text_file`.
    pub(crate) async fn write(self, params: Value) -> Result<Value, RpcError> {
        blocking(move || {
            let path = path_in(&params)?;
            let content = params["content"].as_str();
            let content = content.ok_or_else(|| invalid("params.content: must be a text".to_owned()))?;
            let target = self.find(&path, |root, relative| {
                root.target(relative).map_err(|error| match error {
                    TargetError::Io(error) => error,
                    other => io::Error::other(format!("{other:?}")),
                })
            })?;
            self.replace(&target, content).map_err(|error| failed(&path, &error))?;
            Ok(json!({}))
        })
        .await
    }

    fn replace(&self, target: &ConfinedPath, content: &str) -> io::Result<()> {
        if let Some(parent) = target.relative().parent() {
            create_directories(target.root().dir(), parent, self.umask)?;
        }
        let old = match target.open_file() {
            Ok(Opened::File(file)) => Some(file),
            Ok(Opened::Directory | Opened::Special) => return Err(io::Error::other("not a file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let Some((directory, name)) = target.open_parent()? else {
            return Err(io::Error::other("not a file"));
        };
        TempEntry::file(&directory, content.as_bytes(), old.as_ref(), self.umask)?.take_name(&name, false)
    }

    /// Resolves a path in the directory of the session that it is in.
    fn find(
        &self,
        path: &Path,
        resolve: impl Fn(&Arc<ConfinedRoot>, &Path) -> io::Result<ConfinedPath>,
    ) -> Result<ConfinedPath, RpcError> {
        for directory in &self.directories {
            let Ok(root) = ConfinedRoot::open(directory) else {
                continue;
            };
            let root = Arc::new(root);
            if let Some(relative) = root.strip(path) {
                return resolve(&root, relative).map_err(|error| failed(path, &error));
            }
        }
        Err(outside(path))
    }
}

fn lines(text: String, line: Option<usize>, limit: Option<usize>) -> String {
    if line.is_none() && limit.is_none() {
        return text;
    }
    let skipped = line.unwrap_or(1).saturating_sub(1);
    text.split_inclusive('\n')
        .skip(skipped)
        .take(limit.unwrap_or(usize::MAX))
        .collect()
}

fn path_in(params: &Value) -> Result<PathBuf, RpcError> {
    let path = params["path"].as_str().map(PathBuf::from);
    path.filter(|path| path.is_absolute())
        .ok_or_else(|| invalid("params.path: must be an absolute path".to_owned()))
}

fn invalid(message: String) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, message)
}

fn outside(path: &Path) -> RpcError {
    invalid(format!("{path:?} is outside of the session's working directories"))
}

fn failed(path: &Path, error: &io::Error) -> RpcError {
    match error.kind() {
        _ if leads_outside(error) => outside(path),
        io::ErrorKind::NotFound => RpcError::new(code::NOT_FOUND, format!("Resource not found: {}", path.display())),
        _ => RpcError::new(code::INTERNAL, format!("{path:?}: {error}")),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(RpcError::new(code::INTERNAL, "the host failed to access the file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_read_and_written_inside_the_session_only() {
        let temp = tempfile::tempdir().expect("a directory");
        let work = temp.path().join("work");
        std::fs::create_dir(&work).expect("a directory");
        std::fs::write(temp.path().join("secret"), "s").expect("a file");
        #[cfg(unix)]
        std::os::unix::fs::symlink(temp.path(), work.join("up")).expect("a link");
        let files = Files::new(vec![work.clone()], Some(0o022));
        let file = work.join("new/a.txt");
        let written = json!({ "path": file, "content": "one\ntwo\nthree\n" });
        files.clone().write(written).await.expect("written");
        assert_eq!(std::fs::read_to_string(&file).expect("a file"), "one\ntwo\nthree\n");
        let part = json!({ "path": file, "line": 2, "limit": 1 });
        assert_eq!(files.clone().read(part).await.expect("read")["content"], "two\n");
        for path in ["secret", "work/up/secret", "work/../secret"] {
            let params = json!({ "path": temp.path().join(path), "content": "x" });
            let refused = files.clone().read(params.clone()).await.expect_err("outside");
            assert!(refused.message.contains("outside"), "{path}: {refused:?}");
            let refused = files.clone().write(params).await.expect_err("outside");
            assert!(refused.message.contains("outside"), "{path}: {refused:?}");
        }
        let missing = files.clone().read(json!({ "path": work.join("none") })).await;
        assert_eq!(missing.expect_err("missing").code, code::NOT_FOUND);
        let relative = files.read(json!({ "path": "a.txt" })).await;
        assert_eq!(relative.expect_err("relative").code, code::INVALID_PARAMS);
    }
}
