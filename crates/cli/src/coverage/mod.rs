//! The coverage matrix: how often each lock is among the best, over many cells. `lockwork sim coverage` fills it with simulated
//! figures, `lockwork compare --coverage` with measured ones.

mod files;
mod html;
mod table;

use lockwork_stats::coverage::{AgainstBest, Standing, best};
use lockwork_stats::{mean, median};
use serde::Serialize;

pub(crate) use files::write;
pub(crate) use table::render;

/// From this Jain's index on a lock shares a cell fairly.
pub(crate) const FAIR: f64 = 0.8;

/// Locks over cells.
#[derive(Debug)]
pub(crate) struct Matrix {
    /// What the figures are, in a line.
    pub(crate) title: String,
    /// What a reader must know beside.
    pub(crate) notes: Vec<String>,
    pub(crate) locks: Vec<String>,
    pub(crate) cells: Vec<Cell>,
}

/// A situation in which the locks were measured.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    /// The machine, or the program's comparison.
    pub(crate) group: String,
    pub(crate) workload: String,
    pub(crate) threads: Option<u32>,
    /// `pinned` or `unpinned`, where that is known.
    pub(crate) placement: Option<&'static str>,
    /// The command that measures this cell again.
    pub(crate) command: String,
    /// One for each lock; `None` where it was not measured.
    #[serde(skip)]
    pub(crate) entries: Vec<Option<Entry>>,
}

/// What a lock did in a cell.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Entry {
    /// Higher is better; 0 where the lock collapsed or failed.
    pub(crate) value: f64,
    /// Jain's index of the threads' sections.
    pub(crate) jain: Option<f64>,
    /// The 99th percentile of the time of a section or request, in the unit of its comparison.
    pub(crate) p99: Option<f64>,
    /// Whether no thread was kept waiting, where that is known.
    pub(crate) fair: Option<bool>,
    /// What went wrong.
    pub(crate) trouble: Option<String>,
}

/// What a lock's column comes to.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) lock: String,
    #[serde(flatten)]
    pub(crate) standing: Standing,
    /// The name of the worst cell.
    pub(crate) worst_in: String,
    /// The share of the cells in which it is fair and within 5% of the best fair lock.
    pub(crate) fair_within_5: Option<f64>,
    /// The share of the cells in which it is fair.
    pub(crate) fair: Option<f64>,
    /// The median and the lowest of Jain's index over the cells.
    pub(crate) jain: Option<(f64, f64)>,
    /// The geometric mean of its P99 over the shortest P99 of the cell.
    pub(crate) p99_over_best: Option<f64>,
    /// Cells in which it collapsed or failed.
    pub(crate) troubles: usize,
}

impl Cell {
    /// The best value.
    pub(crate) fn best(&self) -> Option<f64> {
        best(self.entries.iter().map(|entry| Some(entry.as_ref()?.value)))
    }

    /// A lock's value over the best.
    pub(crate) fn ratio(&self, lock: usize) -> Option<f64> {
        Some(AgainstBest { value: self.entries[lock].as_ref()?.value, best: self.best()? }.ratio())
    }

    fn against_best(&self, lock: usize) -> Option<AgainstBest> {
        Some(AgainstBest { value: self.entries[lock].as_ref()?.value, best: self.best()? })
    }

    /// The same among the locks that are fair here: one that is not has done nothing.
    fn against_best_fair(&self, lock: usize) -> Option<AgainstBest> {
        let is_fair = |entry: &Entry| entry.fair == Some(true);
        let fair = |entry: &Option<Entry>| {
            let entry = entry.as_ref()?;
            is_fair(entry).then_some(entry.value)
        };
        let own = self.entries[lock].as_ref()?;
        own.fair?;
        Some(AgainstBest {
            value: if is_fair(own) { own.value } else { 0.0 },
            best: best(self.entries.iter().map(fair))?,
        })
    }

    fn p99_over_best(&self, lock: usize) -> Option<f64> {
        let of = |entry: &Option<Entry>| entry.as_ref()?.p99.filter(|p99| *p99 > 0.0);
        let shortest = self.entries.iter().filter_map(of).reduce(f64::min)?;
        Some(of(&self.entries[lock])? / shortest)
    }

    /// Machine, workload, threads and placement.
    pub(crate) fn name(&self) -> String {
        let threads =
            self.threads.map(|threads| format!("{threads} thread{}", if threads == 1 { "" } else { "s" }));
        let parts = [
            Some(self.group.clone()),
            Some(self.workload.clone()),
            threads,
            self.placement.map(str::to_owned),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    }
}

impl Matrix {
    /// The locks, those that cover most first.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = (0..self.locks.len()).filter_map(|lock| self.row(lock)).collect();
        rows.sort_by(|a, b| {
            let key = |row: &Row| (row.standing.within_5, row.standing.geometric_mean);
            key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal)
        });
        rows
    }

    fn row(&self, lock: usize) -> Option<Row> {
        let cells = || self.cells.iter().enumerate();
        let pairs: Vec<_> = cells().filter_map(|(at, cell)| Some((at, cell.against_best(lock)?))).collect();
        let standing = Standing::of(&pairs)?;
        let fair: Vec<_> =
            cells().filter_map(|(at, cell)| Some((at, cell.against_best_fair(lock)?))).collect();
        let own = || self.cells.iter().filter_map(|cell| cell.entries[lock].as_ref());
        let verdicts: Vec<f64> = own().filter_map(|entry| Some(f64::from(u8::from(entry.fair?)))).collect();
        let jain: Vec<f64> = own().filter_map(|entry| entry.jain).collect();
        let p99: Vec<f64> =
            self.cells.iter().filter_map(|cell| Some(cell.p99_over_best(lock)?.ln())).collect();
        Some(Row {
            lock: self.locks[lock].clone(),
            worst_in: self.cells[standing.worst_cell].name(),
            standing,
            fair_within_5: Standing::of(&fair).map(|standing| standing.within_5),
            fair: mean(&verdicts),
            jain: median(&jain).zip(jain.iter().copied().reduce(f64::min)),
            p99_over_best: mean(&p99).map(f64::exp),
            troubles: own().filter(|entry| entry.trouble.is_some()).count(),
        })
    }

    /// The same without the cells in which fewer than two locks were measured: they compare nothing.
    pub(crate) fn compared(mut self) -> Self {
        self.cells.retain(|cell| cell.entries.iter().flatten().count() > 1);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: f64, jain: f64, p99: f64) -> Option<Entry> {
        Some(Entry { value, jain: Some(jain), p99: Some(p99), fair: Some(jain >= FAIR), trouble: None })
    }

    fn matrix(cells: Vec<Vec<Option<Entry>>>) -> Matrix {
        let of = |(at, entries): (usize, Vec<Option<Entry>>)| Cell {
            group: format!("machine {at}"),
            workload: String::new(),
            threads: Some(2),
            placement: None,
            command: String::new(),
            entries,
        };
        Matrix {
            title: String::new(),
            notes: Vec::new(),
            locks: vec!["greedy".to_owned(), "even".to_owned()],
            cells: cells.into_iter().enumerate().map(of).collect(),
        }
    }

    #[test]
    fn a_lock_that_starves_a_thread_has_not_won_a_cell() {
        let matrix = matrix(vec![
            vec![entry(100.0, 0.2, 900.0), entry(50.0, 1.0, 100.0)],
            vec![entry(100.0, 0.9, 100.0), entry(98.0, 1.0, 100.0)],
        ]);
        let rows = matrix.rows();
        let of = |lock: &str| rows.iter().find(|row| row.lock == lock).expect("a row");
        assert_eq!((of("greedy").standing.within_5, of("greedy").fair_within_5), (1.0, Some(0.5)));
        assert_eq!((of("even").standing.within_5, of("even").fair_within_5), (0.5, Some(1.0)));
        assert_eq!(of("even").worst_in, "machine 0, 2 threads");
        assert_eq!(of("greedy").jain, Some((0.55, 0.2)));
        assert!(of("greedy").p99_over_best.is_some_and(|ratio| (ratio - 3.0).abs() < 1e-9));
    }

    #[test]
    fn a_cell_with_one_lock_compares_nothing() {
        let matrix =
            matrix(vec![vec![entry(1.0, 1.0, 1.0), None], vec![entry(1.0, 1.0, 1.0), entry(2.0, 1.0, 1.0)]])
                .compared();
        assert_eq!(matrix.cells.len(), 1);
        assert_eq!(matrix.rows()[0].lock, "even");
    }
}
