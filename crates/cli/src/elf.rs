//! What an ELF file's headers say about whether the dynamic loader will preload a library into it.

use std::fs::File;
use std::io;
use std::path::Path;

use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::read::{Object, ObjectSymbol, ReadCache, ReadRef};
use object::{Endianness, elf};

/// What matters of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Headers {
    /// 64-bit or 32-bit.
    pub(crate) is_64: bool,
    /// `e_machine`.
    pub(crate) machine: u16,
    /// `e_type`: executable, or shared object (position-independent executables are these, too).
    pub(crate) kind: u16,
    /// The dynamic loader the file asks for; static programs ask for none.
    pub(crate) interpreter: Option<String>,
}

/// The machine this command was built for, which its library is for as well.
pub(crate) const NATIVE_MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    elf::EM_X86_64.0
} else if cfg!(target_arch = "aarch64") {
    elf::EM_AARCH64.0
} else {
    elf::EM_NONE.0
};

/// Reads the headers of `path`; `None` when it is no ELF file.
pub(crate) fn read(path: &Path) -> io::Result<Option<Headers>> {
    let cache = ReadCache::new(File::open(path)?);
    let magic = cache.read_bytes_at(0, 5).unwrap_or_default();
    if !magic.starts_with(&elf::ELFMAG) {
        return Ok(None);
    }
    let headers = match magic.get(4) {
        Some(2) => headers::<elf::FileHeader64<Endianness>>(&cache),
        _ => headers::<elf::FileHeader32<Endianness>>(&cache),
    };
    headers.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{error}")))
}

fn headers<H: FileHeader<Endian = Endianness>>(cache: &ReadCache<File>) -> object::read::Result<Headers> {
    let file = ElfFile::<H, _>::parse(cache)?;
    let header = file.elf_header();
    let endian = file.endian();
    let mut interpreter = None;
    for segment in file.elf_program_headers() {
        if let Some(name) = segment.interpreter(endian, cache)? {
            interpreter = Some(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(Headers {
        is_64: header.is_class_64(),
        machine: header.e_machine(endian).0,
        kind: header.e_type(endian).0,
        interpreter,
    })
}

/// The functions that the file at `path` imports by itself, not through its libraries; none if it is no ELF file.
pub(crate) fn imports(path: &Path) -> Vec<String> {
    let names = || -> Option<Vec<String>> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = ElfFile::<elf::FileHeader64<Endianness>, _>::parse(&cache).ok()?;
        let imported = file.dynamic_symbols().filter(|symbol| symbol.is_undefined());
        Some(imported.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect())
    };
    names().unwrap_or_default()
}

impl Headers {
    /// Why a library of this machine cannot be loaded together with the file, if so.
    pub(crate) fn mismatch(&self) -> Option<String> {
        if !self.is_64 {
            return Some("it is a 32-bit program".to_owned());
        }
        if self.machine != NATIVE_MACHINE {
            return Some(format!(
                "it is built for {}, not for {}",
                machine_name(self.machine),
                std::env::consts::ARCH
            ));
        }
        None
    }
}

fn machine_name(machine: u16) -> String {
    match machine {
        3 => "x86".to_owned(),
        40 => "ARM".to_owned(),
        62 => "x86_64".to_owned(),
        183 => "aarch64".to_owned(),
        243 => "RISC-V".to_owned(),
        other => format!("ELF machine {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_program() {
        let headers = read(&std::env::current_exe().unwrap()).unwrap().unwrap();
        assert_eq!(headers.mismatch(), None);
        assert!(headers.interpreter.unwrap().contains("ld-linux"));
    }

    #[test]
    fn imports_of_this_test_program() {
        let imports = imports(&std::env::current_exe().unwrap());
        assert!(imports.iter().any(|name| name == "pthread_create"), "{imports:?}");
        assert!(super::imports(Path::new("/proc/self/status")).is_empty());
    }

    #[test]
    fn other_files() {
        assert_eq!(read(Path::new("/proc/self/status")).unwrap(), None);
        assert!(read(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn other_machines_are_told_apart() {
        let headers = Headers { is_64: true, machine: 243, kind: 3, interpreter: None };
        assert!(headers.mismatch().unwrap().contains("RISC-V"));
        let headers = Headers { is_64: false, machine: 3, kind: 2, interpreter: None };
        assert!(headers.mismatch().unwrap().contains("32-bit"));
    }
}
