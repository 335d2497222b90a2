//! Which calls take, release and wait for locks: POSIX's, and a program's own wrappers.

use std::path::Path;

use crate::error::Error;
use crate::tree::{Kind, Node};

/// What a call does to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Takes it.
    Lock,
    /// Releases it.
    Unlock,
    /// Takes it if it is free, or within a time.
    Try,
    /// Waits for a condition, and gives the lock up meanwhile.
    Wait,
}

/// A function that does something to a lock.
#[derive(Clone, Debug)]
struct Word {
    name: String,
    action: Action,
    /// Which of its arguments names the lock, from 0.
    argument: usize,
}

/// All the functions that do something to locks.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    words: Vec<Word>,
    /// How many of them are POSIX's and Lockwork's; the rest are the program's wrappers.
    own: usize,
}

impl Default for Vocabulary {
    /// POSIX's.
    fn default() -> Self {
        let words = [
            ("pthread_mutex_lock", Action::Lock, 0),
            ("pthread_mutex_unlock", Action::Unlock, 0),
            ("pthread_mutex_trylock", Action::Try, 0),
            ("pthread_mutex_timedlock", Action::Try, 0),
            ("pthread_mutex_clocklock", Action::Try, 0),
            ("pthread_cond_wait", Action::Wait, 1),
            ("pthread_cond_timedwait", Action::Wait, 1),
            ("pthread_cond_clockwait", Action::Wait, 1),
            // What sections of delegates are before they become closures.
            ("lockwork_delegate_acquire", Action::Lock, 0),
            ("lockwork_delegate_release", Action::Unlock, 0),
            ("lockwork_any_lock", Action::Lock, 0),
            ("lockwork_any_unlock", Action::Unlock, 0),
        ];
        let own = words.len();
        let word = |(name, action, argument): (&str, _, _)| Word { name: name.to_owned(), action, argument };
        Self { words: words.into_iter().map(word).collect(), own }
    }
}

impl Vocabulary {
    /// Adds the wrappers that a file names: lines `lock NAME ARGUMENT` and `unlock NAME ARGUMENT`, the argument from 0.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a line is something else.
    pub fn add_from(&mut self, path: &Path) -> Result<(), Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let fields: Vec<_> = line.split_whitespace().collect();
            let wrong = |reason| Error::Macros { path: path.to_owned(), line: number + 1, reason };
            let (action, name, argument) = match fields.as_slice() {
                [] => continue,
                ["lock", name, argument] => (Action::Lock, name, argument),
                ["unlock", name, argument] => (Action::Unlock, name, argument),
                _ => return Err(wrong("not understood")),
            };
            let argument = argument.parse().map_err(|_| wrong("the argument is no number"))?;
            self.words.push(Word { name: (*name).to_owned(), action, argument });
        }
        Ok(())
    }

    /// What one of the program's own functions does to a lock, and by which argument.
    pub(crate) fn wrapper(&self, name: &str) -> Option<(Action, usize)> {
        let word = self.words.iter().skip(self.own).find(|word| word.name == name)?;
        Some((word.action, word.argument))
    }

    /// What an expression does to a lock if it is a call of one of these functions, and the lock.
    #[must_use]
    pub(crate) fn of<'a>(&self, node: &'a Node) -> Option<(Action, &'a Node)> {
        let Kind::Call(name) = &node.kind else { return None };
        let word = self.words.iter().find(|word| word.name == *name)?;
        Some((word.action, node.children.get(word.argument + 1)?))
    }
}

/// Whether a function of this name does not return.
pub(crate) fn ends_the_thread(name: &str) -> bool {
    matches!(
        name,
        "exit"
            | "_exit"
            | "_Exit"
            | "quick_exit"
            | "abort"
            | "__assert_fail"
            | "__builtin_unreachable"
            | "__builtin_trap"
            | "longjmp"
            | "siglongjmp"
            | "pthread_exit"
            | "err"
            | "errx"
            | "verr"
            | "verrx"
    )
}

/// Whether a function of this name means the frame, the thread or the process that calls it.
pub(crate) fn is_bound_to_its_caller(name: &str) -> bool {
    matches!(
        name,
        "alloca"
            | "__builtin_alloca"
            | "setjmp"
            | "_setjmp"
            | "sigsetjmp"
            | "__sigsetjmp"
            | "longjmp"
            | "siglongjmp"
            | "pthread_exit"
            | "fork"
            | "vfork"
            | "__builtin_va_start"
            | "__builtin_va_end"
            | "__builtin_va_copy"
            | "__builtin_frame_address"
            | "__builtin_return_address"
    )
}

/// Whether a function of this name answers for the thread that calls it.
pub(crate) fn tells_the_thread(name: &str) -> bool {
    matches!(
        name,
        "pthread_self"
            | "gettid"
            | "__errno_location"
            | "pthread_getspecific"
            | "pthread_setspecific"
            | "sched_getcpu"
    )
}
