//! A watcher on real files, and waiting for what it tells.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use innkeeper_plugins::{Sources, Tree, TreeWatcher};

/// Long enough for a machine that is busy with something else, and less than what the watcher reads
/// everything after without a reason: that must not be how it notices.
pub const TIMEOUT: Duration = Duration::from_secs(50);

pub struct Watched {
    _watcher: TreeWatcher,
    trees: Receiver<Tree>,
}

impl Watched {
    pub fn start(sources: Sources) -> (Self, Tree) {
        let (sender, trees) = channel();
        let watcher = TreeWatcher::start(sources, move |tree| {
            let _ = sender.send(tree);
        })
        .unwrap();
        let first = trees.recv_timeout(TIMEOUT).unwrap();
        let watched = Self {
            _watcher: watcher,
            trees,
        };
        (watched, first)
    }

    /// The next tree that is told of.
    pub fn next(&self) -> Tree {
        self.trees.recv_timeout(TIMEOUT).expect("something changed")
    }

    /// Waits for a tree with exactly these children.
    pub fn until(&self, expected: &[&str]) -> Tree {
        let mut last = Vec::new();
        loop {
            match self.trees.recv_timeout(TIMEOUT) {
                Ok(tree) if names(&tree) == expected => return tree,
                Ok(tree) => last = names(&tree),
                Err(_) => panic!("expected {expected:?}, and the last tree had {last:?}"),
            }
        }
    }
}

pub fn names(tree: &Tree) -> Vec<String> {
    let children = tree.entries.iter().flat_map(|entry| entry.children());
    children.map(|child| child.name.clone()).collect()
}

pub fn workspace(path: &Path) -> Sources {
    Sources {
        workspaces: vec![path.to_owned()],
        ..Sources::default()
    }
}
