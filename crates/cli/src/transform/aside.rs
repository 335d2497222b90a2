//! Files that make way for others for a while: sources for what was converted of them, a program for one that is built.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::time::SystemTime;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::write;
use crate::compare::interrupt;
use crate::error::Failure;
use crate::program::{beside, describe};
use crate::terminal::say;

/// What a file that makes way has behind its name.
pub(super) const SUFFIX: &str = "before-delegate";

/// Files that are put back when this is dropped, at the latest. Meanwhile no signal that can be caught ends this process.
pub(super) struct Aside {
    files: Vec<Moved>,
    _no_exit: MutexGuard<'static, ()>,
}

/// A file under another name.
struct Moved {
    path: PathBuf,
    aside: PathBuf,
    /// What stands in its place; `None`: whatever is made there.
    instead: Option<Vec<u8>>,
}

impl Aside {
    pub(super) fn new() -> Self {
        Self { files: Vec::new(), _no_exit: interrupt::hold_exit() }
    }

    /// Puts a source aside, which is to be as it was when it was read, and has another text in its place.
    pub(super) fn replace(&mut self, path: &Path, before: &[u8], after: &[u8]) -> Result<(), Failure> {
        if fs::read(path).map_err(|error| cannot(path, &error))? != before {
            return Err(Failure::with_status(
                1,
                format!("`{}` has changed since it was read; begin again", path.display()),
            ));
        }
        let aside = self.put(path, Some(after.to_owned()))?;
        write(path, after, &aside)
    }

    /// Makes way for a file that is to be made.
    pub(super) fn make_way(&mut self, path: &Path) -> Result<(), Failure> {
        self.put(path, None).map(|_| ())
    }

    /// The name under which the file is now.
    fn put(&mut self, path: &Path, instead: Option<Vec<u8>>) -> Result<PathBuf, Failure> {
        let aside = beside(path, SUFFIX);
        rename_to_new(path, &aside).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::with_status(
                1,
                format!(
                    "`{}` is there: another `lockwork delegate` is at work here, or was killed; then it is what `{}` has to be again",
                    aside.display(),
                    path.display()
                ),
            ),
            _ => cannot(path, &error),
        })?;
        self.files.push(Moved { path: path.to_owned(), aside: aside.clone(), instead });
        Ok(aside)
    }

    /// Puts all files back.
    ///
    /// # Errors
    ///
    /// If one cannot be; the others are back then. Where several cannot, those before the last are said.
    pub(super) fn restore(mut self) -> Result<(), Failure> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), Failure> {
        let mut result = Ok(());
        for moved in self.files.drain(..).rev() {
            if let Err(failure) = moved.put_back()
                && let Err(earlier) = std::mem::replace(&mut result, Err(failure))
            {
                say!("lockwork: {earlier}");
            }
        }
        result
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Err(failure) = self.put_back() {
            say!("lockwork: {failure}");
        }
    }
}

impl Moved {
    fn put_back(&self) -> Result<(), Failure> {
        let Self { path, aside, instead } = self;
        let is_mine = |instead: &Vec<u8>| fs::read(path).is_ok_and(|text| text == *instead);
        if path.exists() && !instead.as_ref().is_none_or(is_mine) {
            return Err(Failure::with_status(
                1,
                format!(
                    "`{}` was edited during the build and stays as it is; what it was before is `{}`",
                    path.display(),
                    aside.display()
                ),
            ));
        }
        fs::rename(aside, path).map_err(|error| {
            let why = describe(&error);
            let [path, aside] = [path, aside].map(|path| path.display());
            Failure::with_status(1, format!("`{aside}` cannot be put back to `{path}`: {why}; move it there"))
        })?;
        if instead.is_some() {
            // Younger than what was built of the other text, so that the next build takes it in.
            let touched =
                File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
            touched.map_err(|error| cannot(path, &error))?;
        }
        Ok(())
    }
}

/// Renames a file to a name that no other has.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can promise that.
        Err(rustix::io::Errno::INVAL) if to.exists() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(rustix::io::Errno::INVAL) => fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::with_status(1, format!("`{}`: {}", path.display(), describe(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_files() -> (tempfile::TempDir, [PathBuf; 2]) {
        let directory = tempfile::tempdir().expect("a directory");
        let paths = ["a.c", "b.c"].map(|name| directory.path().join(name));
        for path in &paths {
            fs::write(path, "before").expect("written");
        }
        (directory, paths)
    }

    #[test]
    fn what_made_way_is_back_whatever_stands_there() {
        let (_directory, [source, program]) = two_files();
        let old = SystemTime::UNIX_EPOCH;
        for path in [&source, &program] {
            let file = File::options().append(true).open(path).expect("it is there");
            file.set_modified(old).expect("set");
        }
        let mut aside = Aside::new();
        aside.replace(&source, b"before", b"after").expect("replaced");
        aside.make_way(&program).expect("moved");
        assert_eq!(fs::read(&source).expect("text"), b"after");
        fs::write(&program, "built").expect("written");
        aside.restore().expect("put back");
        let modified = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).expect("a time");
        assert_eq!([&source, &program].map(|path| fs::read(path).expect("text")), [b"before"; 2]);
        assert_ne!(modified(&source), old, "a build has to see that it is another text");
        assert_eq!(modified(&program), old, "a profile has to see that it is the same program");
    }

    #[test]
    fn nobodys_text_is_lost() {
        let (_directory, [edited, other]) = two_files();
        let mut aside = Aside::new();
        let failure = aside.replace(&edited, b"what was read", b"after").expect_err("edited before");
        assert!(failure.to_string().contains("has changed since it was read"), "{failure}");
        assert_eq!(fs::read(&edited).expect("text"), b"before");

        aside.replace(&edited, b"before", b"after").expect("replaced");
        aside.replace(&other, b"before", b"after").expect("replaced");
        fs::write(&edited, "edited").expect("written");
        let failure = aside.restore().expect_err("edited meanwhile");
        assert!(failure.to_string().contains("was edited during the build"), "{failure}");
        assert_eq!(fs::read(&edited).expect("text"), b"edited");
        assert_eq!(fs::read(beside(&edited, SUFFIX)).expect("text"), b"before");
        assert_eq!(fs::read(&other).expect("text"), b"before");

        let failure = Aside::new().make_way(&edited).expect_err("what it was is still there");
        assert!(failure.to_string().contains("is at work here, or was killed"), "{failure}");
    }
}
