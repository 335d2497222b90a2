//! The policy file: which lock of a program gets which algorithm.
//!
//! ```toml
//! default = "gcr(mcs-stp)"              # for locks that no rule matches; "passthrough" when left out
//!
//! [[rule]]
//! init = "librocksdb.so.7+0x1a2b3c"     # the code that initialised, or first took, the lock
//! lock = "mcs-stp"
//!
//! [[rule]]
//! init = "rocksdb::LRUCache::Insert"    # the same, by the function around it
//! lock = "ticket"
//!
//! [[rule]]
//! symbol = "global_mutex"               # a static lock, by its own symbol, or "libfoo.so.1+0x1a2b" where it has none
//! kind = "mutex"                        # every condition of a rule must hold
//! lock = "ttas"
//! ```
//!
//! The first rule that matches decides. [`Policy::parse`] allocates; [`Policy::choose`] never does, for it runs
//! inside lock calls, which may themselves be inside malloc.
#![no_std]

extern crate alloc;

mod error;
mod kind;
mod mangled;
mod module;
mod parse;
mod symbol;

use alloc::vec::Vec;
use core::fmt;

pub use error::PolicyError;
pub use kind::{Kind, KindPattern};
pub use lockwork_locks::registry::Choice;
pub use module::Location;
pub use symbol::SymbolPattern;

/// A policy file, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// For locks that no rule matches.
    pub default: Choice,
    /// In the file's order; the first that matches decides.
    pub rules: Vec<Rule>,
}

/// Conditions, all of which must hold, and the lock for what they match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where the lock was initialised or first taken.
    pub init: Option<Init>,
    /// The lock itself, if it is static.
    pub symbol: Option<Variable>,
    /// What sort of lock it is.
    pub kind: Option<KindPattern>,
    /// What it gets.
    pub lock: Choice,
    /// The rule's line in the file, from 1.
    pub line: usize,
}

/// A place in the program's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Init {
    /// `module+0x1234`
    Location(Location),
    /// Anywhere within a function.
    Function(SymbolPattern),
}

/// A static variable, in which a lock lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// `module+0x1234`: the lock's own address, as `nm` would show it. Stripped files have nothing else.
    Location(Location),
    /// Its name; the lock lies anywhere within.
    Name(SymbolPattern),
}

/// What is known of a lock when its algorithm is chosen. What is unknown matches no condition on it.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The file that contains the code that initialised, or first took, the lock.
    pub module: Option<&'a str>,
    /// That code's offset from the beginning of the module.
    pub offset: usize,
    /// The symbol, as the linker sees it, of the function around it.
    pub symbol: Option<&'a str>,
    /// The file in whose data the lock lies.
    pub lock_module: Option<&'a str>,
    /// The lock's offset from the beginning of that module.
    pub lock_offset: usize,
    /// The symbol, as the linker sees it, of the lock itself.
    pub lock_symbol: Option<&'a str>,
    /// What sort of lock it is.
    pub kind: Kind,
}

impl Policy {
    /// Parses a policy file.
    ///
    /// # Errors
    ///
    /// The first problem with its line and column; the message says what to write instead.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        parse::policy(text)
    }

    /// The first rule that matches; `None` means the default. Does not allocate.
    #[must_use]
    pub fn choose(&self, site: &Site<'_>) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches(site))
    }

    /// The lock for `site`: of the first rule that matches, else the default. Does not allocate.
    #[must_use]
    pub fn lock_for(&self, site: &Site<'_>) -> Choice {
        self.choose(site).map_or(self.default, |rule| rule.lock)
    }

    /// Whether any rule asks for the symbol of the function around the code, which is costly to find.
    #[must_use]
    pub fn needs_function(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.init, Some(Init::Function(_))))
    }

    /// Whether any rule asks for the module and offset of the code.
    #[must_use]
    pub fn needs_location(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.init, Some(Init::Location(_))))
    }

    /// Whether any rule asks for the symbol of the lock, which is costly to find.
    #[must_use]
    pub fn needs_lock_symbol(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.symbol, Some(Variable::Name(_))))
    }

    /// Whether any rule asks which module's data the lock lies in, and where.
    #[must_use]
    pub fn needs_lock_location(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.symbol, Some(Variable::Location(_))))
    }
}

impl Rule {
    /// Whether all conditions hold. Does not allocate.
    #[must_use]
    pub fn matches(&self, site: &Site<'_>) -> bool {
        self.kind.is_none_or(|kind| kind.matches(site.kind))
            && self.init.as_ref().is_none_or(|init| init.matches(site))
            && self.symbol.as_ref().is_none_or(|symbol| symbol.matches(site))
    }
}

impl Variable {
    fn matches(&self, site: &Site<'_>) -> bool {
        match self {
            Variable::Location(location) => {
                site.lock_module.is_some_and(|module| location.matches(module, site.lock_offset))
            }
            Variable::Name(symbol) => site.lock_symbol.is_some_and(|name| symbol.matches(name)),
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variable::Location(location) => location.fmt(f),
            Variable::Name(symbol) => symbol.fmt(f),
        }
    }
}

impl Init {
    fn matches(&self, site: &Site<'_>) -> bool {
        match self {
            Init::Location(location) => {
                site.module.is_some_and(|module| location.matches(module, site.offset))
            }
            Init::Function(symbol) => site.symbol.is_some_and(|name| symbol.matches(name)),
        }
    }
}

impl fmt::Display for Init {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Init::Location(location) => location.fmt(f),
            Init::Function(symbol) => symbol.fmt(f),
        }
    }
}
