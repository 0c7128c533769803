//! Drops values in the background if their drop takes time.

/// Drops a value that deletes files or waits for a thread, on a blocking thread.
pub(crate) fn drop_in_background(thing: impl Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(thing))),
        Err(_) => drop(thing),
    }
}
