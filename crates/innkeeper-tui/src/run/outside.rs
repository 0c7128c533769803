//! Programs that take the user's terminal over: commands of this program, and the user's editor.

use std::path::Path;

use innkeeper_cli::args::ConnectArgs;
use innkeeper_cli::terminal::note;
use tokio::process::Command;

/// Runs a command of this program with the flags that select the host.
pub(super) async fn run_command(words: &[String], connect: &ConnectArgs) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("this program cannot be found ({error})"))?;
    let mut command = Command::new(program);
    command.args(words);
    let flags = [
        ("--url", connect.url.as_deref().map(Path::new)),
        ("--token-file", connect.token_file.as_deref()),
        ("--data", connect.common.data.as_deref()),
        ("--config", connect.common.config.as_deref()),
    ];
    for (flag, value) in flags {
        if let Some(value) = value {
            command.arg(flag).arg(value);
        }
    }
    let status = command.status().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => {
            note("\nPress Enter to go back.");
            let mut line = String::new();
            // Without an answer the screen comes back at once.
            let _ = std::io::stdin().read_line(&mut line);
            Err(format!("`innkeeper {}` failed", words.join(" ")))
        }
        Err(error) => Err(format!("`innkeeper {}` cannot be run ({error})", words.join(" "))),
    }
}

/// Lets the user edit a text, and returns it.
pub(super) async fn edit(text: &str) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("the editor cannot be used ({error})");
    let name = format!("innkeeper-message-{}.md", uuid::Uuid::new_v4());
    let path = std::env::temp_dir().join(name);
    write_private(&path, text).map_err(cannot)?;
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let editor = editor
        .filter(|editor| !editor.is_empty())
        .unwrap_or_else(|| "vi".to_owned());
    // An editor may come with flags, as in `code --wait`.
    let status = Command::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(&path)
        .status()
        .await;
    let edited = std::fs::read_to_string(&path);
    // The text has been read, or cannot be.
    let _ = std::fs::remove_file(&path);
    match status.map_err(cannot)? {
        status if status.success() => edited.map_err(cannot),
        _ => Err(format!("{editor} failed; the message is as it was")),
    }
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}
