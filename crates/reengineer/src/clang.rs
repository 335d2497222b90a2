//! libclang: the one place that calls it. It is loaded when the tool runs.

#![allow(non_upper_case_globals, reason = "libclang's constants are called so")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr;

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use crate::error::Error;
use crate::locks::{Fact, Place};
use crate::source::is_stand_in;
use crate::tree::{Function, Gives, Kind, Local, Node, Reads, Shape, Unary, Variable};
use crate::vocabulary::{Expansion, Vocabulary, ends_the_thread};

mod uses;

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
    let mut all = vec![
        CString::new(format!("-working-directory={}", directory.display()))
            .map_err(|_| Error::parse(&path))?,
    ];
    for argument in arguments {
        all.push(CString::new(argument.as_str()).map_err(|_| Error::parse(&path))?);
    }
    let pointers: Vec<_> = all.iter().map(|argument| argument.as_ptr()).collect();
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
    // SAFETY: libclang is loaded (`load`).
    let index = unsafe { clang_createIndex(0, 0) };
    let mut unit = ptr::null_mut();
    // SAFETY: the arrays live until the call returns, and have these lengths.
    let outcome = unsafe {
        clang_parseTranslationUnit2(
            index,
            name.as_ptr(),
            pointers.as_ptr(),
            pointers.len() as i32,
            files.as_mut_ptr(),
            files.len() as u32,
            CXTranslationUnit_KeepGoing,
            &raw mut unit,
        )
    };
    let found = if outcome == CXError_Success {
        Ok(read(unit, directory, own, vocabulary, asked))
    } else {
        Err(Error::parse(&path))
    };
    if !unit.is_null() {
        // SAFETY: made above; nothing that is kept refers to it.
        unsafe { clang_disposeTranslationUnit(unit) };
    }
    // SAFETY: as for the unit.
    unsafe { clang_disposeIndex(index) };
    found
}

fn read(
    unit: CXTranslationUnit,
    directory: &Path,
    text: &str,
    vocabulary: &Vocabulary,
    asked: Option<Asked<'_>>,
) -> Unit {
    // SAFETY: the unit is alive.
    let root = unsafe { clang_getTranslationUnitCursor(unit) };
    let reader = Reader {
        unit,
        text,
        vocabulary,
        read: Cell::default(),
        arrays: RefCell::default(),
        names_lock: Cell::default(),
        made: RefCell::default(),
    };
    let functions = children(root).into_iter().filter_map(|cursor| reader.function(cursor, true)).collect();
    // Macros that take locks are found by the text of a file, which is not a header's.
    let of_header = Reader {
        unit,
        text: "",
        vocabulary,
        read: Cell::default(),
        arrays: RefCell::default(),
        names_lock: Cell::default(),
        made: RefCell::default(),
    };
    let paths = Paths::below(directory);
    let of_headers = if asked.is_some() {
        let all = children(root).into_iter();
        all.filter_map(|cursor| {
            let function = of_header.function(cursor, false)?;
            // SAFETY: see `spelling`.
            let location = unsafe { clang_getCursorLocation(cursor) };
            Some((paths.place(location, clang_getFileLocation as Locate)?.file, function))
        })
        .collect()
    } else {
        Vec::new()
    };
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
            found.push((said, is_own.then(|| offset(location, clang_getFileLocation as Locate).1)));
        }
        // SAFETY: got above, and not used any more.
        unsafe { clang_disposeDiagnostic(diagnostic) };
    }
    found
}

extern "C" fn note_child(child: CXCursor, _: CXCursor, to: CXClientData) -> CXChildVisitResult {
    // SAFETY: `children` passes a vector.
    unsafe { &mut *to.cast::<Vec<CXCursor>>() }.push(child);
    CXChildVisit_Continue
}

fn children(cursor: CXCursor) -> Vec<CXCursor> {
    let mut found: Vec<CXCursor> = Vec::new();
    // SAFETY: the vector outlives the call, and the visitor takes it for one.
    unsafe { clang_visitChildren(cursor, note_child, (&raw mut found).cast()) };
    found
}

/// The attributes of a declaration.
fn attributes_of(cursor: CXCursor) -> impl Iterator<Item = CXCursor> {
    // SAFETY: it takes a number.
    children(cursor).into_iter().filter(|child| unsafe { clang_isAttribute(kind(*child)) } != 0)
}

/// Where a cursor's text begins.
fn start_of(cursor: CXCursor) -> CXSourceLocation {
    // SAFETY: see `spelling`.
    let extent = unsafe { clang_getCursorExtent(cursor) };
    // SAFETY: an extent of libclang.
    unsafe { clang_getRangeStart(extent) }
}

/// The text of a string of libclang, which is freed.
fn owned(string: CXString) -> String {
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

fn spelling(cursor: CXCursor) -> String {
    // SAFETY: a cursor of a living unit, as all in this file.
    owned(unsafe { clang_getCursorSpelling(cursor) })
}

fn kind(cursor: CXCursor) -> CXCursorKind {
    // SAFETY: see `spelling`.
    unsafe { clang_getCursorKind(cursor) }
}

/// A function that asks libclang where a location is.
type Locate = unsafe fn(CXSourceLocation, *mut CXFile, *mut u32, *mut u32, *mut u32);

fn offset(location: CXSourceLocation, locate: Locate) -> (CXFile, usize) {
    let (mut file, mut offset) = (ptr::null_mut(), 0);
    // SAFETY: the places to write to are valid; null means that a figure is not wanted.
    unsafe { locate(location, &raw mut file, ptr::null_mut(), ptr::null_mut(), &raw mut offset) };
    (file, offset as usize)
}

/// The paths of the files of a unit, each of which the system is asked for once: there is a cursor for every word of a program.
#[derive(Debug)]
struct Paths<'a> {
    directory: &'a Path,
    known: RefCell<HashMap<CXFile, PathBuf>>,
}

impl<'a> Paths<'a> {
    fn below(directory: &'a Path) -> Self {
        Self { directory, known: RefCell::default() }
    }

    /// Where a location of a living unit is, if it is in a file.
    fn place(&self, location: CXSourceLocation, locate: Locate) -> Option<Place> {
        let (file, offset) = offset(location, locate);
        (!file.is_null()).then(|| Place { file: self.of(file), offset })
    }

    /// The path of a file of a living unit.
    fn of(&self, file: CXFile) -> PathBuf {
        let find = || {
            // SAFETY: the caller's file.
            let path = self.directory.join(owned(unsafe { clang_getFileName(file) }));
            path.canonicalize().unwrap_or(path)
        };
        self.known.borrow_mut().entry(file).or_insert_with(find).clone()
    }
}

struct Reader<'a> {
    unit: CXTranslationUnit,
    /// The file's own text.
    text: &'a str,
    vocabulary: &'a Vocabulary,
    /// How far the function that is read has been read.
    read: Cell<Progress>,
    /// The names of the file's variables, and those of members with a dot in front, that are arrays wherever the function has them.
    arrays: RefCell<HashMap<String, bool>>,
    /// What is read is in the arguments of a call that does something to a lock.
    names_lock: Cell<bool>,
    /// The strings and names that the function's macros have, and the text of the macro.
    made: RefCell<Vec<(Range<usize>, String)>>,
}

/// How far a function has been read.
#[derive(Clone, Copy)]
struct Progress {
    /// The file that it is in.
    file: CXFile,
    /// Where what was read last begins there.
    at: usize,
    /// Something of it is in another file.
    is_elsewhere: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self { file: ptr::null_mut(), at: 0, is_elsewhere: false }
    }
}

impl Reader<'_> {
    /// The function that a cursor at the top of the file defines: in the file itself, or in one of the program's headers.
    fn function(&self, cursor: CXCursor, in_file: bool) -> Option<Function> {
        if kind(cursor) != CXCursor_FunctionDecl {
            return None;
        }
        // SAFETY: see `spelling`.
        let location = unsafe { clang_getCursorLocation(cursor) };
        // A name that a macro has, or is given, is in no file by itself: the place where the macro is used is.
        let (file, at) = offset(location, clang_getFileLocation as Locate);
        // SAFETY: files of the unit, which is alive.
        let is_of_file = !file.is_null() && unsafe { clang_File_isEqual(file, self.main_file()) } != 0;
        // SAFETY: as above.
        let is_of_system = unsafe { clang_Location_isInSystemHeader(location) } != 0;
        if is_of_file != in_file || is_of_system {
            return None;
        }
        let body = children(cursor).into_iter().find(|child| kind(*child) == CXCursor_CompoundStmt)?;
        let mut locals = HashMap::new();
        self.read.set(Progress { file, at, is_elsewhere: false });
        for parameter in children(cursor).into_iter().filter(|child| kind(*child) == CXCursor_ParmDecl) {
            self.note_local(parameter, &mut locals);
        }
        let (range, from_macro) = self.range(cursor);
        let body = self.node(body, &mut locals);
        let first = offset(start_of(cursor), clang_getFileLocation as Locate);
        // SAFETY: they take any cursor.
        let is_other = |other: &CXCursor| unsafe { clang_equalCursors(*other, cursor) } == 0;
        let begins_there =
            |other: &CXCursor| offset(start_of(*other), clang_getFileLocation as Locate) == first;
        // SAFETY: as above.
        let around = unsafe { clang_getCursorSemanticParent(cursor) };
        let has_other = || children(around).iter().any(|other| is_other(other) && begins_there(other));
        let begins_in_macro = body.from_macro || in_file && from_macro && has_other();
        let is_elsewhere = self.read.get().is_elsewhere;
        let arrays = self.arrays.take().into_iter().filter(|(_, is_array)| *is_array).map(|(name, _)| name);
        let arrays = arrays.collect();
        Some(Function {
            name: spelling(cursor),
            range,
            body,
            locals,
            is_elsewhere,
            begins_in_macro,
            arrays,
            made: self.made.take(),
        })
    }

    /// The file that the unit is of.
    fn main_file(&self) -> CXFile {
        // SAFETY: the unit is alive.
        let name = unsafe { clang_getTranslationUnitSpelling(self.unit) };
        // SAFETY: a string of libclang, which is freed behind its only use.
        let path = unsafe { clang_getCString(name) };
        // SAFETY: as above, of the unit, which is alive.
        let file = unsafe { clang_getFile(self.unit, path) };
        // SAFETY: got above.
        unsafe { clang_disposeString(name) };
        file
    }

    /// The text that a cursor comes from, and whether it begins in the body of a macro.
    fn range(&self, cursor: CXCursor) -> (Range<usize>, bool) {
        // SAFETY: see `spelling`.
        let extent = unsafe { clang_getCursorExtent(cursor) };
        // SAFETY: an extent of libclang.
        let start = unsafe { clang_getRangeStart(extent) };
        // SAFETY: as above.
        let end = unsafe { clang_getRangeEnd(extent) };
        let (file, first) = offset(start, clang_getFileLocation as Locate);
        let spelt = offset(start, clang_getSpellingLocation as Locate);
        let (_, mut last) = offset(end, clang_getFileLocation as Locate);
        let from_macro = (file, first) != spelt;
        let read = self.read.get();
        // SAFETY: files of a living unit.
        if !file.is_null() && !read.file.is_null() && unsafe { clang_File_isEqual(file, read.file) } == 0 {
            self.read.set(Progress { is_elsewhere: true, ..read });
            return (read.at..read.at, from_macro);
        }
        last = last.max(first);
        self.read.set(Progress { at: first, ..read });
        (first..last, from_macro)
    }

    fn variable(cursor: CXCursor) -> Variable {
        // SAFETY: see `spelling`.
        let (_, declared) =
            offset(unsafe { clang_getCursorLocation(cursor) }, clang_getFileLocation as Locate);
        Variable { name: spelling(cursor), declared }
    }

    fn note_local(&self, cursor: CXCursor, locals: &mut HashMap<Variable, Local>) {
        // SAFETY: see `spelling`.
        let own = unsafe { clang_getCursorType(cursor) };
        // SAFETY: a type of a living unit.
        let canonical = unsafe { clang_getCanonicalType(own) };
        let is_parameter = kind(cursor) == CXCursor_ParmDecl;
        let shape = match canonical.kind {
            _ if has_no_name(own) => Shape::Unnamed,
            _ if is_variably_made(own) => Shape::VariableArray,
            CXType_ConstantArray | CXType_IncompleteArray if !is_parameter => Shape::Array,
            _ => Shape::Value,
        };
        // A parameter that is written as an array is a pointer, and goes by that.
        let is_array = is_parameter && own.kind != canonical.kind;
        // Its plain type also stands for the type of something, which may be local and is a word that ISO C does not know, and for a
        // typedef of the function's own.
        // SAFETY: a type of a living unit.
        let is_of_something = owned(unsafe { clang_getTypeSpelling(own) }).contains("typeof");
        let named = if is_array || is_of_something || has_inner_name(own) { canonical } else { own };
        // SAFETY: a cursor of a variable.
        let storage = unsafe { clang_Cursor_getStorageClass(cursor) };
        // SAFETY: a type of a living unit.
        let is_const = unsafe { clang_isConstQualifiedType(canonical) } != 0;
        // SAFETY: as above.
        let is_volatile = unsafe { clang_isVolatileQualifiedType(canonical) } != 0;
        // SAFETY: as above.
        let plain = unsafe { clang_getUnqualifiedType(named) };
        // SAFETY: as above.
        let spelt = owned(unsafe { clang_getTypeSpelling(named) });
        // The structure that a parameter of this type points to has no name that all compilers know.
        let is_arguments = is_parameter && spelt.contains("__va_list_tag");
        let attributes = self.attributes(cursor);
        // Of `_Alignas(N)` libclang knows the word only.
        let is_alignment = |text: &&String| text.contains("aligned") && text.contains('(');
        let local = Local {
            type_name: if is_arguments { "&**(__builtin_va_list *)0".to_owned() } else { spelt },
            shape,
            is_plain: shape == Shape::Value
                && !is_volatile
                && !matches!(canonical.kind, CXType_Record | CXType_Atomic),
            // SAFETY: a cursor of a variable.
            is_of_thread: unsafe { clang_getCursorTLSKind(cursor) } != CXTLS_None,
            has_constants: has_constants(own),
            alignment: attributes.iter().filter(is_alignment).cloned().collect(),
            has_attributes: attributes.iter().any(|text| !is_alignment(&text) && !text.contains("unused")),
            has_cleanup: attributes.iter().any(|text| text.contains("cleanup")),
            is_static: matches!(storage, CX_SC_Static | CX_SC_Extern),
            is_register: storage == CX_SC_Register,
            is_const,
            // SAFETY: as above.
            plain_type: (is_const && !is_volatile).then(|| owned(unsafe { clang_getTypeSpelling(plain) })),
        };
        locals.insert(Self::variable(cursor), local);
    }

    /// The texts of a declaration's attributes.
    fn attributes(&self, cursor: CXCursor) -> Vec<String> {
        attributes_of(cursor).map(|child| self.attribute(child)).collect()
    }

    /// The text of an attribute: a name, and what is behind it in parentheses. What comes from a macro goes on, for libclang, to where the
    /// macro is used; and what it has in parentheses may be the macro's parameter, so that only numbers count there.
    fn attribute(&self, cursor: CXCursor) -> String {
        let start = start_of(cursor);
        let from_macro = offset(start, clang_getFileLocation as Locate)
            != offset(start, clang_getSpellingLocation as Locate);
        let mut words: Vec<String> = Vec::new();
        let mut depth = 0_usize;
        for (word, _) in self.tokens(cursor) {
            let last = words.last().map_or("", String::as_str);
            let goes_on =
                depth > 0 || words.is_empty() || word == "::" || last == "::" || word == "(" && last != ")";
            if !goes_on {
                break;
            }
            match word.as_str() {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            words.push(word);
        }
        let is_plain =
            |word: &String| word.chars().all(|next| next.is_ascii_digit() || next == '(' || next == ')');
        if from_macro && !words.iter().skip(1).all(is_plain) {
            words.truncate(1);
        }
        words.join(" ")
    }

    /// The tree below a cursor.
    fn node(&self, cursor: CXCursor, locals: &mut HashMap<Variable, Local>) -> Node {
        let (range, from_macro) = self.range(cursor);
        let below = children(cursor);
        if kind(cursor) == CXCursor_VarDecl {
            self.note_local(cursor, locals);
        }
        // A function that is declared in another one has the parameters that a header has given it, which are not in this text.
        let function_name = self.function_name(cursor);
        let is_closed = kind(cursor) == CXCursor_FunctionDecl || function_name.is_some();
        let read = if is_closed { &[][..] } else { &below[..] };
        let is_of_lock = self::kind(cursor) == CXCursor_CallExpr && self.vocabulary.has(&spelling(cursor));
        let names_lock = self.names_lock.replace(self.names_lock.get() || is_of_lock);
        let children: Vec<Node> = read.iter().map(|child| self.node(*child, locals)).collect();
        self.names_lock.set(names_lock);
        if from_macro
            && let Some(expansion) = self.vocabulary.expansion(self.text, range.start)
            && range.end <= expansion.range.end
        {
            return lock_macro(expansion, &children);
        }
        let kind = function_name.unwrap_or_else(|| self.kind(cursor, &below));
        let named = match &kind {
            Kind::Name(name) => Some(name.clone()),
            Kind::Member { name, .. } => Some(format!(".{name}")),
            _ => None,
        };
        if let Some(name) = named {
            // SAFETY: see `spelling`.
            let own = unsafe { clang_getCursorType(cursor) };
            // SAFETY: a type of a living unit.
            let canonical = unsafe { clang_getCanonicalType(own) };
            let is_array = matches!(canonical.kind, CXType_ConstantArray | CXType_IncompleteArray);
            *self.arrays.borrow_mut().entry(name).or_insert(true) &= is_array;
        }
        // What begins with a word that is in no file has been made of others.
        let is_made = || offset(start_of(cursor), clang_getSpellingLocation as Locate).0.is_null();
        let is_text = || self::kind(cursor) == CXCursor_StringLiteral;
        // A member's name is where its cursor is.
        let is_member = || {
            // SAFETY: see `spelling`.
            let location = unsafe { clang_getCursorLocation(cursor) };
            self::kind(cursor) == CXCursor_MemberRefExpr
                && offset(location, clang_getSpellingLocation as Locate).0.is_null()
        };
        if from_macro && (is_text() || is_member() || is_made()) && !self.is_asserted(range.start) {
            self.made.borrow_mut().push((range.clone(), spelling(cursor)));
        }
        let gives = gives(cursor, &below);
        let in_argument = !from_macro && is_in_argument(cursor);
        let never_returns = self.never_returns(cursor, &below);
        let is_asked = names_lock && matches!(kind, Kind::Call(_));
        let computes = is_asked.then(|| self.computes(cursor, CALLS_WITHOUT_EFFECT)).flatten();
        let node = Node { kind, range, from_macro, in_argument, gives, never_returns, computes, children };
        match self.vocabulary.checked(&node) {
            Some(call) => {
                let call = call.clone();
                let (kind, gives) = (Kind::Transparent, Gives::Value);
                Node { kind, gives, children: vec![call], ..node }
            }
            None => node,
        }
    }

    /// Whether what begins at a place in the text is an assertion: what it says of itself when it fails may be worded otherwise.
    fn is_asserted(&self, at: usize) -> bool {
        let word = self.text.get(at..).and_then(|text| text.strip_prefix("assert"));
        word.is_some_and(|rest| rest.trim_start().starts_with('('))
    }

    /// What a cursor is if it is the name of the function around, other than in an assertion. libclang has no kind for that: it is an
    /// array, which no other expression that it does not expose is, unless something is in front of that.
    fn function_name(&self, cursor: CXCursor) -> Option<Kind> {
        // SAFETY: see `spelling`.
        let own = canonical_type(unsafe { clang_getCursorType(cursor) });
        if kind(cursor) != CXCursor_UnexposedExpr || own.kind != CXType_ConstantArray {
            return None;
        }
        let word = self.first_token(cursor);
        let is_name = matches!(word.as_str(), "__func__" | "__FUNCTION__" | "__PRETTY_FUNCTION__");
        let (_, at) = offset(start_of(cursor), clang_getFileLocation as Locate);
        (is_name && !self.is_asserted(at)).then_some(Kind::FunctionName(word))
    }

    /// Whether a cursor is a call that does not return: a declaration of the function says so, or its type, or the program's file of
    /// words; or it is one of the system's functions that are known for it. The program may have another one of such a name.
    fn never_returns(&self, cursor: CXCursor, below: &[CXCursor]) -> bool {
        if kind(cursor) != CXCursor_CallExpr {
            return false;
        }
        // SAFETY: see `spelling`.
        let function = unsafe { clang_getCursorReferenced(cursor) };
        if kind(function) != CXCursor_FunctionDecl {
            // SAFETY: as above.
            let callee = below.first().map(|callee| unsafe { clang_getCursorType(*callee) });
            return callee.is_some_and(|callee| {
                // SAFETY: a type of a living unit.
                is_type_without_return(unsafe { clang_getPointeeType(canonical_type(callee)) })
            });
        }
        // SAFETY: as above.
        let location = unsafe { clang_getCursorLocation(function) };
        let is_built_in = offset(location, clang_getFileLocation as Locate).0.is_null();
        // SAFETY: as above.
        let is_of_system = is_built_in || unsafe { clang_Location_isInSystemHeader(location) } != 0;
        let name = spelling(cursor);
        // SAFETY: as above.
        let of = unsafe { clang_getCursorType(function) };
        self.vocabulary.never_returns(&name)
            || is_of_system && ends_the_thread(&name)
            || is_type_without_return(of)
            || self.is_declared_without_return(function)
    }

    /// Whether a declaration of a function has `_Noreturn`, or an attribute that means the same.
    fn is_declared_without_return(&self, function: CXCursor) -> bool {
        // SAFETY: see `spelling`.
        let first = unsafe { clang_getCanonicalCursor(function) };
        // SAFETY: as above.
        let definition = unsafe { clang_getCursorDefinition(function) };
        [function, first, definition]
            .into_iter()
            .filter(|of| kind(*of) == CXCursor_FunctionDecl)
            .flat_map(attributes_of)
            .any(|of| matches!(self.first_token(of).as_str(), "_Noreturn" | "noreturn" | "__noreturn__"))
    }

    /// What a call reads if it has no effect but its result, and depends on nothing but its arguments, what these point to, and constants:
    /// its attributes say so, or its body does, and those of what it calls, `depth` of them within each other.
    fn computes(&self, call: CXCursor, depth: usize) -> Option<Reads> {
        // SAFETY: see `spelling`.
        let function = unsafe { clang_getCursorReferenced(call) };
        if kind(function) != CXCursor_FunctionDecl || depth == 0 {
            return None;
        }
        let mut reads = Reads::default();
        if children(function).into_iter().any(|child| kind(child) == CXCursor_ConstAttr) {
            return Some(reads);
        }
        // SAFETY: as above.
        let definition = unsafe { clang_getCursorDefinition(function) };
        // Another one may take its place.
        let is_weak = |of| {
            let says_so =
                |of| matches!(self.first_token(of).as_str(), "weak" | "__weak__" | "ifunc" | "alias");
            attributes_of(of).any(says_so)
        };
        if kind(definition) != CXCursor_FunctionDecl || is_weak(function) || is_weak(definition) {
            return None;
        }
        let is_body = |child: &CXCursor| kind(*child) == CXCursor_CompoundStmt;
        let body = children(definition).into_iter().find(is_body)?;
        self.leaves_all(body, depth, &mut reads).then_some(reads)
    }

    /// Notes what a part of a function reads by a pointer.
    fn note_read(cursor: CXCursor, below: &[CXCursor], reads: &mut Reads) {
        match kind(cursor) {
            CXCursor_MemberRefExpr if Self::is_arrow(below) => {
                reads.members.insert(format!(".{}", spelling(cursor)));
            }
            CXCursor_ArraySubscriptExpr => Self::note_read_by(below.first(), reads),
            CXCursor_UnaryOperator if Self::unary(cursor) == Kind::Unary(Unary::Dereference) => {
                Self::note_read_by(below.first(), reads);
            }
            _ => {}
        }
    }

    /// Notes that what a pointer points to is read.
    fn note_read_by(pointer: Option<&CXCursor>, reads: &mut Reads) {
        match pointer.copied().map(without_parentheses) {
            Some(member) if kind(member) == CXCursor_MemberRefExpr => {
                reads.members.insert(format!("*.{}", spelling(member)));
            }
            _ => reads.pointees = true,
        }
    }

    /// Whether nothing in a part of a function changes anything but the function's own variables, nor reads other variables than those,
    /// and constants.
    fn leaves_all(&self, cursor: CXCursor, depth: usize, reads: &mut Reads) -> bool {
        let below = children(cursor);
        // SAFETY: see `spelling`.
        let own = unsafe { clang_getCursorType(cursor) };
        // SAFETY: a type of a living unit.
        if unsafe { clang_isVolatileQualifiedType(canonical_type(own)) } != 0 {
            return false;
        }
        Self::note_read(cursor, &below, reads);
        let writes_own = || below.first().is_some_and(|to| is_own_variable(*to));
        let is_harmless = match kind(cursor) {
            CXCursor_CallExpr => {
                let Some(of_callee) = self.computes(cursor, depth - 1) else { return false };
                reads.members.extend(of_callee.members);
                if of_callee.pointees {
                    below.iter().skip(1).for_each(|given| Self::note_read_by(Some(given), reads));
                }
                return below.iter().skip(1).all(|of| self.leaves_all(*of, depth, reads));
            }
            // A size, of which nothing is evaluated.
            CXCursor_UnaryExpr => return value(cursor).is_some(),
            CXCursor_DeclRefExpr => is_own_variable(cursor) || is_constant(cursor),
            CXCursor_VarDecl => {
                // SAFETY: as above.
                let storage = unsafe { clang_Cursor_getStorageClass(cursor) };
                !matches!(storage, CX_SC_Static | CX_SC_Extern)
            }
            CXCursor_CompoundAssignOperator => writes_own(),
            CXCursor_BinaryOperator => {
                // SAFETY: as above.
                let operator = unsafe { clang_getCursorBinaryOperatorKind(cursor) };
                operator != CXBinaryOperator_Assign || writes_own()
            }
            CXCursor_UnaryOperator => match Self::unary(cursor) {
                Kind::Unary(Unary::Step) => writes_own(),
                Kind::Unary(_) => true,
                _ => false,
            },
            CXCursor_CompoundStmt
            | CXCursor_DeclStmt
            | CXCursor_ReturnStmt
            | CXCursor_IfStmt
            | CXCursor_WhileStmt
            | CXCursor_DoStmt
            | CXCursor_ForStmt
            | CXCursor_SwitchStmt
            | CXCursor_CaseStmt
            | CXCursor_DefaultStmt
            | CXCursor_BreakStmt
            | CXCursor_ContinueStmt
            | CXCursor_NullStmt
            | CXCursor_IntegerLiteral
            | CXCursor_CharacterLiteral
            | CXCursor_StringLiteral
            | CXCursor_ParenExpr
            | CXCursor_UnexposedExpr
            | CXCursor_ArraySubscriptExpr
            | CXCursor_MemberRefExpr
            | CXCursor_ConditionalOperator
            | CXCursor_CStyleCastExpr
            | CXCursor_TypeRef => true,
            _ => false,
        };
        is_harmless && below.into_iter().all(|child| self.leaves_all(child, depth, reads))
    }

    /// What a cursor begins with, as it is spelt, perhaps in the body of a macro: where it ends may be elsewhere.
    fn first_token(&self, cursor: CXCursor) -> String {
        let start = start_of(cursor);
        // SAFETY: a location of libclang.
        let range = unsafe { clang_getRange(start, start) };
        self.tokens_of(range).into_iter().next().map(|(text, _)| text).unwrap_or_default()
    }

    fn kind(&self, cursor: CXCursor, below: &[CXCursor]) -> Kind {
        match kind(cursor) {
            CXCursor_CompoundStmt => Kind::Compound,
            CXCursor_IfStmt => Kind::If,
            CXCursor_WhileStmt => Kind::While,
            CXCursor_DoStmt => Kind::Do,
            CXCursor_ForStmt => Kind::For { is_endless: self.is_endless(cursor, below) },
            CXCursor_SwitchStmt => Kind::Switch,
            CXCursor_CaseStmt => Kind::Case { is_default: false },
            CXCursor_DefaultStmt => Kind::Case { is_default: true },
            CXCursor_LabelStmt => Kind::Label(spelling(cursor)),
            CXCursor_GotoStmt => Kind::Goto(below.first().copied().map(spelling).unwrap_or_default()),
            CXCursor_IndirectGotoStmt => Kind::ComputedGoto,
            CXCursor_BreakStmt => Kind::Break,
            CXCursor_ContinueStmt => Kind::Continue,
            CXCursor_ReturnStmt => Kind::Return,
            CXCursor_DeclStmt => Kind::Declarations,
            CXCursor_VarDecl => Kind::Declaration(Self::variable(cursor)),
            CXCursor_CallExpr => Kind::Call(spelling(cursor)),
            CXCursor_DeclRefExpr => Self::name(cursor),
            CXCursor_MemberRefExpr => {
                Kind::Member { name: spelling(cursor), is_arrow: Self::is_arrow(below) }
            }
            CXCursor_ArraySubscriptExpr => Kind::Subscript,
            CXCursor_UnaryOperator => Self::unary(cursor),
            CXCursor_BinaryOperator | CXCursor_CompoundAssignOperator => Self::binary(cursor),
            CXCursor_IntegerLiteral | CXCursor_CharacterLiteral => Kind::Literal(literal(cursor)),
            CXCursor_StringLiteral | CXCursor_FloatingLiteral => Kind::Literal(String::new()),
            CXCursor_CompoundLiteralExpr => Kind::CompoundLiteral,
            CXCursor_InitListExpr => Kind::List,
            CXCursor_ParenExpr | CXCursor_UnexposedExpr => Kind::Transparent,
            CXCursor_CStyleCastExpr => {
                // SAFETY: see `spelling`.
                let to = unsafe { clang_getCursorType(cursor) };
                // SAFETY: a type of a living unit.
                Kind::Cast(owned(unsafe { clang_getTypeSpelling(to) }))
            }
            CXCursor_TypeRef => Self::type_name(cursor),
            CXCursor_AsmStmt => Kind::Assembly,
            CXCursor_StmtExpr => Kind::StatementExpression,
            CXCursor_ConditionalOperator if below.len() == 3 => Kind::Conditional,
            CXCursor_UnaryExpr if self.is_size(cursor, below) => Kind::Size,
            // Of a type of the language's, whose size is always the same.
            CXCursor_UnaryExpr if below.is_empty() => Kind::Literal(literal(cursor)),
            CXCursor_NullStmt => Kind::Empty,
            _ => Kind::Other,
        }
    }

    /// Whether a `for` has no condition: nothing between its semicolons.
    fn is_endless(&self, cursor: CXCursor, below: &[CXCursor]) -> bool {
        let mut depth = 0_usize;
        let mut parts = vec![0_usize];
        // The head is all before the body.
        let Some(body) = below.last() else { return false };
        let (body, _) = self.range(*body);
        for (text, at) in self.tokens(cursor) {
            match text.as_str() {
                _ if at >= body.start => break,
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                ";" if depth == 1 => parts.push(0),
                _ => {}
            }
            let counts = depth > 0 && text != ";" && !(depth == 1 && text == "(");
            if let Some(last) = parts.last_mut() {
                *last += usize::from(counts);
            }
        }
        parts.get(1).is_some_and(|tokens| *tokens == 0)
    }

    /// Whether something is `sizeof` an expression: not of a type, and no other word for what a type has.
    fn is_size(&self, cursor: CXCursor, below: &[CXCursor]) -> bool {
        // SAFETY: it takes a number.
        let is_expression = |child: &CXCursor| unsafe { clang_isExpression(kind(*child)) } != 0;
        below.len() == 1 && below.iter().all(is_expression) && self.first_token(cursor) == "sizeof"
    }

    fn tokens(&self, cursor: CXCursor) -> Vec<(String, usize)> {
        // SAFETY: see `spelling`.
        self.tokens_of(unsafe { clang_getCursorExtent(cursor) })
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
            found.push((text, offset(location, clang_getFileLocation as Locate).1));
        }
        if !tokens.is_null() {
            // SAFETY: as many as libclang said.
            unsafe { clang_disposeTokens(self.unit, tokens, count) };
        }
        found
    }

    fn name(cursor: CXCursor) -> Kind {
        // SAFETY: see `spelling`.
        let of = unsafe { clang_getCursorReferenced(cursor) };
        // SAFETY: as above.
        let inside = kind(unsafe { clang_getCursorSemanticParent(of) }) == CXCursor_FunctionDecl;
        // SAFETY: as above.
        let is_of_thread =
            kind(of) == CXCursor_VarDecl && unsafe { clang_getCursorTLSKind(of) } != CXTLS_None;
        match kind(of) {
            CXCursor_VarDecl | CXCursor_ParmDecl if inside => Kind::Local(Self::variable(of)),
            _ if is_of_a_function(of) => Kind::InnerName(Self::variable(of)),
            _ if is_of_thread => Kind::ThreadLocal(spelling(cursor)),
            _ => Kind::Name(spelling(cursor)),
        }
    }

    fn type_name(cursor: CXCursor) -> Kind {
        // SAFETY: see `spelling`.
        let of = unsafe { clang_getCursorReferenced(cursor) };
        if is_of_a_function(of) { Kind::InnerName(Self::variable(of)) } else { Kind::Other }
    }

    fn is_arrow(below: &[CXCursor]) -> bool {
        let Some(of) = below.first() else { return false };
        // SAFETY: see `spelling`.
        let own = unsafe { clang_getCursorType(*of) };
        // SAFETY: a type of a living unit.
        let canonical = unsafe { clang_getCanonicalType(own) };
        canonical.kind == CXType_Pointer
    }

    fn unary(cursor: CXCursor) -> Kind {
        // SAFETY: see `spelling`.
        Kind::Unary(match unsafe { clang_getCursorUnaryOperatorKind(cursor) } {
            CXUnaryOperator_AddrOf => Unary::Address,
            CXUnaryOperator_Deref => Unary::Dereference,
            CXUnaryOperator_Plus => Unary::Pure("+"),
            CXUnaryOperator_Minus => Unary::Pure("-"),
            CXUnaryOperator_Not => Unary::Pure("~"),
            CXUnaryOperator_LNot => Unary::Pure("!"),
            CXUnaryOperator_PostInc
            | CXUnaryOperator_PostDec
            | CXUnaryOperator_PreInc
            | CXUnaryOperator_PreDec => Unary::Step,
            _ => return Kind::Other,
        })
    }

    fn binary(cursor: CXCursor) -> Kind {
        // SAFETY: see `spelling`.
        let operator = unsafe { clang_getCursorBinaryOperatorKind(cursor) };
        // SAFETY: a kind that libclang named.
        Kind::Binary(owned(unsafe { clang_getBinaryOperatorKindSpelling(operator) }))
    }
}

/// The value of an integer as a literal of the same type; empty if it is not known, or if no literal has the type.
fn literal(cursor: CXCursor) -> String {
    // SAFETY: see `spelling`.
    let of = unsafe { clang_getCursorType(cursor) };
    // SAFETY: a type of a living unit.
    let canonical = unsafe { clang_getCanonicalType(of) };
    let suffix = match canonical.kind {
        CXType_Int => "",
        CXType_UInt => "u",
        CXType_Long => "l",
        CXType_ULong => "ul",
        CXType_LongLong => "ll",
        CXType_ULongLong => "ull",
        _ => return String::new(),
    };
    // It may stand for a byte whose value is another.
    let is_strange = |number: i64| {
        kind(cursor) == CXCursor_CharacterLiteral && number.to_ne_bytes().into_iter().any(is_stand_in)
    };
    match value(cursor) {
        Some(number) if is_strange(number) => String::new(),
        Some(number) if number < 0 && suffix.starts_with('u') => {
            format!("{}{suffix}", number.cast_unsigned())
        }
        Some(number) => format!("{number}{suffix}"),
        None => String::new(),
    }
}

/// The use of a macro that does something to a lock, of which only the lock and the variables that it names count.
fn lock_macro(expansion: Expansion, children: &[Node]) -> Node {
    let mut named: Vec<Node> = children
        .iter()
        .flat_map(Node::walk)
        .filter(|node| matches!(node.kind, Kind::Local(_)))
        .map(|node| Node { children: Vec::new(), ..node.clone() })
        .collect();
    // A macro may name its argument several times.
    named.sort_by_key(|node| (node.range.start, node.from_macro));
    named.dedup_by(|one, other| one.range.start == other.range.start && one.kind == other.kind);
    let Expansion { what, lock, range } = expansion;
    let node = |kind, children| Node {
        kind,
        range: range.clone(),
        from_macro: true,
        in_argument: false,
        gives: Gives::Value,
        never_returns: false,
        computes: None,
        children,
    };
    node(Kind::Macro(what), vec![node(Kind::Text(lock), named)])
}

/// The value of an expression that the compiler knows.
fn value(cursor: CXCursor) -> Option<i64> {
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

/// How many calls within each other are looked into for an effect.
const CALLS_WITHOUT_EFFECT: usize = 4;

/// What is inside of parentheses and of conversions that are not spelt.
fn without_parentheses(mut cursor: CXCursor) -> CXCursor {
    while let (CXCursor_ParenExpr | CXCursor_UnexposedExpr, [inner]) =
        (kind(cursor), children(cursor).as_slice())
    {
        cursor = *inner;
    }
    cursor
}

/// Whether an expression is a variable that the function around has of its own: no part of one, which may be elsewhere.
fn is_own_variable(cursor: CXCursor) -> bool {
    let cursor = without_parentheses(cursor);
    // SAFETY: see `spelling`.
    let of = unsafe { clang_getCursorReferenced(cursor) };
    // SAFETY: as above.
    let is_local = unsafe { clang_getCursorLinkage(of) } == CXLinkage_NoLinkage;
    // SAFETY: as above.
    let storage = unsafe { clang_Cursor_getStorageClass(of) };
    kind(cursor) == CXCursor_DeclRefExpr
        && matches!(kind(of), CXCursor_VarDecl | CXCursor_ParmDecl)
        && is_local
        && !matches!(storage, CX_SC_Static | CX_SC_Extern)
}

/// Whether a name stands for what never changes.
fn is_constant(cursor: CXCursor) -> bool {
    // SAFETY: see `spelling`.
    let of = unsafe { clang_getCursorReferenced(cursor) };
    // SAFETY: as above. What an array's elements are, its canonical type is.
    let own = canonical_type(unsafe { clang_getCursorType(of) });
    // SAFETY: a type of a living unit.
    let is_const = unsafe { clang_isConstQualifiedType(own) } != 0;
    kind(of) == CXCursor_EnumConstantDecl || kind(of) == CXCursor_VarDecl && is_const
}

/// Whether the type of a function says that it does not return: libclang has no other way to ask than by its text, whose end may also
/// be that of a function which is returned a pointer to.
fn is_type_without_return(of: CXType) -> bool {
    let of = canonical_type(of);
    // SAFETY: a type of a living unit, as below.
    let says_so =
        |of| owned(unsafe { clang_getTypeSpelling(of) }).trim_end().ends_with("__attribute__((noreturn))");
    // SAFETY: as above.
    let result = unsafe { clang_getResultType(of) };
    matches!(of.kind, CXType_FunctionProto | CXType_FunctionNoProto)
        && says_so(of)
        && !says_so(canonical_type(result))
}

fn canonical_type(of: CXType) -> CXType {
    // SAFETY: a type of a living unit.
    unsafe { clang_getCanonicalType(of) }
}

/// Whether what is written in the file is an argument of a macro.
fn is_in_argument(cursor: CXCursor) -> bool {
    let start = start_of(cursor);
    offset(start, clang_getFileLocation as Locate) != offset(start, clang_getExpansionLocation as Locate)
}

/// What an expression may do with the address of a part of it.
fn gives(cursor: CXCursor, below: &[CXCursor]) -> Gives {
    // SAFETY: see `spelling`.
    let canonical = |cursor| canonical_type(unsafe { clang_getCursorType(cursor) }).kind;
    let is_array =
        |kind| matches!(kind, CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray);
    match (kind(cursor), below) {
        (CXCursor_ParenExpr, _) => Gives::Same,
        (CXCursor_UnexposedExpr, [child]) if is_array(canonical(*child)) && !is_array(canonical(cursor)) => {
            Gives::Decayed
        }
        _ if matches!(canonical(cursor), CXType_Pointer | CXType_Record) || is_array(canonical(cursor)) => {
            Gives::Address
        }
        _ => Gives::Value,
    }
}

/// Whether a type is an array of variable size, or is made of one.
fn is_variably_made(of: CXType) -> bool {
    // SAFETY: a type of a living unit, as below.
    let canonical = unsafe { clang_getCanonicalType(of) };
    match canonical.kind {
        CXType_VariableArray => true,
        // SAFETY: as above.
        CXType_Pointer => is_variably_made(unsafe { clang_getPointeeType(canonical) }),
        CXType_ConstantArray | CXType_IncompleteArray => {
            // SAFETY: as above.
            is_variably_made(unsafe { clang_getArrayElementType(canonical) })
        }
        _ => false,
    }
}

/// Whether a member of a type, or an element, is `const`, so that it cannot be assigned to as a whole.
fn has_constants(of: CXType) -> bool {
    // SAFETY: a type of a living unit, as below.
    let canonical = unsafe { clang_getCanonicalType(of) };
    // SAFETY: as above.
    let is_const = |of| unsafe { clang_isConstQualifiedType(of) } != 0;
    match canonical.kind {
        CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray => {
            // SAFETY: as above.
            let element = canonical_type(unsafe { clang_getArrayElementType(canonical) });
            has_constants(element) || is_const(element)
        }
        CXType_Record => {
            // SAFETY: as above.
            let declaration = unsafe { clang_getTypeDeclaration(canonical) };
            children(declaration).into_iter().filter(|child| kind(*child) == CXCursor_FieldDecl).any(
                |field| {
                    // SAFETY: as above.
                    let of = canonical_type(unsafe { clang_getCursorType(field) });
                    has_constants(of) || is_const(of)
                },
            )
        }
        _ => false,
    }
}

/// Whether a declaration of something else than a local variable is a function's own.
fn is_of_a_function(mut declaration: CXCursor) -> bool {
    if matches!(kind(declaration), CXCursor_FunctionDecl | CXCursor_VarDecl) {
        // It is the file's whatever block declares it.
        // SAFETY: see `spelling`.
        declaration = unsafe { clang_getCursorLexicalParent(declaration) };
        return kind(declaration) == CXCursor_FunctionDecl;
    }
    // What is declared in a structure or an enumeration in a function is a few steps away from that.
    for _ in 0..16 {
        // SAFETY: see `spelling`.
        declaration = unsafe { clang_getCursorSemanticParent(declaration) };
        match kind(declaration) {
            CXCursor_FunctionDecl => return true,
            CXCursor_StructDecl | CXCursor_UnionDecl | CXCursor_EnumDecl => {}
            _ => return false,
        }
    }
    true
}

/// Whether a type is written by means of a typedef that is a function's own.
fn has_inner_name(of: CXType) -> bool {
    match of.kind {
        // SAFETY: a type of a living unit, as below.
        CXType_Pointer => has_inner_name(unsafe { clang_getPointeeType(of) }),
        CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray => {
            // SAFETY: as above.
            has_inner_name(unsafe { clang_getArrayElementType(of) })
        }
        // SAFETY: as above.
        CXType_Elaborated => has_inner_name(unsafe { clang_Type_getNamedType(of) }),
        // SAFETY: as above.
        CXType_Typedef => is_of_a_function(unsafe { clang_getTypeDeclaration(of) }),
        _ => false,
    }
}

/// Whether a type, or what it is made of, is declared inside of a function or has no name.
fn has_no_name(of: CXType) -> bool {
    // SAFETY: a type of a living unit, as below.
    let canonical = unsafe { clang_getCanonicalType(of) };
    match canonical.kind {
        // SAFETY: as above.
        CXType_Pointer => has_no_name(unsafe { clang_getPointeeType(canonical) }),
        CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray => {
            // SAFETY: as above.
            has_no_name(unsafe { clang_getArrayElementType(canonical) })
        }
        CXType_Record | CXType_Enum => {
            // SAFETY: as above.
            let declaration = unsafe { clang_getTypeDeclaration(canonical) };
            // SAFETY: as above.
            let parent = kind(unsafe { clang_getCursorSemanticParent(declaration) });
            let is_inside = matches!(parent, CXCursor_FunctionDecl | CXCursor_CompoundStmt);
            // SAFETY: as above.
            let is_nameless = unsafe { clang_Cursor_isAnonymous(declaration) } != 0;
            // A nameless type that a typedef names at the top of the file has that name.
            let is_typedef = of.kind == CXType_Typedef || of.kind == CXType_Elaborated;
            is_inside || is_nameless && !is_typedef
        }
        _ => false,
    }
}
