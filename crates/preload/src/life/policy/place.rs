//! From a lock to the rule that decides for it.

use lockwork_policy::{Init, Kind, Policy, Rule, Site, Variable};

use super::modules::{self, Loaded, Module};
use super::{cache, call};

/// Stands for "no rule" in the cache; there are fewer rules.
const NONE: u16 = u16::MAX;

/// The index of the first rule that matches the lock at `address`, used by the call that returns to `caller`.
pub(super) fn rule(policy: &Policy, address: usize, caller: usize, kind: Kind) -> Option<u16> {
    let needs_lock = policy.needs_lock_symbol() || policy.needs_lock_location();
    let needs_place = policy.needs_function() || policy.needs_location() || needs_lock;
    if !needs_place || kind == Kind::Spin {
        return by_kind(policy, kind);
    }
    let lock = if needs_lock { modules::find(address) } else { None };
    // The return address may be the first one of the next function.
    let code = modules::find(caller.wrapping_sub(1));
    let identity = code.as_ref().map_or(0, |code| code.identity);
    // A lock that lies in no module is decided by its place alone.
    if lock.is_none()
        && let Some(known) = cache::get(caller, kind, identity)
    {
        return (known != NONE).then_some(known);
    }
    let needs_symbols = policy.needs_function() || policy.needs_lock_symbol();
    let is_known = lock.is_none();
    let lock = lock.and_then(|lock| Point::new(&lock, address, needs_symbols));
    let code = code.and_then(|code| Point::new(&code, caller, needs_symbols));
    let rule = first(policy, |rule| matches(rule, code.as_ref(), lock.as_ref(), kind));
    if is_known {
        cache::put(caller, kind, identity, rule.unwrap_or(NONE));
    }
    rule
}

/// The first rule that matches a lock of which nothing but its sort is known.
pub(super) fn by_kind(policy: &Policy, kind: Kind) -> Option<u16> {
    first(policy, |rule| matches(rule, None, None, kind))
}

fn first(policy: &Policy, matches: impl Fn(&Rule) -> bool) -> Option<u16> {
    policy.rules.iter().position(matches).map(|index| index as u16)
}

/// An address in a module.
struct Point {
    module: &'static Module,
    address: usize,
    offset: usize,
}

impl Point {
    fn new(loaded: &Loaded, address: usize, with_symbols: bool) -> Option<Self> {
        Some(Self { module: loaded.module(with_symbols)?, address, offset: loaded.offset(address) })
    }

    /// The names of the variable around it.
    fn variables(&self) -> impl Iterator<Item = &'static str> + Clone {
        names(self.module, self.offset)
    }

    /// The names of the function that the call before it is in.
    fn functions(&self) -> impl Iterator<Item = &'static str> + Clone {
        names(self.module, self.offset.wrapping_sub(1))
    }

    /// The offsets by which a rule may name the call before it.
    fn calls(&self) -> impl Iterator<Item = usize> + Clone {
        let bias = self.address.wrapping_sub(self.offset);
        call::places(self.address).map(move |place| place.wrapping_sub(bias))
    }
}

fn names(module: &'static Module, offset: usize) -> impl Iterator<Item = &'static str> + Clone {
    module.symbols.iter().flat_map(move |symbols| symbols.at(offset as u64))
}

/// Whether a rule matches under any of the names that the places have: a function or variable may have several, and so
/// have modules and calls.
fn matches(rule: &Rule, code: Option<&Point>, lock: Option<&Point>, kind: Kind) -> bool {
    let site = Site {
        module: None,
        offset: 0,
        symbol: None,
        lock_module: None,
        lock_offset: 0,
        lock_symbol: None,
        kind,
    };
    let with_lock =
        |site: Site<'_>| match (&rule.symbol, lock) {
            (Some(Variable::Name(_)), Some(lock)) => {
                lock.variables().any(|name| rule.matches(&Site { lock_symbol: Some(name), ..site }))
            }
            (Some(Variable::Location(_)), Some(lock)) => lock.module.names.iter().any(|&name| {
                rule.matches(&Site { lock_module: Some(name), lock_offset: lock.offset, ..site })
            }),
            _ => rule.matches(&site),
        };
    match (&rule.init, code) {
        (Some(Init::Location(_)), Some(code)) => {
            code.module.names.iter().any(|&name| {
                code.calls().any(|offset| with_lock(Site { module: Some(name), offset, ..site }))
            })
        }
        (Some(Init::Function(_)), Some(code)) => {
            code.functions().any(|name| with_lock(Site { symbol: Some(name), ..site }))
        }
        _ => with_lock(site),
    }
}
