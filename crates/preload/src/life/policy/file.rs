//! Files by raw system calls: libc's would change `errno` under the program, and some of them are cancellation points.

use core::ffi::CStr;

use syscalls::{Errno, Sysno, syscall};

const AT_FDCWD: usize = -100_isize as usize;
const READ_ONLY_CLOEXEC: usize = 0o2_000_000;
const SEEK_END: usize = 2;
const PROT_READ: usize = 1;
const MAP_PRIVATE: usize = 2;

/// An open file.
pub(super) struct File(usize);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        let _ = unsafe { syscall!(Sysno::close, self.0) };
    }
}

impl File {
    /// Opens a file for reading.
    pub(super) fn open(path: &CStr) -> Result<Self, Errno> {
        // SAFETY: a terminated path.
        unsafe { syscall!(Sysno::openat, AT_FDCWD, path.as_ptr(), READ_ONLY_CLOEXEC, 0) }.map(File)
    }

    /// Reads up to the end of the file or of the buffer.
    pub(super) fn read<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        let mut filled = 0;
        while filled < buffer.len() {
            let rest = &mut buffer[filled..];
            // SAFETY: `rest` is writable for its whole length.
            match unsafe { syscall!(Sysno::read, self.0, rest.as_mut_ptr(), rest.len()) } {
                Ok(0) => break,
                Ok(got) => filled += got,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&buffer[..filled])
    }

    /// The whole file in memory, for ever.
    ///
    /// It must not shrink: that would make its last pages unreadable. Package managers and linkers replace files of code
    /// instead, for running programs have them mapped like this.
    pub(super) fn map(&self) -> Option<&'static [u8]> {
        // SAFETY: no memory is involved.
        let bytes =
            unsafe { syscall!(Sysno::lseek, self.0, 0, SEEK_END) }.ok().filter(|&bytes| bytes != 0)?;
        // SAFETY: a fresh mapping disturbs nobody.
        let start = unsafe { syscall!(Sysno::mmap, 0, bytes, PROT_READ, MAP_PRIVATE, self.0, 0) }.ok()?;
        // SAFETY: mapped for reading, and never unmapped.
        Some(unsafe { core::slice::from_raw_parts(start as *const u8, bytes) })
    }

    /// The file's path without symbolic links, if it fits into the buffer.
    pub(super) fn path<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b str> {
        let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
        let mut number = self.0;
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        for place in link[b"/proc/self/fd/".len()..].get_mut(..digits)?.iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            number /= 10;
        }
        // SAFETY: a terminated path, and a writable buffer of this length.
        let length = unsafe {
            syscall!(Sysno::readlinkat, AT_FDCWD, link.as_ptr(), buffer.as_mut_ptr(), buffer.len())
        }
        .ok()?;
        if length == buffer.len() {
            return None;
        }
        core::str::from_utf8(&buffer[..length]).ok()
    }
}
