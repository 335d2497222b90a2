//! What sort of lock a lock is.

use core::fmt;

/// The sort of one lock of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mutex of the default type.
    Normal,
    /// A mutex of glibc's adaptive type.
    Adaptive,
    /// A recursive mutex.
    Recursive,
    /// An error-checking mutex.
    Errorcheck,
    /// A reader-writer lock.
    Rwlock,
    /// A POSIX spin lock.
    Spin,
    /// A condition variable.
    Cond,
}

/// A sort, or a group of them, as a rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindPattern {
    /// A mutex of any type.
    Mutex,
    /// Only this sort.
    Only(Kind),
}

/// Every name a rule can use.
pub(crate) const NAMES: [(&str, KindPattern); 8] = [
    ("mutex", KindPattern::Mutex),
    ("normal", KindPattern::Only(Kind::Normal)),
    ("adaptive", KindPattern::Only(Kind::Adaptive)),
    ("recursive", KindPattern::Only(Kind::Recursive)),
    ("errorcheck", KindPattern::Only(Kind::Errorcheck)),
    ("rwlock", KindPattern::Only(Kind::Rwlock)),
    ("spin", KindPattern::Only(Kind::Spin)),
    ("cond", KindPattern::Only(Kind::Cond)),
];

impl KindPattern {
    /// Whether a lock of sort `kind` is meant.
    #[must_use]
    pub fn matches(self, kind: Kind) -> bool {
        match self {
            KindPattern::Mutex => {
                matches!(kind, Kind::Normal | Kind::Adaptive | Kind::Recursive | Kind::Errorcheck)
            }
            KindPattern::Only(only) => only == kind,
        }
    }
}

impl fmt::Display for KindPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, pattern)| pattern == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}
