//! What mutexes and the fields of structures are initialised with, and which of the program's macros POSIX's initialiser comes from.

use std::collections::BTreeSet;
use std::path::PathBuf;

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::{Walker, is_object, sort};
use crate::clang::cursor::{SPELT, children, is_in_system_header, kind, referenced, start_of};
use crate::clang::types::{canonical_type, declaration_of, is_blank, type_of};
use crate::locks::{Fact, Origin, Place};

const INITIALISERS: [&str; 2] = ["PTHREAD_MUTEX_INITIALIZER", "PTHREAD_COND_INITIALIZER"];

impl Walker<'_> {
    /// An initialiser of a mutex, or of an array of them.
    pub(super) fn initialised(&mut self, thing: &str, init: CXCursor) {
        let init = value_of(init);
        if kind(init) != CXCursor_InitListExpr {
            return;
        }
        if !is_object(type_of(init)) {
            for child in children(init) {
                self.initialised(thing, child);
            }
            return;
        }
        let at = self.place(init);
        let text = (self.text)(&at.file).unwrap_or_default();
        let rest = text.get(at.offset..).unwrap_or_default();
        let thing = thing.to_owned();
        if INITIALISERS.iter().any(|name| rest.starts_with(*name)) {
            self.facts.push(Fact::Initialiser { thing, at });
            return;
        }
        if rest.starts_with('{') && is_zero(rest) {
            return;
        }
        if let Some(body) = self.initialiser(init) {
            self.initialised.insert(at);
            self.facts.push(Fact::Initialiser { thing, at: body });
            return;
        }
        let is_plain = rest.starts_with("PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP");
        if !is_plain {
            let origin = Origin::Of(thing.clone());
            self.facts.push(Fact::Owned { origin, at: at.clone(), by_attributes: false });
        }
        let how = if rest.starts_with('{') || rest.starts_with("PTHREAD_") {
            "its initialiser is not PTHREAD_MUTEX_INITIALIZER"
        } else {
            "its initialiser comes from a macro that is not understood (write PTHREAD_MUTEX_INITIALIZER there)"
        };
        self.facts.push(Fact::Escapes { origin: Origin::Of(thing), at, how });
    }

    /// Where one of the program's macros has POSIX's initialiser, which this one comes from.
    fn initialiser(&mut self, init: CXCursor) -> Option<Place> {
        let name = INITIALISERS[sort(type_of(init))?];
        // It is spelt in the body of POSIX's macro, and no other of its kind.
        let spelt = self.paths.place(start_of(init), SPELT)?;
        let text = (self.text)(&spelt.file)?;
        let (_, defined) = text.get(..spelt.offset)?.rsplit_once("define")?;
        if word(defined.trim_start()) != name {
            return None;
        }
        let used = self.place(init);
        let mut macro_name = word((self.text)(&used.file)?.get(used.offset..)?).to_owned();
        // Macros may stand for others; a chain of them has an end.
        for _ in 0..8 {
            let (at, body) = self.only_definition(&macro_name)?;
            let is_whole =
                |place: &usize| word(&body[*place..]) == name && !body[..*place].ends_with(is_of_word);
            let named: Vec<usize> =
                body.match_indices(name).map(|(place, _)| place).filter(is_whole).collect();
            match named.as_slice() {
                [place] => return Some(Place { offset: at.offset + place, file: at.file }),
                [] => only_macro(&body)?.clone_into(&mut macro_name),
                _ => return None,
            }
        }
        None
    }

    /// The text of a macro's body, and where that is, if the program's files that are read here define it once.
    fn only_definition(&mut self, name: &str) -> Option<(Place, String)> {
        let mut found = None;
        for file in self.files() {
            let Some(text) = (self.text)(&file) else { continue };
            for (at, _) in text.match_indices("define") {
                let behind = &text[at + "define".len()..];
                let head = behind.trim_start_matches([' ', '\t']);
                let is_directive = text[..at].trim_end_matches([' ', '\t']).ends_with('#');
                if !is_directive || head.len() == behind.len() || word(head) != name {
                    continue;
                }
                let mut offset = text.len() - head.len() + name.len();
                if text[offset..].starts_with('(') {
                    offset += text[offset..].find(')')? + 1;
                }
                let body = &text[offset..];
                let end =
                    body.match_indices('\n').map(|(end, _)| end).find(|end| !body[..*end].ends_with('\\'));
                let body = body[..end.unwrap_or(body.len())].to_owned();
                if found.replace((Place { file: file.clone(), offset }, body)).is_some() {
                    return None;
                }
            }
        }
        found
    }

    /// The program's files that are read here.
    fn files(&self) -> BTreeSet<PathBuf> {
        let mut found: Vec<CXFile> = Vec::new();
        // SAFETY: the vector outlives the call, and the visitor takes it for one.
        unsafe { clang_getInclusions(self.unit, note_file, (&raw mut found).cast()) };
        let is_of_program = |file: &CXFile| {
            // SAFETY: a file of a living unit.
            let begin = unsafe { clang_getLocationForOffset(self.unit, *file, 0) };
            !is_in_system_header(begin)
        };
        found.into_iter().filter(is_of_program).map(|file| self.paths.of(file)).collect()
    }

    /// Initialisers of a structure's fields.
    pub(super) fn list(&mut self, cursor: CXCursor, below: &[CXCursor]) {
        let canonical = canonical_type(type_of(cursor));
        if is_object(canonical) {
            let at = self.place(cursor);
            // What a macro of the program's initialises here is not known.
            if !self.initialised.contains(&at)
                && let Some(body) = self.initialiser(cursor)
            {
                self.keep(body.to_string(), cursor, "its initialiser's macro is used for another one, too");
            }
            return;
        }
        if canonical.kind != CXType_Record {
            return;
        }
        for (field, value) in values_of_fields(declaration_of(canonical), below) {
            let thing = |walker: &Self| walker.thing(field);
            let (is_lock, of_lock) = (sort(type_of(value)).is_some(), sort(type_of(field)).is_some());
            if is_lock && of_lock {
                let thing = thing(self);
                self.initialised(&thing, value);
                self.same(&thing, value);
            } else if is_blank(type_of(field)) {
                let thing = thing(self);
                self.goes(&thing, value);
            } else if is_lock {
                self.escapes(value, "it initialises a field that is not clear");
            }
        }
    }
}

/// The fields of a structure with the values that the parts of an initialiser give them.
fn values_of_fields(declaration: CXCursor, below: &[CXCursor]) -> Vec<(CXCursor, CXCursor)> {
    let is_field = |child: &CXCursor| kind(*child) == CXCursor_FieldDecl;
    let fields: Vec<_> = children(declaration).into_iter().filter(is_field).collect();
    let mut found = Vec::new();
    let mut designated = None;
    let mut at = 0;
    for child in below {
        if kind(*child) == CXCursor_MemberRef {
            designated = Some(referenced(*child));
            continue;
        }
        // A designator is a child of what it designates in some versions of libclang. The last one names the field.
        let parts = children(*child);
        let inside = parts.iter().rfind(|inner| kind(**inner) == CXCursor_MemberRef);
        let field = designated.take().or(inside.map(|inner| referenced(*inner))).or(fields.get(at).copied());
        at += 1;
        let value = if inside.is_some() { parts.last().copied() } else { Some(*child) };
        found.extend(field.zip(value));
    }
    found
}

/// The value of an element of an initialiser with its designators, `[2] = …` or `.a.b = …`; of others, itself.
pub(super) fn value_of(cursor: CXCursor) -> CXCursor {
    let below = children(cursor);
    let is_designated = kind(cursor) == CXCursor_UnexposedExpr && below.len() > 1;
    below.last().copied().filter(|_| is_designated).unwrap_or(cursor)
}

extern "C" fn note_file(file: CXFile, _: *mut CXSourceLocation, _: u32, to: CXClientData) {
    // SAFETY: `files` passes a vector.
    unsafe { &mut *to.cast::<Vec<CXFile>>() }.push(file);
}

fn is_of_word(next: char) -> bool {
    next.is_ascii_alphanumeric() || next == '_'
}

/// The word that a text begins with.
pub(super) fn word(text: &str) -> &str {
    text.find(|next| !is_of_word(next)).map_or(text, |end| &text[..end])
}

/// The name of the macro that a macro's body consists of, with arguments or without.
fn only_macro(body: &str) -> Option<&str> {
    let name = word(body.trim());
    let behind = body.trim()[name.len()..].trim();
    let mut depth = 0_usize;
    for (at, next) in behind.char_indices() {
        match next {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            '"' | '\'' => return None,
            _ => {}
        }
        if depth == 0 && at + 1 < behind.len() {
            return None;
        }
    }
    (!name.is_empty() && depth == 0 && (behind.is_empty() || behind.ends_with(')'))).then_some(name)
}

/// Whether a text begins with braces that have nothing in them but zeros.
fn is_zero(text: &str) -> bool {
    let mut depth = 0_usize;
    for next in text.chars() {
        match next {
            '{' => depth += 1,
            '}' if depth == 1 => return true,
            '}' => depth -= 1,
            '0' | ',' | ' ' | '\n' | '\t' => {}
            _ => return false,
        }
    }
    false
}
