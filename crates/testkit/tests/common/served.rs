//! What the library says at the end of a process, added up: which lock served how many.

/// The counts of all lines of one run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Served {
    /// Mutexes, by the lock that served them.
    pub(crate) mutexes: Vec<(String, u64)>,
    /// Reader-writer locks, likewise.
    pub(crate) rwlocks: Vec<(String, u64)>,
    /// Processes that reported.
    pub(crate) lines: usize,
}

/// What serves reader-writer locks where a line names no lock for them.
const DEFAULT_RWLOCK: &str = "rw-futex";

impl Served {
    /// Reads all lines such as `lockwork: db_bench[42]: served 3 mutexes by mcs-stp, 2 rwlocks; forwarded to glibc …`.
    pub(crate) fn read(stderr: &str) -> Self {
        let mut all = Self::default();
        for line in stderr.lines().filter(|line| line.starts_with("lockwork: ")) {
            let Some((_, served)) = line.split_once(": served ") else { continue };
            all.lines += 1;
            let served = served.split(';').next().unwrap_or_default();
            for (count, what) in items(served) {
                let (kind, lock) = what.split_once(" by ").unwrap_or((what, DEFAULT_RWLOCK));
                match kind {
                    "mutexes" => add(&mut all.mutexes, lock, count),
                    "rwlocks" => add(&mut all.rwlocks, lock, count),
                    _ => {}
                }
            }
        }
        all
    }
}

/// The parts of `3 mutexes by mcs-stp, 12 mutexes by gcr(mcs-stp, active=2), 2 conditions`, each with its count. A spec may
/// have commas of its own: an item begins with a number.
fn items(served: &str) -> impl Iterator<Item = (u64, &str)> {
    let is_start = |at: usize| at == 0 || served[..at].ends_with(", ");
    let starts: Vec<usize> = served
        .char_indices()
        .filter(|&(at, one)| one.is_ascii_digit() && is_start(at))
        .map(|(at, _)| at)
        .collect();
    let ends: Vec<usize> = starts.iter().skip(1).map(|start| start - 2).chain([served.len()]).collect();
    starts.into_iter().zip(ends).filter_map(|(start, end)| {
        let (count, what) = served[start..end].split_once(' ')?;
        Some((count.parse().ok()?, what))
    })
}

fn add(to: &mut Vec<(String, u64)>, lock: &str, count: u64) {
    match to.iter_mut().find(|(name, _)| name == lock) {
        Some((_, sum)) => *sum += count,
        None => to.push((lock.to_owned(), count)),
    }
}

/// Whether `served` is what a program must have got: something by `lock` and nothing by a lock besides it and those of `beside`,
/// or nothing at all.
///
/// # Errors
/// What is wrong.
pub(crate) fn expect(
    kind: &str,
    served: &[(String, u64)],
    lock: Option<&str>,
    beside: &[&str],
) -> Result<(), String> {
    let is_other = |name: &str| Some(name) != lock && !beside.contains(&name);
    let others: Vec<_> = served.iter().filter(|(name, _)| is_other(name)).collect();
    if !others.is_empty() {
        return Err(format!("{kind} were served by others than {}: {others:?}", lock.unwrap_or("glibc")));
    }
    match lock {
        Some(lock) if served.iter().all(|(name, _)| name != lock) => {
            Err(format!("no {kind} were served by {lock}"))
        }
        _ => Ok(()),
    }
}
