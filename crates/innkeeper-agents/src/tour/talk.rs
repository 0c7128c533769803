//! Texts of the tour agent.

use std::fmt::Write as _;

use super::command::COMMANDS;
use super::memory::Memory;
use innkeeper_host::TurnInput;

/// An answer to plain text.
pub(super) fn answer(turn: &TurnInput, memory: &Memory) -> String {
    let mut answer = answer_cheerfully(turn, memory);
    if turn.settings.get("mood").and_then(|mood| mood.as_str()) == Some("grumpy") {
        answer.insert_str(0, "Hmph. ");
    }
    if let Some(topic) = turn.settings.get("topic").and_then(|topic| topic.as_str()) {
        // Writing to a String cannot fail.
        let _ = writeln!(answer, "\nThis session is about *{topic}*, I am told.");
    }
    answer
}

fn answer_cheerfully(turn: &TurnInput, memory: &Memory) -> String {
    let words = turn.text.to_lowercase();
    let about = |topics: &[&str]| topics.iter().any(|topic| words.contains(topic));
    if about(&["remember"]) {
        return memory.recall();
    }
    if about(&["session", "where am i"]) {
        return format!(
            "You are in the session **{}** (`{}`), and this chat has completed {} before this one.\n\n\
             Everything you see here is shared: open the same session from another client and it shows the same words \
             at the same time. Close this client, come back, and it catches up with what it missed.\n",
            turn.session_title,
            turn.session,
            turns(turn.turns_before),
        );
    }
    if about(&["reconnect", "disconnect", "offline"]) {
        return "Try it: send `/stream 2000 10`, cut your connection in the middle, and come back. Your client asks for what it \
                missed since the last number it saw, and the host replays exactly that, or sends a fresh snapshot if it was \
                away for too long.\n"
            .to_owned();
    }
    let greeting = if turn.turns_before == 0 {
        "Welcome to the inn."
    } else {
        "Still here."
    };
    format!(
        "{greeting} I am the tour guide: I need no key and no network, and I always give the same answers.\n\n\
         This host keeps agent sessions in step between any number of clients. You wrote {} words, and every client that \
         watches this chat has just seen them.\n\n\
         Things to try next:\n\
         - `/stream 200 20` to watch an answer arrive piece by piece\n\
         - `/slow 5`, and cancel it half-way\n\
         - `/error resumable`, then resume the turn\n\
         - `/confirm`, and answer it from any of your clients\n\
         - ask me about *this session* or about *reconnecting*\n\
         - `/help` for everything I can do\n",
        turn.text.split_whitespace().count(),
    )
}

/// The list of commands.
pub(super) fn help() -> String {
    let mut text = String::from("I perform on command, so that clients have something to show:\n\n");
    for entry in COMMANDS {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- `{}`: {}", entry.form(), entry.what);
    }
    text
}

const FILLER: &str = "lorem ipsum dolor sit amet ";

/// One delta of exactly this many bytes, the same every time.
pub(super) fn delta(index: u64, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + FILLER.len());
    // Writing to a String cannot fail.
    let _ = write!(text, "{index} ");
    while text.len() < bytes {
        text.push_str(FILLER);
    }
    text.truncate(bytes);
    text
}

/// One delta of exactly this many bytes that starts with the time.
pub(super) fn stamped_delta(bytes: usize) -> String {
    let mut text = format!("{:016x}", jiff::Timestamp::now().as_nanosecond());
    while text.len() < bytes {
        text.push('.');
    }
    text.truncate(bytes);
    text
}

fn turns(count: usize) -> String {
    match count {
        0 => "no turns".to_owned(),
        1 => "one turn".to_owned(),
        more => format!("{more} turns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_have_exactly_the_asked_size() {
        for bytes in [0, 1, 2, 16, 40, 1000] {
            assert_eq!(delta(123_456, bytes).len(), bytes);
            assert_eq!(stamped_delta(bytes).len(), bytes);
        }
    }
}
