//! Which files a process has mapped, for the reader's symbols; and where there is code, for walks of stacks.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::sys;

use crate::format::{CODE, MAPS, Region};

/// A process that makes code as it runs would otherwise read its maps at every new stack.
const MOST_READS: u32 = 256;

impl Region {
    /// Reads `/proc/self/maps`, unless another thread does.
    pub fn read_maps(&self) {
        let header = &self.header;
        // ORDER: with the release below; the text is written by one thread at a time.
        if header.reading_maps.swap(1, Acquire) != 0 {
            return;
        }
        if header.maps_read.fetch_add(1, Relaxed) < MOST_READS {
            header.maps_bytes.store(0, Relaxed);
            // SAFETY: the array of atomic bytes is `MAPS` bytes that may change at any time; only this thread writes to it.
            let text =
                unsafe { core::slice::from_raw_parts_mut(self.maps.as_ptr().cast_mut().cast::<u8>(), MAPS) };
            let text: &[u8] = sys::read_file(c"/proc/self/maps", text).unwrap_or(&[]);
            self.note_code(text);
            header.maps_bytes.store(text.len() as u32, Release);
        }
        header.reading_maps.store(0, Release);
    }

    fn note_code(&self, text: &[u8]) {
        let mut count = 0;
        for line in text.split(|byte| *byte == b'\n') {
            let Some((start, end)) = executable(line) else { continue };
            let Some(range) = self.code.get(count) else { break };
            range.start.store(start, Relaxed);
            range.end.store(end, Relaxed);
            count += 1;
        }
        // ORDER: with `is_code`. While the ranges are written anew, a walk may end early, or take a word for an address of
        // code that is none any more.
        self.header.code_ranges.store(count.min(CODE) as u32, Release);
    }
}

/// The range of a line `7f00-7f10 r-xp …`, if there is code in it.
fn executable(line: &[u8]) -> Option<(u64, u64)> {
    let dash = line.iter().position(|byte| *byte == b'-')?;
    let blank = line.iter().position(|byte| *byte == b' ')?;
    if *line.get(blank + 3)? != b'x' {
        return None;
    }
    Some((number(line.get(..dash)?)?, number(line.get(dash + 1..blank)?)?))
}

fn number(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_in_maps() {
        assert_eq!(executable(b"7f00-7f10 r-xp 00001000 fe:00 12 /lib/x.so"), Some((0x7f00, 0x7f10)));
        assert_eq!(executable(b"7f00-7f10 r--p 00001000 fe:00 12 /lib/x.so"), None);
        assert_eq!(executable(b""), None);
    }
}
