//! What is put before a model checker: a few threads, and what must hold when all have ended.

use std::fmt;

/// What one thread does.
pub type Role = Box<dyn FnOnce() + Send>;

/// One execution: its threads, and the check at its end.
pub struct Play {
    /// The threads' parts, at least one.
    pub roles: Vec<Role>,
    /// Runs after all roles, outside the model checker: it can look at plain memory only.
    pub end: Role,
}

impl Play {
    /// A play without roles.
    pub fn new(end: impl FnOnce() + Send + 'static) -> Self {
        Self { roles: Vec::new(), end: Box::new(end) }
    }

    /// Adds a thread.
    #[must_use]
    pub fn with(mut self, role: impl FnOnce() + Send + 'static) -> Self {
        self.roles.push(Box::new(role));
        self
    }
}

impl fmt::Debug for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Play").field("roles", &self.roles.len()).finish_non_exhaustive()
    }
}
