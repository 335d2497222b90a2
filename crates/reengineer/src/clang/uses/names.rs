//! How the types of mutexes are named: by POSIX's names, by typedefs, and by macros, each where another name can be written or cannot.

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::initialisers::word;
use super::{TYPES, Walker, is_object, sort};
use crate::clang::cursor::{EXPANDED, children, kind, referenced, spelling, start_of};
use crate::clang::types::{canonical_type, is_const_type, is_volatile_type, type_of};
use crate::locks::{Fact, Origin, Place};

impl Walker<'_> {
    /// The type names of a declaration or a cast are those of the thing.
    pub(super) fn types(&mut self, thing: &str, cursor: CXCursor) {
        let names: Vec<_> =
            children(cursor).into_iter().filter(|child| kind(*child) == CXCursor_TypeRef).collect();
        if names.is_empty() {
            self.keep(thing.to_owned(), cursor, "its type is not named where it is declared");
        }
        for name in names {
            self.type_name(thing, name);
        }
    }

    /// A type whose size is asked for where memory is allocated is that of the thing that the memory is for.
    pub(super) fn sizes(&mut self, thing: &str, cursor: CXCursor) {
        for child in children(cursor) {
            if kind(child) == CXCursor_TypeRef {
                self.type_name(thing, child);
            }
            self.sizes(thing, child);
        }
    }

    /// Notes by what name the type of a thing is named there.
    fn type_name(&mut self, thing: &str, name: CXCursor) {
        let of = referenced(name);
        let Some(sort) = sort(type_of(of)) else { return };
        let (thing, stands_for) = (thing.to_owned(), TYPES[sort]);
        let spelt = spelling(of);
        let place = self.token(name, &spelt);
        let fact = match (TYPES.contains(&spelt.as_str()), place) {
            (true, Some(at)) => match self.alias(name, &at) {
                Some(alias) => {
                    Fact::Named { thing, by: at.to_string(), at: alias, stands_for, body: Some(at) }
                }
                None => Fact::Type { thing, at },
            },
            (true, None) => Fact::Escapes {
                origin: Origin::Of(thing),
                at: self.place(name),
                how: "its type comes from a macro of a macro",
            },
            (false, Some(at)) if is_plain(of) => {
                Fact::Named { thing, by: self.thing(of), at, stands_for, body: None }
            }
            (false, _) => Fact::Through { thing, by: self.thing(of), at: self.place(name) },
        };
        self.facts.push(fact);
    }

    /// Where a macro is named that stands for nothing but the type whose name is spelt at `at`, in its body.
    fn alias(&mut self, name: CXCursor, at: &Place) -> Option<Place> {
        let used = self.place(name);
        if used == *at {
            return None;
        }
        let text = (self.text)(&at.file)?;
        let line = text.get(..at.offset)?.rfind('\n').map_or(0, |end| end + 1);
        let head =
            text[line..at.offset].trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
        let macro_name = word(head.trim_start());
        let is_bare = head.trim() == macro_name && head.ends_with([' ', '\t']);
        let rest = &text[at.offset + word(&text[at.offset..]).len()..];
        let is_all = rest.lines().next().unwrap_or_default().trim().is_empty();
        let there = (self.text)(&used.file)?;
        let is_named = word(there.get(used.offset..)?) == macro_name;
        (is_bare && is_all && is_named && !macro_name.is_empty()).then_some(used)
    }

    /// A size that is asked for by a name of a mutex's type.
    pub(super) fn size(&mut self, cursor: CXCursor) {
        for child in children(cursor).into_iter().filter(|child| kind(*child) == CXCursor_TypeRef) {
            let of = referenced(child);
            if sort(type_of(of)).is_none() {
                continue;
            }
            let spelt = spelling(of);
            let Some(at) = self.token(child, &spelt) else { continue };
            let is_base = TYPES.contains(&spelt.as_str());
            let (by, at) = match self.alias(child, &at).filter(|_| is_base) {
                Some(alias) => (at.to_string(), alias),
                None if is_base => {
                    self.facts.push(Fact::Size(at));
                    continue;
                }
                None => (self.thing(of), at),
            };
            let expanded = self.paths.place(start_of(child), EXPANDED);
            let of_macro = expanded.as_ref() != Some(&at);
            self.facts.push(Fact::Sized { by, at, of_macro });
        }
    }
}

/// Whether a typedef is another name of one of [`TYPES`], and nothing more.
fn is_plain(typedef: CXCursor) -> bool {
    let own = type_of(typedef);
    let canonical = canonical_type(own);
    is_object(own) && !is_const_type(canonical) && !is_volatile_type(canonical)
}
