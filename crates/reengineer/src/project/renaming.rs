//! Names of POSIX's that become those of delegates.

use crate::edit::Edit;
use crate::locks::Renaming;

/// What becomes of each name of POSIX: for delegates, and in a macro that serves mutexes and delegates.
const NAMES: &[(&str, &str, Option<&str>)] = &[
    ("pthread_mutex_t", "lockwork_delegate_t", None),
    ("PTHREAD_MUTEX_INITIALIZER", "LOCKWORK_DELEGATE_INITIALIZER", None),
    ("pthread_mutex_init", "lockwork_delegate_init", Some("lockwork_any_init")),
    ("pthread_mutex_destroy", "lockwork_delegate_destroy", Some("lockwork_any_destroy")),
    ("pthread_mutex_lock", "lockwork_delegate_acquire_or_abort", Some("lockwork_any_lock")),
    ("pthread_mutex_unlock", "lockwork_delegate_release", Some("lockwork_any_unlock")),
    ("pthread_mutex_trylock", "lockwork_delegate_try_acquire_or_abort", Some("lockwork_any_trylock")),
    ("pthread_cond_wait", "lockwork_delegate_cond_wait_held", Some("lockwork_any_wait")),
    ("pthread_cond_timedwait", "lockwork_delegate_cond_timedwait_held", Some("lockwork_any_timedwait")),
    ("pthread_cond_t", "lockwork_delegate_cond_t", None),
    ("PTHREAD_COND_INITIALIZER", "LOCKWORK_DELEGATE_COND_INITIALIZER", None),
    ("pthread_cond_init", "lockwork_delegate_cond_init", Some("lockwork_any_cond_init")),
    ("pthread_cond_destroy", "lockwork_delegate_cond_destroy", Some("lockwork_any_cond_destroy")),
    ("pthread_cond_signal", "lockwork_delegate_cond_signal", Some("lockwork_any_cond_signal")),
    ("pthread_cond_broadcast", "lockwork_delegate_cond_broadcast", Some("lockwork_any_cond_broadcast")),
];

/// The edit for a place where a mutex or a condition of POSIX is named.
pub(super) fn renaming_edit(text: &str, at: usize, renaming: Renaming) -> Option<Edit> {
    if let Renaming::Argument(length, replacement) = renaming {
        return Some(Edit::new(at..at + length, replacement));
    }
    let rest = text.get(at..)?;
    let length = rest.find(|next: char| !next.is_ascii_alphanumeric() && next != '_').unwrap_or(rest.len());
    let name = if let Renaming::StandsFor(name) = renaming { name } else { &rest[..length] };
    let (_, delegate, either) = NAMES.iter().find(|(known, ..)| *known == name)?;
    let name = if renaming == Renaming::Either { (*either)? } else { delegate };
    Some(Edit::new(at..at + length, name))
}
