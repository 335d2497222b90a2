//! What libclang says of cursors and of places in the text, by functions that are safe to call.
//!
//! SAFETY: every cursor, location and file that there is in [`crate::clang`] is of a unit that is alive. [`super::parse`] makes the
//! unit, and gives it up when all that was read of it is owned.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::ptr;

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use crate::locks::Place;

extern "C" fn note_child(child: CXCursor, _: CXCursor, to: CXClientData) -> CXChildVisitResult {
    // SAFETY: `children` passes a vector.
    unsafe { &mut *to.cast::<Vec<CXCursor>>() }.push(child);
    CXChildVisit_Continue
}

pub(super) fn children(cursor: CXCursor) -> Vec<CXCursor> {
    let mut found: Vec<CXCursor> = Vec::new();
    // SAFETY: the vector outlives the call, and the visitor takes it for one.
    unsafe { clang_visitChildren(cursor, note_child, (&raw mut found).cast()) };
    found
}

/// Whether something in a cursor's tree, itself included, is so.
pub(super) fn has(cursor: CXCursor, is_it: &dyn Fn(CXCursor) -> bool) -> bool {
    is_it(cursor) || children(cursor).into_iter().any(|child| has(child, is_it))
}

pub(super) fn kind(cursor: CXCursor) -> CXCursorKind {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorKind(cursor) }
}

pub(super) fn spelling(cursor: CXCursor) -> String {
    // SAFETY: a cursor of a living unit, as all cursors here.
    owned(unsafe { clang_getCursorSpelling(cursor) })
}

/// The text of a string of libclang, which is freed.
pub(super) fn owned(string: CXString) -> String {
    // SAFETY: a string of libclang.
    let text = unsafe { clang_getCString(string) };
    let result = if text.is_null() {
        String::new()
    } else {
        // SAFETY: libclang terminates its strings.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    // SAFETY: not used any more.
    unsafe { clang_disposeString(string) };
    result
}

/// A declaration's name in the program.
pub(super) fn name_of(cursor: CXCursor) -> String {
    // SAFETY: see `spelling`.
    owned(unsafe { clang_getCursorUSR(cursor) })
}

/// Whether two are one.
pub(super) fn is_same(one: CXCursor, other: CXCursor) -> bool {
    // SAFETY: see `spelling`.
    unsafe { clang_equalCursors(one, other) != 0 }
}

/// What a name, a member or a type's name refers to.
pub(super) fn referenced(cursor: CXCursor) -> CXCursor {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorReferenced(cursor) }
}

/// The definition of what is declared there, if the unit has it.
pub(super) fn definition_of(cursor: CXCursor) -> CXCursor {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorDefinition(cursor) }
}

pub(super) fn is_definition(cursor: CXCursor) -> bool {
    // SAFETY: see `spelling`.
    unsafe { clang_isCursorDefinition(cursor) != 0 }
}

/// The first declaration of what is declared there.
pub(super) fn first_declaration(cursor: CXCursor) -> CXCursor {
    // SAFETY: see `spelling`.
    unsafe { clang_getCanonicalCursor(cursor) }
}

/// What a declaration belongs to.
pub(super) fn parent_of(cursor: CXCursor) -> CXCursor {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorSemanticParent(cursor) }
}

/// What a declaration is written in.
pub(super) fn lexical_parent_of(cursor: CXCursor) -> CXCursor {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorLexicalParent(cursor) }
}

/// Whether a name means something in its own block only.
pub(super) fn has_no_linkage(cursor: CXCursor) -> bool {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorLinkage(cursor) == CXLinkage_NoLinkage }
}

pub(super) fn storage_of(cursor: CXCursor) -> CX_StorageClass {
    // SAFETY: see `spelling`.
    unsafe { clang_Cursor_getStorageClass(cursor) }
}

/// Whether a variable is declared `static` or `extern`.
pub(super) fn is_static(cursor: CXCursor) -> bool {
    matches!(storage_of(cursor), CX_SC_Static | CX_SC_Extern)
}

/// Whether each thread has a variable of its own.
pub(super) fn is_of_thread(cursor: CXCursor) -> bool {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorTLSKind(cursor) != CXTLS_None }
}

/// Whether a structure or a union has no name and declares no variable: its members are those of what is around.
pub(super) fn is_anonymous_record(cursor: CXCursor) -> bool {
    // SAFETY: see `spelling`.
    unsafe { clang_Cursor_isAnonymousRecordDecl(cursor) != 0 }
}

/// The attributes of a declaration.
pub(super) fn attributes_of(cursor: CXCursor) -> impl Iterator<Item = CXCursor> {
    // SAFETY: it takes a number.
    children(cursor).into_iter().filter(|child| unsafe { clang_isAttribute(kind(*child)) } != 0)
}

pub(super) fn is_expression(cursor: CXCursor) -> bool {
    // SAFETY: it takes a number.
    unsafe { clang_isExpression(kind(cursor)) != 0 }
}

/// What is inside of parentheses and of conversions that are not spelt.
pub(super) fn bare(mut cursor: CXCursor) -> CXCursor {
    while let (CXCursor_ParenExpr | CXCursor_UnexposedExpr, [inner]) =
        (kind(cursor), children(cursor).as_slice())
    {
        cursor = *inner;
    }
    cursor
}

/// The arguments of a call, or the parameters of a function.
pub(super) fn arguments(cursor: CXCursor) -> Vec<CXCursor> {
    // SAFETY: see `spelling`.
    let count = unsafe { clang_Cursor_getNumArguments(cursor) };
    // SAFETY: fewer than there are.
    (0..u32::try_from(count).unwrap_or(0)).map(|at| unsafe { clang_Cursor_getArgument(cursor, at) }).collect()
}

pub(super) fn unary_operator(cursor: CXCursor) -> CXUnaryOperatorKind {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorUnaryOperatorKind(cursor) }
}

pub(super) fn binary_operator(cursor: CXCursor) -> CXBinaryOperatorKind {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorBinaryOperatorKind(cursor) }
}

/// Whether an expression is an assignment, and not by another operator at once.
pub(super) fn is_assignment(cursor: CXCursor) -> bool {
    kind(cursor) == CXCursor_BinaryOperator && binary_operator(cursor) == CXBinaryOperator_Assign
}

/// The value of an expression that the compiler knows.
pub(super) fn value(cursor: CXCursor) -> Option<i64> {
    // SAFETY: see `spelling`.
    let value = unsafe { clang_Cursor_Evaluate(cursor) };
    if value.is_null() {
        return None;
    }
    // SAFETY: got above.
    let is_integer = unsafe { clang_EvalResult_getKind(value) } == CXEval_Int;
    // SAFETY: got above.
    let number = unsafe { clang_EvalResult_getAsLongLong(value) };
    // SAFETY: got above, and not used any more.
    unsafe { clang_EvalResult_dispose(value) };
    is_integer.then_some(number)
}

/// A function that asks libclang where a location is.
pub(super) type Locate = unsafe fn(CXSourceLocation, *mut CXFile, *mut u32, *mut u32, *mut u32);

/// In the text of a file: of what a macro has, where the macro is used; of its arguments, where they are written there.
pub(super) const WRITTEN: Locate = clang_getFileLocation;

/// Where the word is, perhaps in the body of a macro.
pub(super) const SPELT: Locate = clang_getSpellingLocation;

/// Of all that a macro has or is given, where it is used.
pub(super) const EXPANDED: Locate = clang_getExpansionLocation;

/// The file, null if there is none, and the offset there.
pub(super) fn offset(location: CXSourceLocation, locate: Locate) -> (CXFile, usize) {
    let (mut file, mut offset) = (ptr::null_mut(), 0);
    // SAFETY: the places to write to are valid; null means that a figure is not wanted.
    unsafe { locate(location, &raw mut file, ptr::null_mut(), ptr::null_mut(), &raw mut offset) };
    (file, offset as usize)
}

/// Where the name of a declaration is.
pub(super) fn location_of(cursor: CXCursor) -> CXSourceLocation {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorLocation(cursor) }
}

pub(super) fn extent_of(cursor: CXCursor) -> CXSourceRange {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorExtent(cursor) }
}

/// Where a cursor's text begins.
pub(super) fn start_of(cursor: CXCursor) -> CXSourceLocation {
    // SAFETY: an extent of libclang.
    unsafe { clang_getRangeStart(extent_of(cursor)) }
}

/// Where a cursor's text ends.
pub(super) fn end_of(cursor: CXCursor) -> CXSourceLocation {
    // SAFETY: an extent of libclang.
    unsafe { clang_getRangeEnd(extent_of(cursor)) }
}

pub(super) fn is_in_system_header(location: CXSourceLocation) -> bool {
    // SAFETY: a location of a living unit.
    unsafe { clang_Location_isInSystemHeader(location) != 0 }
}

/// Whether a declaration is a header's of the system, or the compiler's own.
pub(super) fn is_of_system(declaration: CXCursor) -> bool {
    let location = location_of(declaration);
    offset(location, WRITTEN).0.is_null() || is_in_system_header(location)
}

/// Whether two files are one.
pub(super) fn is_same_file(one: CXFile, other: CXFile) -> bool {
    // SAFETY: files of a living unit, or null.
    unsafe { clang_File_isEqual(one, other) != 0 }
}

/// The paths of the files of a unit, each of which the system is asked for once: there is a cursor for every word of a program.
#[derive(Debug)]
pub(super) struct Paths<'a> {
    directory: &'a Path,
    known: RefCell<HashMap<CXFile, PathBuf>>,
}

impl<'a> Paths<'a> {
    pub(super) fn below(directory: &'a Path) -> Self {
        Self { directory, known: RefCell::default() }
    }

    /// Where a location of a living unit is, if it is in a file.
    pub(super) fn place(&self, location: CXSourceLocation, locate: Locate) -> Option<Place> {
        let (file, offset) = offset(location, locate);
        (!file.is_null()).then(|| Place { file: self.of(file), offset })
    }

    /// The path of a file of a living unit.
    pub(super) fn of(&self, file: CXFile) -> PathBuf {
        let find = || {
            // SAFETY: the caller's file.
            let path = self.directory.join(owned(unsafe { clang_getFileName(file) }));
            path.canonicalize().unwrap_or(path)
        };
        self.known.borrow_mut().entry(file).or_insert_with(find).clone()
    }
}
