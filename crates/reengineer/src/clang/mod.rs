//! libclang: the one place that calls it. It is loaded when the tool runs.
//!
//! [`cursor`] and [`types`] ask it questions, [`reader`] makes trees of functions by the answers, and [`uses`] the facts about mutexes.

#![allow(non_upper_case_globals, reason = "libclang's constants are called so")]

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::ptr;

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use crate::error::Error;
use crate::locks::Fact;
use crate::tree::Function;
use crate::vocabulary::Vocabulary;

mod cursor;
mod reader;
mod types;
mod uses;

use cursor::{Paths, WRITTEN, children, location_of, offset, owned};
use reader::Reader;

/// Loads libclang for this thread.
///
/// # Errors
///
/// If there is none.
pub(crate) fn load() -> Result<(), Error> {
    if is_loaded() {
        return Ok(());
    }
    clang_sys::load().map_err(|reason| Error::NoLibclang { reason })
}

/// A file as the compiler sees it.
#[derive(Debug)]
pub(crate) struct Unit {
    /// The functions that the file itself defines.
    pub functions: Vec<Function>,
    /// Those that the program's headers define, with the headers.
    pub of_headers: Vec<(PathBuf, Function)>,
    /// What the compiler calls an error, as it says it.
    pub errors: Vec<String>,
    /// Where in the file that is; `None`: in another one.
    pub error_places: Vec<Option<usize>>,
    /// What it says of mutexes, if that was asked for.
    pub facts: Vec<Fact>,
}

/// That mutexes are to be known, and the texts of the program's files by their paths.
pub(crate) struct Asked<'a> {
    /// The texts.
    pub text: &'a mut dyn FnMut(&Path) -> Option<String>,
}

/// A text that stands for a file that is not saved.
#[derive(Clone, Debug)]
pub(crate) struct Unsaved {
    /// The file's path.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// Parses `file` as `arguments` say, in `directory`. Texts of `unsaved` take the place of files.
///
/// # Errors
///
/// If libclang cannot parse it at all.
pub(crate) fn parse(
    file: &Path,
    directory: &Path,
    arguments: &[String],
    unsaved: &[Unsaved],
    vocabulary: &Vocabulary,
    asked: Option<Asked<'_>>,
) -> Result<Unit, Error> {
    let path = directory.join(file);
    let own = unsaved.iter().find(|other| other.path == file).map_or("", |own| own.text.as_str());
    let text =
        |path: &Path| CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| Error::parse(path));
    let name = text(&path)?;
    let arguments = std::iter::once(format!("-working-directory={}", directory.display()))
        .chain(arguments.iter().cloned())
        .map(|argument| CString::new(argument).map_err(|_| Error::parse(&path)))
        .collect::<Result<Vec<_>, _>>()?;
    let names = unsaved.iter().map(|file| text(&file.path)).collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<_> = unsaved
        .iter()
        .zip(&names)
        .map(|(file, name)| CXUnsavedFile {
            Filename: name.as_ptr(),
            Contents: file.text.as_ptr().cast(),
            Length: file.text.len() as u64,
        })
        .collect();
    let parsed = Parsed::of(&name, &arguments, &mut files).ok_or_else(|| Error::parse(&path))?;
    Ok(read(parsed.unit, directory, own, vocabulary, asked))
}

/// What libclang has parsed, for as long as it is alive.
struct Parsed {
    index: CXIndex,
    unit: CXTranslationUnit,
}

impl Parsed {
    /// The file of this name; `None` if libclang cannot parse it.
    fn of(name: &CString, arguments: &[CString], files: &mut [CXUnsavedFile]) -> Option<Self> {
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
        // SAFETY: libclang is loaded (`load`).
        let index = unsafe { clang_createIndex(0, 0) };
        let mut parsed = Self { index, unit: ptr::null_mut() };
        // SAFETY: the arrays live until the call returns, and have these lengths.
        let outcome = unsafe {
            clang_parseTranslationUnit2(
                index,
                name.as_ptr(),
                arguments.as_ptr(),
                arguments.len() as i32,
                files.as_mut_ptr(),
                files.len() as u32,
                CXTranslationUnit_KeepGoing,
                &raw mut parsed.unit,
            )
        };
        (outcome == CXError_Success).then_some(parsed)
    }
}

impl Drop for Parsed {
    fn drop(&mut self) {
        if !self.unit.is_null() {
            // SAFETY: made by `of`; nothing that is kept refers to it.
            unsafe { clang_disposeTranslationUnit(self.unit) };
        }
        // SAFETY: as for the unit.
        unsafe { clang_disposeIndex(self.index) };
    }
}

/// What is in a unit whose file has the text `text`.
fn read(
    unit: CXTranslationUnit,
    directory: &Path,
    text: &str,
    vocabulary: &Vocabulary,
    asked: Option<Asked<'_>>,
) -> Unit {
    // SAFETY: the unit is alive.
    let root = unsafe { clang_getTranslationUnitCursor(unit) };
    let reader = Reader::new(unit, text, vocabulary);
    let functions = children(root).into_iter().filter_map(|cursor| reader.function(cursor, true)).collect();
    // Macros that take locks are found by the text of a file, which is not a header's.
    let of_header = Reader::new(unit, "", vocabulary);
    let paths = Paths::below(directory);
    let in_header = |cursor| {
        let function = of_header.function(cursor, false)?;
        Some((paths.place(location_of(cursor), WRITTEN)?.file, function))
    };
    let headers = if asked.is_some() { children(root) } else { Vec::new() };
    let of_headers = headers.into_iter().filter_map(in_header).collect();
    let facts = asked.map(|asked| uses::facts(root, &paths, vocabulary, asked.text)).unwrap_or_default();
    let (errors, error_places) = errors(unit).into_iter().unzip();
    Unit { functions, of_headers, errors, error_places, facts }
}

/// What the compiler calls an error, and where in the file it is.
fn errors(unit: CXTranslationUnit) -> Vec<(String, Option<usize>)> {
    // SAFETY: the unit is alive.
    let count = unsafe { clang_getNumDiagnostics(unit) };
    let mut found = Vec::new();
    for number in 0..count {
        // SAFETY: fewer than there are.
        let diagnostic = unsafe { clang_getDiagnostic(unit, number) };
        // SAFETY: got above.
        if unsafe { clang_getDiagnosticSeverity(diagnostic) } >= CXDiagnostic_Error {
            // SAFETY: it takes nothing.
            let options = unsafe { clang_defaultDiagnosticDisplayOptions() };
            // SAFETY: as above, with options of libclang.
            let said = owned(unsafe { clang_formatDiagnostic(diagnostic, options) });
            // SAFETY: got above.
            let location = unsafe { clang_getDiagnosticLocation(diagnostic) };
            // SAFETY: a location of a living unit.
            let is_own = unsafe { clang_Location_isFromMainFile(location) } != 0;
            found.push((said, is_own.then(|| offset(location, WRITTEN).1)));
        }
        // SAFETY: got above, and not used any more.
        unsafe { clang_disposeDiagnostic(diagnostic) };
    }
    found
}
