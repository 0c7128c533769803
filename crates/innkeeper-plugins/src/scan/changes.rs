//! The difference between two trees: exactly the changes that have to be dispatched (P19).

use std::collections::HashMap;

use crate::tree::{Child, Component, Container, Plugin, Tree};

/// A difference between two trees.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<'t> {
    /// An entry is gone.
    Removed {
        /// Its id.
        id: &'t str,
    },
    /// An entry is new.
    Added {
        /// Its index in the new tree.
        at: usize,
        /// The entry.
        entry: &'t Container,
    },
    /// An entry changed.
    Updated {
        /// Its index in the new tree.
        at: usize,
        /// The entry as it is now.
        entry: &'t Container,
        /// The changes of its children.
        children: Vec<ChildChange<'t>>,
        /// Whether the change is published. If not, nothing is dispatched, but hooks or servers may have changed.
        is_visible: bool,
    },
    /// Entries that are still there have another order.
    Reordered,
}

/// A difference between two lists of children.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildChange<'t> {
    /// A child is gone.
    Removed {
        /// Its id.
        id: &'t str,
    },
    /// A child is new.
    Added {
        /// The child.
        child: &'t Child,
    },
    /// A child changed.
    Updated {
        /// The child as it is now.
        child: &'t Child,
        /// Whether anything of it is published.
        is_visible: bool,
    },
}

/// Compares two trees. Removals come first, in the old order, then the rest in the new order.
pub fn changes<'t>(old: &'t Tree, new: &'t Tree) -> Vec<Change<'t>> {
    let old_by_id: HashMap<&str, &Container> = old.entries.iter().map(|entry| (entry.id(), &**entry)).collect();
    let new_by_id: HashMap<&str, &Container> = new.entries.iter().map(|entry| (entry.id(), &**entry)).collect();
    let gone = old
        .entries
        .iter()
        .map(|entry| entry.id())
        .filter(|id| !new_by_id.contains_key(id));
    let mut changes: Vec<Change<'t>> = gone.map(|id| Change::Removed { id }).collect();
    for (at, entry) in new.entries.iter().enumerate() {
        match old_by_id.get(entry.id()) {
            None => changes.push(Change::Added { at, entry }),
            Some(before) if **before == **entry => {}
            Some(before) => {
                let children = child_changes(before.children(), entry.children());
                let is_visible = looks_different(before, entry)
                    || children
                        .iter()
                        .any(|change| !matches!(change, ChildChange::Updated { is_visible: false, .. }));
                changes.push(Change::Updated {
                    at,
                    entry,
                    children,
                    is_visible,
                });
            }
        }
    }
    let kept_before = old
        .entries
        .iter()
        .map(|entry| entry.id())
        .filter(|id| new_by_id.contains_key(id));
    let kept_now = new
        .entries
        .iter()
        .map(|entry| entry.id())
        .filter(|id| old_by_id.contains_key(id));
    if !kept_before.eq(kept_now) {
        changes.push(Change::Reordered);
    }
    changes
}

fn child_changes<'t>(old: &'t [Child], new: &'t [Child]) -> Vec<ChildChange<'t>> {
    let old_by_id: HashMap<&str, &Child> = old.iter().map(|child| (child.id.as_str(), child)).collect();
    let new_by_id: HashMap<&str, &Child> = new.iter().map(|child| (child.id.as_str(), child)).collect();
    let gone = old.iter().filter(|child| !new_by_id.contains_key(child.id.as_str()));
    let mut changes: Vec<ChildChange<'t>> = gone.map(|child| ChildChange::Removed { id: &child.id }).collect();
    for child in new {
        match old_by_id.get(child.id.as_str()) {
            None => changes.push(ChildChange::Added { child }),
            Some(before) if *before == child => {}
            Some(before) => changes.push(ChildChange::Updated {
                child,
                is_visible: child_looks_different(before, child),
            }),
        }
    }
    changes
}

/// Whether the published fields of two entries differ, apart from their children.
fn looks_different(old: &Container, new: &Container) -> bool {
    match (old, new) {
        (Container::Plugin(old), Container::Plugin(new)) => {
            fn published_fields(plugin: &Plugin) -> impl PartialEq + '_ {
                let name = (&plugin.name, &plugin.display_name, &plugin.version, &plugin.icons);
                (&plugin.uri, name, &plugin.load, plugin.children.is_some())
            }
            published_fields(old) != published_fields(new)
        }
        (Container::Directory(old), Container::Directory(new)) => {
            (&old.uri, &old.name, old.writable, &old.load, old.children.is_some())
                != (&new.uri, &new.name, new.writable, &new.load, new.children.is_some())
        }
        (Container::McpServer(old), Container::McpServer(new)) => child_looks_different(old, new),
        _ => true,
    }
}

/// Whether the published fields of two children differ. Of hooks and servers only their location is published.
fn child_looks_different(old: &Child, new: &Child) -> bool {
    let is_inner_only = matches!(
        (&old.component, &new.component),
        (Component::Hook(_), Component::Hook(_)) | (Component::McpServer(_), Component::McpServer(_))
    );
    fn published_fields(child: &Child) -> impl PartialEq + '_ {
        (&child.uri, &child.name, &child.description, child.range, &child.icons)
    }
    published_fields(old) != published_fields(new) || (!is_inner_only && old.component != new.component)
}
