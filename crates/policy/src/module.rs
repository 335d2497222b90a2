//! `module+offset`: an address that stays the same from run to run.

use alloc::string::String;
use core::fmt;

/// An offset in a file of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// A path, or a file name with or without its version (`libfoo.so` is `libfoo.so.1.2`, too).
    pub module: String,
    /// In bytes from the beginning of the module.
    pub offset: usize,
}

impl Location {
    /// Whether `path` is the module and `offset` the place. Does not allocate.
    #[must_use]
    pub fn matches(&self, path: &str, offset: usize) -> bool {
        self.offset == offset && is_module(&self.module, path)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.module, self.offset)
    }
}

fn is_module(pattern: &str, path: &str) -> bool {
    if pattern.contains('/') {
        return pattern == path;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some(rest) = name.strip_prefix(pattern) else {
        return false;
    };
    rest.is_empty() || (pattern.contains(".so") && is_version(rest))
}

/// `.7`, `.7.8.3`
fn is_version(text: &str) -> bool {
    text.strip_prefix('.').is_some_and(|numbers| {
        numbers
            .split('.')
            .all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules() {
        for (pattern, path, expected) in [
            ("librocksdb.so.7", "/usr/lib/librocksdb.so.7", true),
            ("librocksdb.so.7", "/usr/lib/librocksdb.so.7.8.3", true),
            ("librocksdb.so", "/usr/lib/librocksdb.so.7.8.3", true),
            ("librocksdb.so.7", "/usr/lib/librocksdb.so.78", false),
            ("librocksdb.so", "/usr/lib/librocksdb.so.old", false),
            ("/usr/lib/librocksdb.so.7", "/usr/lib/librocksdb.so.7", true),
            ("/opt/librocksdb.so.7", "/usr/lib/librocksdb.so.7", false),
            ("server", "/usr/bin/server", true),
            ("server", "/usr/bin/server.1", false),
            ("server", "/usr/bin/myserver", false),
            ("server", "server", true),
        ] {
            assert_eq!(is_module(pattern, path), expected, "{pattern} {path}");
        }
    }
}
