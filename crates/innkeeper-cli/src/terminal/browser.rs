//! The browser of this machine.

use std::process::{Command, Stdio};

/// Opens an address in a browser, if there is one. A failure does not matter, because the address is printed as well.
pub fn open_in_browser(address: &str) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
    {
        "xdg-open"
    } else {
        return;
    };
    let opening = Command::new(program)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    drop(opening);
}
