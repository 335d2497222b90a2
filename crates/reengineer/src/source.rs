//! Files as text, and which of them the program may write.
//!
//! Comments and strings of old C files are in encodings of their own, such as ISO 8859-1. What is no UTF-8 in a file is replaced, a
//! byte by a byte, so that all offsets stay: each such byte by a control character that the file has not, which stands for it until the
//! file is written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What may stand for a byte: control characters that are no white space. What compilers see of them is as what they see of the byte:
/// something in a comment or in a string.
pub(crate) fn is_stand_in(byte: u8) -> bool {
    matches!(byte, 1..=8 | 0x0e..=0x1f | 0x7f)
}

/// A file as text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The text, as long as the file.
    pub text: String,
    /// What stands for which byte; `None`: the bytes that are no UTF-8 are too many different ones, and the same stands for all.
    pub stand_ins: Option<BTreeMap<u8, u8>>,
}

impl Source {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => return Self { text, stand_ins: Some(BTreeMap::new()) },
            Err(error) => error.into_bytes(),
        };
        let strange: BTreeSet<u8> =
            bytes.utf8_chunks().flat_map(|chunk| chunk.invalid().iter().copied()).collect();
        let free: Vec<u8> = (1..=0x7f).filter(|byte| is_stand_in(*byte) && !bytes.contains(byte)).collect();
        let is_whole = strange.len() <= free.len();
        let of: BTreeMap<u8, u8> = strange.iter().copied().zip(free).collect();
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|byte| char::from(of.get(byte).copied().unwrap_or(1))));
        }
        let stand_ins = is_whole.then(|| of.into_iter().map(|(byte, stand_in)| (stand_in, byte)).collect());
        Self { text, stand_ins }
    }
}

/// The bytes of a text in which there may be stand-ins.
pub(crate) fn restored(text: &str, stand_ins: &BTreeMap<u8, u8>) -> Vec<u8> {
    text.bytes().map(|byte| stand_ins.get(&byte).copied().unwrap_or(byte)).collect()
}

/// Which files are the program's and can be written.
#[derive(Debug, Default)]
pub(crate) struct Writable {
    /// The directory that the program is in.
    pub root: PathBuf,
    /// Files whose bytes would not be kept.
    pub illegible: BTreeSet<PathBuf>,
}

impl Writable {
    /// Why a file cannot be written; `None` if it can.
    pub(crate) fn refuses(&self, file: &Path) -> Option<String> {
        if !file.starts_with(&self.root) {
            return Some(format!(
                "{} is outside of {}, which is taken for the program's directory (it is the deepest that has the C files and their \
                 compilation database)",
                file.display(),
                self.root.display()
            ));
        }
        self.illegible.contains(file).then(|| format!("{} is no UTF-8 (convert it by iconv)", file.display()))
    }
}

/// The directory of a program: the deepest one that all its files are in and its compilation database too, if that lies above the
/// files, or beside or above them by no more than two steps, as the folder of a build does.
pub(crate) fn root_of<'a>(files: impl Iterator<Item = &'a Path>, database: &Path) -> PathBuf {
    let mut directories = files.filter_map(Path::parent);
    let Some(first) = directories.next() else { return PathBuf::new() };
    let of_files = directories.fold(first.to_owned(), |root, directory| common(&root, directory).to_owned());
    let both = common(&of_files, database);
    let steps = |from: &Path| from.components().count() - both.components().count();
    let is_near = both == database || steps(&of_files) <= 2 && steps(database) <= 2;
    // All that the system has is below it.
    let is_top = both.parent().is_none();
    if is_near && !is_top { both.to_owned() } else { of_files }
}

/// The deepest directory that two are in.
fn common<'a>(one: &'a Path, other: &Path) -> &'a Path {
    one.ancestors().find(|ancestor| other.starts_with(ancestor)).unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_kept() {
        for bytes in [
            &b"plain"[..],
            b"J. M\xfcller \xc3\xbc \x01\x02\xe4\xfc\x80",
            b"",
            b"\xc3",
            b"\xff\xff a\xc3\xbc",
        ] {
            let source = Source::new(bytes.to_vec());
            assert_eq!(source.text.len(), bytes.len());
            assert_eq!(restored(&source.text, &source.stand_ins.expect("few bytes")), bytes);
        }
        let source = Source::new(b"M\xfcller \xc3\xbc".to_vec());
        assert_eq!(source.text, "M\u{1}ller \u{fc}");
        let many: Vec<u8> = (0x80..=0xff).rev().collect();
        let source = Source::new(many.clone());
        assert_eq!((source.text.len(), source.stand_ins), (many.len(), None));
    }

    #[test]
    fn a_program_is_where_its_files_and_its_database_are() {
        let root = |files: &[&str], database: &str| {
            root_of(files.iter().map(Path::new), Path::new(database)).display().to_string()
        };
        assert_eq!(root(&["/p/src/a.c", "/p/src/b.c"], "/p"), "/p");
        assert_eq!(root(&["/p/src/core/a.c"], "/p"), "/p");
        assert_eq!(root(&["/p/a/b/c/d/a.c"], "/p"), "/p");
        assert_eq!(root(&["/p/src/a.c"], "/p/build"), "/p");
        assert_eq!(root(&["/p/src/a.c", "/p/lib/b.c"], "/p/build/debug"), "/p");
        assert_eq!(root(&["/home/me/p/src/a.c"], "/home/me/p/build/a/b/c"), "/home/me/p/src");
        assert_eq!(root(&["/home/me/work/p/src/a.c"], "/home/me/build"), "/home/me/work/p/src");
        assert_eq!(root(&["/p/src/a.c"], "/build"), "/p/src");
        assert_eq!(root(&["/p/src/a.c"], "/"), "/p/src");
    }
}
