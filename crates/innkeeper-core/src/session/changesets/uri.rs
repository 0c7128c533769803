//! The URIs of changesets: the URI of their session or chat, and the name of the view.

use super::ChangesetSource;

/// Stands between the URI of the owner and the name of the view.
const MARK: &str = "/changeset/";

/// The name of each view, and the templates of those with variables (CHG-02).
pub(super) const UNCOMMITTED: &str = "uncommitted";
pub(super) const SESSION: &str = "session";
pub(super) const BRANCH: &str = "branch";
pub(super) const TURN: &str = "turn/{turnId}";
pub(super) const TURNS: &str = "turns/{originalTurnId}/{modifiedTurnId}";

/// The template of a view of a session or chat.
pub(super) fn template(owner: &str, view: &str) -> String {
    format!("{owner}{MARK}{view}")
}

/// The session or chat of a changeset.
pub(super) fn owner(uri: &str) -> Option<&str> {
    Some(uri.split_once(MARK)?.0)
}

/// Reads the URI of a changeset.
pub(super) fn parse(uri: &str) -> Option<(&str, ChangesetSource)> {
    let (owner, view) = uri.split_once(MARK)?;
    let parts: Vec<&str> = view.split('/').collect();
    let source = match parts.as_slice() {
        [UNCOMMITTED] => ChangesetSource::Uncommitted,
        [SESSION] => ChangesetSource::Session,
        [BRANCH] => ChangesetSource::Branch,
        ["turn", turn] => ChangesetSource::Turn { turn: decoded(turn)? },
        ["turns", original, modified] => ChangesetSource::Turns {
            original: decoded(original)?,
            modified: decoded(modified)?,
        },
        _ => return None,
    };
    Some((owner, source))
}

/// Undoes the percent-encoding of a template's value; `None` if it is not valid or empty.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        match (first, more) {
            (b'%', [high, low, more @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = more;
            }
            (b'%', _) => return None,
            (byte, more) => {
                bytes.push(*byte);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chg02_every_template_leads_to_its_view() {
        let parsed = |view: &str| parse(&template("ahp-session:/one", view)).map(|(_, source)| source);
        assert_eq!(parsed(UNCOMMITTED), Some(ChangesetSource::Uncommitted));
        assert_eq!(parsed(SESSION), Some(ChangesetSource::Session));
        assert_eq!(parsed(BRANCH), Some(ChangesetSource::Branch));
        let turn = TURN.replace("{turnId}", "a%2Fb%25");
        assert_eq!(
            parsed(&turn),
            Some(ChangesetSource::Turn {
                turn: "a/b%".to_owned()
            })
        );
        let turns = TURNS
            .replace("{originalTurnId}", "t1")
            .replace("{modifiedTurnId}", "t2");
        let (original, modified) = ("t1".to_owned(), "t2".to_owned());
        assert_eq!(parsed(&turns), Some(ChangesetSource::Turns { original, modified }));
        for unknown in [
            "",
            "x",
            "turn",
            "turn/",
            "turn/a/b",
            "turn/%",
            "turn/%zz",
            "turns/a",
            "uncommitted/",
        ] {
            assert_eq!(parsed(unknown), None, "{unknown}");
        }
        assert_eq!(owner("ahp-session:/one"), None);
        assert_eq!(owner("ahp-session:/one/changeset/x"), Some("ahp-session:/one"));
    }
}
