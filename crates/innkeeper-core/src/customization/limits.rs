//! Limits the customizations that a session shows: a snapshot is one message, and clients read none beyond 64 MiB.

use std::collections::BTreeSet;
use std::io;

use ahp_types::state::{Customization, CustomizationDegradedState, CustomizationLoadState};
use serde::Serialize;

use super::entry::{child_id, children_mut, children_of, id_of};
use crate::config::CoreConfig;

/// Drops customizations above the limits, reports that in the load state of their container, and returns the dropped
/// ids.
pub(super) fn fit(list: &mut Vec<Customization>, config: &CoreConfig) -> BTreeSet<String> {
    let mut left_out = BTreeSet::new();
    let children: usize = list.iter().map(|entry| children_of(entry).len()).sum();
    let fits = list.len() <= config.max_customizations
        && children <= config.max_customization_children
        && bytes_of(list) <= config.max_customization_bytes;
    if fits {
        return left_out;
    }
    let mut budget = Budget {
        children: config.max_customization_children,
        bytes: config.max_customization_bytes,
    };
    fit_containers(list, config.max_customizations, &mut budget, &mut left_out);
    for entry in list {
        fit_children(entry, &mut budget, &mut left_out);
    }
    left_out
}

struct Budget {
    children: usize,
    bytes: usize,
}

/// The containers first: one that is there without its children can say that they are missing.
fn fit_containers(list: &mut Vec<Customization>, most: usize, budget: &mut Budget, left_out: &mut BTreeSet<String>) {
    let mut kept = 0;
    for entry in list.iter_mut() {
        let children = children_mut(entry).map(std::mem::take);
        let bytes = bytes_of(entry);
        if let (Some(children), Some(place)) = (children, children_mut(entry)) {
            *place = children;
        }
        if kept == most || bytes > budget.bytes {
            break;
        }
        budget.bytes -= bytes;
        kept += 1;
    }
    let rest = list.split_off(kept);
    for entry in &rest {
        left_out.extend(id_of(entry).map(str::to_owned));
        left_out.extend(children_of(entry).iter().filter_map(child_id).map(str::to_owned));
    }
    if let (false, Some(last)) = (rest.is_empty(), list.last_mut()) {
        let message = format!(
            "{} more plugins and directories after this one are left out and not used: the limit of one session is reached",
            rest.len()
        );
        degrade(last, message);
    }
}

fn fit_children(entry: &mut Customization, budget: &mut Budget, left_out: &mut BTreeSet<String>) {
    // MCP servers have no children.
    let Some(children) = children_mut(entry) else { return };
    let mut kept = 0;
    for child in children.iter() {
        let bytes = bytes_of(child);
        if budget.children == 0 || bytes > budget.bytes {
            break;
        }
        budget.children -= 1;
        budget.bytes -= bytes;
        kept += 1;
    }
    let all = children.len();
    let rest = children.split_off(kept);
    left_out.extend(rest.iter().filter_map(child_id).map(str::to_owned));
    if !rest.is_empty() {
        let message = format!(
            "{} of its {all} entries are left out and not used: the limit of one session is reached",
            rest.len()
        );
        degrade(entry, message);
    }
}

fn degrade(entry: &mut Customization, message: String) {
    let load = match entry {
        Customization::Plugin(plugin) => &mut plugin.load,
        Customization::Directory(directory) => &mut directory.load,
        Customization::McpServer(_) | Customization::Unknown(_) => return,
    };
    let message = match load {
        Some(CustomizationLoadState::Degraded(state)) => format!("{}; {message}", state.message),
        // An error is worse than this, and already shown.
        Some(CustomizationLoadState::Error(_)) => return,
        _ => message,
    };
    *load = Some(CustomizationLoadState::Degraded(CustomizationDegradedState { message }));
}

/// How many bytes something takes as JSON, without writing it anywhere.
fn bytes_of(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => 0,
    }
}
