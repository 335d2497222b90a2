//! What the daemon may do: no more than it needs once it runs.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

/// Descriptors for each board: the process, the board, and the board again while the kernel is to be told of it.
const FOR_A_BOARD: u64 = 3;
/// Descriptors for all else.
const OTHERS: u64 = 64;

/// Raises the limit on descriptors as far as `boards` need it; how many boards there are enough for.
pub(crate) fn raise_descriptors(boards: u32) -> u32 {
    let need = FOR_A_BOARD * u64::from(boards) + OTHERS;
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= need);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if !enough(current) {
        let most = if enough(maximum) { maximum } else { Some(need) };
        // A process that may not raise the maximum takes what there is.
        if setrlimit(Resource::Nofile, Rlimit { current: Some(need), maximum: most }).is_err() {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        }
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(need).min(need);
    (limit.saturating_sub(OTHERS) / FOR_A_BOARD) as u32
}

/// Gives up all rights but two, for the calling thread and those it starts from now on: to make boards (`CAP_BPF`), and
/// to send them however many descriptors other clients leave lying in their sockets (`CAP_SYS_RESOURCE`). No program
/// that they execute, should they be made to, gets others.
pub(crate) fn drop() -> io::Result<()> {
    let had = capabilities(None)?.permitted;
    // A process without `CAP_BPF` has the older, wider right, and needs it.
    let bpf = if had.contains(CapabilitySet::BPF) { CapabilitySet::BPF } else { CapabilitySet::SYS_ADMIN };
    let kept = had & (bpf | CapabilitySet::SYS_RESOURCE);
    set_no_new_privs(true)?;
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )?;
    Ok(())
}
