//! URIs of terminals.

use crate::protocol::uri::{check, scheme};

/// Schemes of terminals: that of the protocol, and that of VS Code.
const SCHEMES: [&str; 2] = ["ahp-terminal", "agenthost-terminal"];

/// Checks that a client may create a terminal under this URI.
pub(super) fn check_new_terminal(uri: &str) -> Result<(), String> {
    check(uri)?;
    match is_terminal(uri) {
        true => Ok(()),
        false => Err("the URI of a terminal has the scheme ahp-terminal, as in ahp-terminal:/<id>".to_owned()),
    }
}

/// Returns true if a URI can only be that of a terminal.
pub(super) fn is_terminal(uri: &str) -> bool {
    scheme(uri).is_some_and(|scheme| SCHEMES.contains(&scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trm01_a_terminal_has_a_scheme_of_terminals() {
        for good in ["ahp-terminal:/a", "agenthost-terminal:///b"] {
            assert_eq!(check_new_terminal(good), Ok(()), "{good}");
        }
        for bad in ["", "ahp-chat:/a", "terminal:/a", "ahp-terminal:/a b"] {
            assert!(check_new_terminal(bad).is_err(), "{bad:?}");
        }
    }
}
