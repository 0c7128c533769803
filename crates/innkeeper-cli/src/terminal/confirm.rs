//! Asking a person before something is done that cannot be taken back.

use std::io::{self, BufRead as _, IsTerminal as _};

use super::note;
use crate::failure::{Failure, Kind};

/// Asks on a terminal; elsewhere only `--yes` will do.
pub fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(
            Failure::new(Kind::Usage, "nothing was done, because there is nobody to ask")
                .hint("say --yes if you are sure"),
        );
    }
    note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    // Whoever closes the terminal has not said yes.
    let _ = io::stdin().lock().read_line(&mut answer);
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Kind::Usage, "nothing was done")),
    }
}
