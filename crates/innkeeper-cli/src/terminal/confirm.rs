//! Asking the user before an irreversible change.

use std::io::{self, BufRead as _, IsTerminal as _};

use super::note;
use crate::failure::{Failure, Kind};

/// Asks on a terminal. Without a terminal, `--yes` is required.
pub fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(
            Failure::new(Kind::Usage, "nothing was changed: confirmation needs a terminal")
                .hint("use --yes to confirm"),
        );
    }
    note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    // A closed terminal means no.
    let _ = io::stdin().lock().read_line(&mut answer);
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Kind::Usage, "nothing was changed")),
    }
}
