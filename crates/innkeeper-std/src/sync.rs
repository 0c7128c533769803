//! Locks without poisoning.
//!
//! The standard library marks a lock as poisoned when a thread panics while holding it, and every later user has to
//! decide what to do. Sections under a lock are tiny in Innkeeper and leave the value valid at every step, so the
//! decision is always to continue. These wrappers make it once.

use std::fmt;
use std::sync::{self, PoisonError};
use std::time::Duration;

pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A [`std::sync::Mutex`] that ignores poisoning.
///
/// ```
/// use innkeeper_std::sync::Mutex;
///
/// let count = Mutex::new(1);
/// *count.lock() += 1;
/// assert_eq!(count.into_inner(), 2);
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value without locking: the exclusive borrow proves that no other thread has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A [`std::sync::RwLock`] that ignores poisoning.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for shared access.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for exclusive access.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A [`std::sync::Condvar`] for a [`Mutex`] of this module.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Releases the lock, waits for a notification, and locks again. It may also return without a notification.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`Self::wait`], for at most `timeout`.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout(guard, timeout);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_panic_under_a_lock_does_not_stop_others() {
        let mutex = Arc::new(Mutex::new(1));
        let locked = Arc::clone(&mutex);
        let panicked = std::thread::spawn(move || {
            let _guard = locked.lock();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        *mutex.lock() += 1;
        assert_eq!(*mutex.lock(), 2);
    }

    #[test]
    fn a_condvar_wakes_a_waiting_thread() {
        let shared = Arc::new((Mutex::new(false), Condvar::default()));
        let setter = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            *setter.0.lock() = true;
            setter.1.notify_all();
        });
        let mut is_set = shared.0.lock();
        while !*is_set {
            is_set = shared.1.wait(is_set);
        }
        drop(is_set);
        thread.join().expect("no panic");
    }
}
