//! Checkpoints: the files of a session at the beginning and the end of its turns.
//!
//! One file per session has a line for each checkpoint and work tree. It only grows at its end, so a process that is
//! killed leaves at most half a line, which is ignored.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use innkeeper_host::changes::TurnPhase;
use serde_json::{Value, json};

/// Most checkpoints of a session. Later turns are not recorded.
const MAX_POINTS: usize = 20_000;

/// The trees of all work trees of a session at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) turn: String,
    pub(crate) phase: TurnPhase,
    /// By work tree.
    pub(crate) trees: HashMap<PathBuf, String>,
}

/// The checkpoints of one session, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Points {
    file: PathBuf,
    points: Vec<Point>,
}

impl Points {
    /// Reads the checkpoints of a session; there may be none.
    pub(crate) fn read(file: PathBuf) -> Self {
        let text = fs::read(&file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let points = text.lines().filter_map(parse).collect();
        Self { file, points }
    }

    /// Adds a checkpoint, durably.
    pub(crate) fn add(&mut self, point: Point) -> io::Result<()> {
        if self.points.len() >= MAX_POINTS {
            return Ok(());
        }
        let mut line = describe(&point).to_string();
        line.push('\n');
        let is_new = !self.file.exists();
        if let Some(parent) = self.file.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&self.file)?;
        // After a crash in the middle of a line, the next one starts on a line of its own.
        if !is_new && !ends_with_line(&self.file)? {
            file.write_all(b"\n")?;
        }
        file.write_all(line.as_bytes())?;
        file.sync_data()?;
        self.points.push(point);
        Ok(())
    }

    /// All work trees and trees that the checkpoints refer to.
    pub(crate) fn into_trees(self) -> impl Iterator<Item = (PathBuf, String)> {
        self.points.into_iter().flat_map(|point| point.trees)
    }

    /// The work trees that the checkpoints refer to.
    pub(crate) fn work_trees(&self) -> BTreeSet<PathBuf> {
        self.points
            .iter()
            .flat_map(|point| point.trees.keys().cloned())
            .collect()
    }

    /// The files when the session began.
    pub(crate) fn start(&self) -> Option<&Point> {
        self.points.first()
    }

    /// Whether anything is known of a turn.
    pub(crate) fn has_turn(&self, turn: &str) -> bool {
        self.points.iter().any(|point| point.turn == turn)
    }

    /// The files before a turn.
    pub(crate) fn before(&self, turn: &str) -> Option<&Point> {
        let mut points = self.points.iter();
        points.find(|point| point.turn == turn && point.phase == TurnPhase::Before)
    }

    /// The files after a turn: recorded at its end, or the next that was recorded if the host ended in the middle.
    /// `None` means that they are the files as they are now.
    pub(crate) fn after(&self, turn: &str) -> Option<&Point> {
        let is_end = |point: &&Point| point.turn == turn && point.phase == TurnPhase::After;
        if let Some(end) = self.points.iter().rev().find(is_end) {
            return Some(end);
        }
        let begin = self.points.iter().position(|point| point.turn == turn)?;
        self.points.get(begin + 1)
    }
}

fn ends_with_line(file: &Path) -> io::Result<bool> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = File::open(file)?;
    if file.seek(SeekFrom::End(-1)).is_err() {
        return Ok(true);
    }
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn describe(point: &Point) -> Value {
    let trees = point.trees.iter().filter_map(|(root, tree)| {
        let root = crate::uri::from_path(root)?;
        Some((root, Value::String(tree.clone())))
    });
    json!({
        "turn": point.turn,
        "phase": match point.phase { TurnPhase::Before => "before", TurnPhase::After => "after" },
        "trees": trees.collect::<serde_json::Map<_, _>>(),
    })
}

fn parse(line: &str) -> Option<Point> {
    let value: Value = serde_json::from_str(line).ok()?;
    let trees = value["trees"].as_object()?.iter();
    Some(Point {
        turn: value["turn"].as_str()?.to_owned(),
        phase: match value["phase"].as_str()? {
            "before" => TurnPhase::Before,
            _ => TurnPhase::After,
        },
        trees: trees
            .filter_map(|(root, tree)| Some((crate::uri::to_path(root)?, tree.as_str()?.to_owned())))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(turn: &str, phase: TurnPhase, tree: &str) -> Point {
        Point {
            turn: turn.to_owned(),
            phase,
            trees: HashMap::from([(PathBuf::from("/srv/a b"), tree.to_owned())]),
        }
    }

    #[test]
    fn checkpoints_survive_a_crash_in_the_middle_of_a_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("s/points");
        let mut points = Points::read(file.clone());
        assert!(points.start().is_none());
        points.add(point("t1", TurnPhase::Before, "a")).expect("stored");
        points.add(point("t1", TurnPhase::After, "b")).expect("stored");
        let mut torn = OpenOptions::new().append(true).open(&file).expect("the file");
        torn.write_all(b"{\"turn\":\"t2\",\"ph").expect("half a line");
        let mut points = Points::read(file.clone());
        assert!(!points.has_turn("t2"));
        points.add(point("t3", TurnPhase::Before, "c")).expect("stored");
        let points = Points::read(file);
        let tree = |point: Option<&Point>| point.and_then(|point| point.trees.values().next().cloned());
        assert_eq!(tree(points.before("t1")).as_deref(), Some("a"));
        assert_eq!(tree(points.after("t1")).as_deref(), Some("b"));
        assert_eq!(tree(points.before("t3")).as_deref(), Some("c"));
        assert_eq!(tree(points.after("t3")), None, "it still runs");
        assert_eq!(tree(points.start()).as_deref(), Some("a"));
    }

    #[test]
    fn a_turn_without_an_end_ends_with_the_next_checkpoint() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut points = Points::read(directory.path().join("points"));
        points.add(point("t1", TurnPhase::Before, "a")).expect("stored");
        points.add(point("t2", TurnPhase::Before, "b")).expect("stored");
        assert_eq!(points.after("t1"), points.before("t2"));
    }
}
