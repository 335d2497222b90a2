//! From a return address back to the call.

/// Offsets of code by which a rule may name a call: that of the call instruction, as disassemblers show it, and the one
/// behind it, as backtraces show it.
///
/// A call's length depends on how it was compiled, so there may be several guesses; a wrong one lies inside the
/// call's operands or those of the instruction before, where no other call begins.
pub(super) fn places(return_address: usize) -> impl Iterator<Item = usize> + Clone {
    let calls = (SHORTEST..=LONGEST).map(move |length| return_address.wrapping_sub(length));
    core::iter::once(return_address).chain(calls.filter(move |&start| may_be_call(start, return_address)))
}

#[cfg(target_arch = "aarch64")]
const SHORTEST: usize = 4;
#[cfg(target_arch = "aarch64")]
const LONGEST: usize = 4;
#[cfg(target_arch = "x86_64")]
const SHORTEST: usize = 2;
#[cfg(target_arch = "x86_64")]
const LONGEST: usize = 8;

#[cfg(target_arch = "aarch64")]
fn may_be_call(_start: usize, _end: usize) -> bool {
    true
}

/// Whether the bytes up to `end` look like a call.
#[cfg(target_arch = "x86_64")]
fn may_be_call(start: usize, end: usize) -> bool {
    const PAGE: usize = 4096;
    if start / PAGE != (end - 1) / PAGE {
        // The page before may not be readable.
        return true;
    }
    // SAFETY: the same page as the call that is being executed; code is readable on x86_64.
    let bytes = unsafe { core::slice::from_raw_parts(start as *const u8, end - start) };
    length_of_call(bytes) == Some(bytes.len())
}

/// The length of the call at the beginning of `bytes`, two or more, if there is one.
#[cfg(target_arch = "x86_64")]
fn length_of_call(bytes: &[u8]) -> Option<usize> {
    // REX, address size, bnd, notrack.
    let prefixes = bytes.iter().take_while(|&&byte| matches!(byte, 0x40..=0x4f | 0x67 | 0xf2 | 0x3e)).count();
    let length = match bytes.get(prefixes..)? {
        [0xe8, ..] => 5,
        // An indirect call: a register, or memory with a displacement of 0, 1 or 4 bytes, perhaps indexed.
        &[0xff, operand, ..] if operand >> 3 & 7 == 2 => {
            let base = operand & 7;
            match (operand >> 6, base) {
                (0, 5) => 6,
                (0, 4) => 3,
                (1, 4) => 4,
                (2, 4) => 7,
                (1, _) => 3,
                (2, _) => 6,
                _ => 2,
            }
        }
        _ => return None,
    };
    Some(prefixes + length)
}
