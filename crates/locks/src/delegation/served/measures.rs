//! What a server has done, and what its authors conclude from that.

/// What a server has done (Lozi et al., section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Scans in which there was at least one request.
    pub scans: usize,
    /// Requests that were run.
    pub served: usize,
    /// Of the scans, those that found requests for more than one delegate (Lozi et al.: false serialisation).
    pub mixed: usize,
}

impl Measures {
    /// The share of the scans that found requests which found them for more than one delegate: how much of the time threads
    /// wait for sections that have nothing to do with theirs.
    #[must_use]
    pub fn false_serialisation(&self) -> f64 {
        share(self.mixed, self.scans)
    }

    /// Requests that a scan found which found any, as a share of the `clients` that there are: 1 = all of them waited.
    #[must_use]
    pub fn use_rate(&self, clients: usize) -> f64 {
        share(self.served, self.scans.saturating_mul(clients))
    }

    /// What both have done.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            scans: self.scans.wrapping_add(other.scans),
            served: self.served.wrapping_add(other.served),
            mixed: self.mixed.wrapping_add(other.mixed),
        }
    }

    /// What has been done since `before`.
    #[must_use]
    pub fn since(&self, before: Self) -> Self {
        Self {
            scans: self.scans.wrapping_sub(before.scans),
            served: self.served.wrapping_sub(before.served),
            mixed: self.mixed.wrapping_sub(before.mixed),
        }
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
