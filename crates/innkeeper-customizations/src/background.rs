//! Things whose end takes time: they end where nobody waits for them.

/// Drops something that deletes files or waits for a thread, not on a thread that serves people.
pub(crate) fn drop_in_background(thing: impl Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(thing))),
        Err(_) => drop(thing),
    }
}
