//! From lock calls that were seen in the running program to the sections that they begin.
//!
//! A profile knows a call by its stack: functions, files and lines, by the debug information. That names files as the compiler was
//! told, from the directory that it ran in; the sources may have moved since. So a frame is of a file whose path ends like the
//! frame's, and where the paths are not the same, the function has to be.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// A place in a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub function: String,
    /// Its file, as the debug information names it.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// What a lock call of the running program is in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It begins a section, or takes its lock again in it.
    Section {
        /// The file.
        file: PathBuf,
        /// The line where the section begins, from 1.
        line: usize,
        /// Which of the program's mutexes it takes; `None`: that is not understood.
        mutex: Option<usize>,
    },
    /// It is in a file of the program, where no section begins.
    NoSection,
    /// It is in none of the program's files.
    Elsewhere,
}

/// A section as calls are compared with it.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// The file of the lock call.
    pub file: &'a Path,
    /// The function that calls.
    pub function: &'a str,
    /// The lines of its lock statement, and of the calls by which it takes its lock again.
    pub lines: BTreeSet<usize>,
    /// Where it begins: in another file if the call is one of a function that takes the lock.
    pub begin: (&'a Path, usize),
    /// Which mutex it takes.
    pub mutex: Option<usize>,
    /// It has an end that was found. A function that only takes a lock for its callers has none.
    pub is_whole: bool,
}

/// What a call is: the innermost frame that begins a section that is whole, else the innermost that begins one. In this way the call
/// of a wrapper comes before the call inside of it.
pub(crate) fn seen(call: &[Frame], places: &[Place<'_>], files: &BTreeSet<&Path>) -> Seen {
    let found: Vec<&Place<'_>> = call.iter().filter_map(|frame| section_at(frame, places)).collect();
    match found.iter().find(|place| place.is_whole).or(found.first()) {
        Some(place) => {
            Seen::Section { file: place.begin.0.to_owned(), line: place.begin.1, mutex: place.mutex }
        }
        None if call.first().is_some_and(|frame| files.iter().any(|file| is_of(file, frame))) => {
            Seen::NoSection
        }
        None => Seen::Elsewhere,
    }
}

/// The section that begins at a frame: that of the file whose path is most like the frame's, if it is one.
fn section_at<'p, 'a>(frame: &Frame, places: &'p [Place<'a>]) -> Option<&'p Place<'a>> {
    let path = normal(&frame.file);
    let likeness = |place: &Place<'_>| {
        let same = same_end(place.file, &path);
        let is_it = place.lines.contains(&frame.line)
            && same > 0
            && (place.function == frame.function || path == place.file);
        is_it.then_some(same)
    };
    let most = places.iter().filter_map(likeness).max()?;
    let mut alike = places.iter().filter(|place| likeness(place) == Some(most));
    let first = alike.next()?;
    alike.all(|other| other.file == first.file).then_some(first)
}

/// Whether a frame is of a file: by its path, or by its name and directory.
fn is_of(file: &Path, frame: &Frame) -> bool {
    let path = normal(&frame.file);
    path == *file || same_end(file, &path) >= path.components().count().min(2)
}

/// How many of the last components of two paths are the same.
fn same_end(one: &Path, other: &Path) -> usize {
    one.components().rev().zip(other.components().rev()).take_while(|(one, other)| one == other).count()
}

/// The path as the file system has it; of a file that is not there, the path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if normal.file_name().is_some() => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<'a>(file: &'a str, function: &'a str, line: usize, is_whole: bool) -> Place<'a> {
        Place {
            file: Path::new(file),
            function,
            lines: BTreeSet::from([line]),
            begin: (Path::new(file), line),
            mutex: Some(line),
            is_whole,
        }
    }

    fn frame(function: &str, file: &str, line: usize) -> Frame {
        Frame { function: function.to_owned(), file: PathBuf::from(file), line }
    }

    fn found(call: &[Frame], places: &[Place<'_>]) -> Seen {
        seen(call, places, &places.iter().map(|place| place.file).collect())
    }

    fn section(file: &str, line: usize) -> Seen {
        Seen::Section { file: PathBuf::from(file), line, mutex: Some(line) }
    }

    #[test]
    fn paths_of_the_compiler_are_those_of_the_database() {
        let places = [place("/new/src/a.c", "take", 7, true), place("/new/lib/a.c", "take", 7, true)];
        for path in ["/new/src/a.c", "/new/build/../src/./a.c", "/old/src/a.c", "src/a.c"] {
            assert_eq!(found(&[frame("take", path, 7)], &places), section("/new/src/a.c", 7), "{path}");
        }
        assert_eq!(found(&[frame("take", "/other/a.c", 7)], &places), Seen::Elsewhere, "two are as like");
        assert_eq!(found(&[frame("give", "/old/src/a.c", 7)], &places), Seen::NoSection, "another function");
        assert_eq!(found(&[frame("take", "/new/src/a.c", 8)], &places), Seen::NoSection, "another line");
        assert_eq!(found(&[frame("take", "/usr/src/b.c", 7)], &places), Seen::Elsewhere);
        assert_eq!(found(&[], &places), Seen::Elsewhere);
    }

    #[test]
    fn a_function_that_ends_with_the_lock_call_leaves_no_frame() {
        let through = Place { begin: (Path::new("/p/lock.c"), 3), ..place("/p/a.c", "work", 9, false) };
        let places = [place("/p/lock.c", "lock_it", 3, false), through];
        let found = found(&[frame("work", "/p/a.c", 9), frame("main", "/p/a.c", 30)], &places);
        assert_eq!(found, Seen::Section { file: PathBuf::from("/p/lock.c"), line: 3, mutex: Some(9) });
    }

    #[test]
    fn the_call_of_a_wrapper_is_the_section() {
        let places = [place("/p/a.c", "lock_it", 3, false), place("/p/a.c", "work", 9, true)];
        let inside = frame("lock_it", "/p/a.c", 3);
        let call = [inside.clone(), frame("work", "/p/a.c", 9), frame("main", "/p/a.c", 30)];
        assert_eq!(found(&call, &places), section("/p/a.c", 9));
        assert_eq!(found(&call[..1], &places), section("/p/a.c", 3), "a stack of one frame");
        let inlined = [frame("list_add", "/usr/include/list.h", 12), frame("work", "/p/a.c", 9)];
        assert_eq!(found(&inlined, &places), section("/p/a.c", 9), "the outer frames count, too");
        assert_eq!(found(&[inside, frame("other", "/p/a.c", 20)], &places), section("/p/a.c", 3));
    }
}
