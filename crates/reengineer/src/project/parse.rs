//! How a file of the program is parsed: by its command's arguments, with the delegates' declarations and the compiler's own headers.

use std::path::PathBuf;

use super::header::{DECLARATIONS, DECLARATIONS_PATH};
use crate::clang::{self, Asked, Unit, Unsaved};
use crate::database::Command;
use crate::error::Error;
use crate::vocabulary::Vocabulary;

/// Parses the file of a command, which has the text `text`. `others` take the place of files. If something is `asked` for, that is of
/// the text as it was: what is half converted needs the delegates' header.
pub(super) fn parse(
    command: &Command,
    text: &str,
    others: &[Unsaved],
    vocabulary: &Vocabulary,
    asked: Option<Asked<'_>>,
) -> Result<Unit, Error> {
    let mut unsaved: Vec<Unsaved> = others.iter().filter(|file| file.path != command.file).cloned().collect();
    unsaved.push(Unsaved { path: command.file.clone(), text: text.to_owned() });
    unsaved.push(Unsaved { path: PathBuf::from(DECLARATIONS_PATH), text: DECLARATIONS.to_owned() });
    let mut arguments = command.arguments.clone();
    arguments.push("-w".to_owned());
    if asked.is_none() {
        arguments.extend(["-include".to_owned(), DECLARATIONS_PATH.to_owned()]);
    }
    if let Some(directory) = resource_directory() {
        arguments.extend(["-resource-dir".to_owned(), directory.display().to_string()]);
    }
    clang::parse(&command.file, &command.directory, &arguments, &unsaved, vocabulary, asked)
}

/// Where the compiler's own headers are: those of the newest clang.
fn resource_directory() -> Option<PathBuf> {
    let entries =
        |path: &str| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let version = |path: &PathBuf| -> Option<u32> {
        path.file_name()?.to_str()?.trim_start_matches("llvm-").split('.').next()?.parse().ok()
    };
    let newest = entries("/usr/lib")
        .filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"llvm-")))
        .filter(|path| path.join("lib/clang").is_dir())
        .max_by_key(version)?;
    entries(newest.join("lib/clang").to_str()?)
        .filter(|path| path.join("include/stddef.h").exists())
        .max_by_key(version)
}
