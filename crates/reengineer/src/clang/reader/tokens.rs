//! The words of the text that a cursor has.

use std::ptr;

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::Reader;
use crate::clang::cursor::{WRITTEN, extent_of, offset, owned, start_of};

impl Reader<'_> {
    /// All, each with its place in the file.
    pub(super) fn tokens(&self, cursor: CXCursor) -> Vec<(String, usize)> {
        self.tokens_of(extent_of(cursor))
    }

    /// What a cursor begins with, as it is spelt, perhaps in the body of a macro: where it ends may be elsewhere.
    pub(super) fn first_token(&self, cursor: CXCursor) -> String {
        let start = start_of(cursor);
        // SAFETY: a location of libclang.
        let range = unsafe { clang_getRange(start, start) };
        self.tokens_of(range).into_iter().next().map(|(text, _)| text).unwrap_or_default()
    }

    fn tokens_of(&self, extent: CXSourceRange) -> Vec<(String, usize)> {
        let (mut tokens, mut count) = (ptr::null_mut(), 0);
        // SAFETY: libclang allocates the tokens.
        unsafe { clang_tokenize(self.unit, extent, &raw mut tokens, &raw mut count) };
        let mut found = Vec::new();
        for number in 0..count as usize {
            // SAFETY: fewer than there are.
            let place = unsafe { tokens.add(number) };
            // SAFETY: as above.
            let token = unsafe { *place };
            // SAFETY: a token of this unit.
            let text = owned(unsafe { clang_getTokenSpelling(self.unit, token) });
            // SAFETY: as above.
            let location = unsafe { clang_getTokenLocation(self.unit, token) };
            found.push((text, offset(location, WRITTEN).1));
        }
        if !tokens.is_null() {
            // SAFETY: as many as libclang said.
            unsafe { clang_disposeTokens(self.unit, tokens, count) };
        }
        found
    }
}
