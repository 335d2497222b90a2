//! Rates of what is tried one after the other, for locks and delegates that choose by trying: by how much one has to differ from
//! another to say something.

/// How often something happens in 2^`shift` ns that has happened so many `times` while `spent` ns have passed, which are not 0; at most
/// `u32::MAX`.
pub(crate) fn of(times: u32, spent: u32, shift: u32) -> u32 {
    let rate = (u64::from(times) << shift) / u64::from(spent);
    rate.min(u64::from(u32::MAX)) as u32
}

/// Whether `rate` is that of another load than `before`, which is 0 where it is not known: more than its double, or less than half of it.
pub(crate) fn is_of_another_load(rate: u32, before: u32) -> bool {
    before != 0 && (rate > before.saturating_mul(2) || rate < before / 2)
}

/// Whether what has this `rate` is to replace what was the best so far: it is higher by more than an eighth.
pub(crate) fn pays(rate: u32, best: u32) -> bool {
    rate > best.saturating_add(best / 8)
}
