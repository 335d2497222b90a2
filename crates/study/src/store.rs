//! The runs of a campaign: one row a run, in an SQLite database.
//!
//! A run is inserted by one statement when it has ended, and SQLite keeps a statement whole whatever happens: a campaign that is
//! killed has lost at most the run that was under way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Deserialize, Serialize};

use crate::campaign::{Past, Placement};
use crate::error::Error;

/// Which run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// The application's name.
    pub application: String,
    /// The level of contention, as the column `node` has it.
    pub nodes: u32,
    /// Threads of the application.
    pub threads: u32,
    /// Where threads and memory were.
    pub placement: Placement,
    /// The lock.
    pub lock: String,
    /// From 0.
    pub round: u32,
}

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It has a throughput.
    Ok,
    /// Exit status other than 0, a signal, or a server that ended before its client.
    Crashed,
    /// Killed after its time-out.
    TimedOut,
    /// It ended well and printed no throughput.
    Silent,
    /// It ended well, and the library had served no lock of it: the figure is not the lock's.
    NotServed,
    /// It could not be begun: set-up or preparation failed, the server was not ready.
    Unprepared,
    /// The jobs that were to make it vanished with their nodes, again and again.
    Vanished,
}

impl Outcome {
    /// All, the good one first.
    pub const ALL: [Outcome; 7] = [
        Outcome::Ok,
        Outcome::Crashed,
        Outcome::TimedOut,
        Outcome::Silent,
        Outcome::NotServed,
        Outcome::Unprepared,
        Outcome::Vanished,
    ];

    /// As files say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Crashed => "crashed",
            Outcome::TimedOut => "timed out",
            Outcome::Silent => "no figure",
            Outcome::NotServed => "not served",
            Outcome::Unprepared => "not prepared",
            Outcome::Vanished => "vanished",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == text)
    }
}

/// A run that was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Which.
    pub key: RunKey,
    /// What it is called in reports: the application, or the one that it is a linked variant of.
    pub bench: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Why it is not ok, with the last line that it printed.
    pub reason: Option<String>,
    /// The simulated machine; `None` for this host.
    pub machine: Option<String>,
    /// `linked`, of another application; else `interposed`.
    pub variant: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Operations a second.
    pub throughput: Option<f64>,
    /// Of the response time, as the application's own report has it.
    pub p50: Option<f64>,
    /// The same.
    pub p99: Option<f64>,
    /// The same.
    pub p999: Option<f64>,
    /// Joules of all packages; `None`: not measured.
    pub energy: Option<f64>,
    /// Joules of the memory; `None`: not measured.
    pub energy_dram: Option<f64>,
    /// Seconds for which the energy was measured.
    pub energy_seconds: Option<f64>,
    /// Of the process under the lock and its children.
    pub usage: Usage,
    /// Jain's index of the operations by thread.
    pub jain: Option<f64>,
    /// The share of the operations of the upper half of the threads.
    pub upper_half: Option<f64>,
    /// All metrics by name.
    pub metrics: BTreeMap<String, f64>,
    /// What the machine was like.
    pub surroundings: Surroundings,
    /// What the library said that it served, and by which lock; each different line of its processes once.
    #[serde(default)]
    pub served: Option<String>,
}

/// Resources of a process and the children that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU seconds in user mode.
    pub user: f64,
    /// CPU seconds in the kernel.
    pub system: f64,
    /// KiB, at most.
    pub max_rss: i64,
    /// Context switches by waiting.
    pub voluntary: i64,
    /// Context switches by preemption.
    pub involuntary: i64,
    /// Page faults without reading.
    pub minor_faults: i64,
    /// Page faults that read.
    pub major_faults: i64,
}

/// What a figure must name beside itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Surroundings {
    /// The host's name.
    pub host: String,
    /// Kernel and release.
    pub kernel: String,
    /// The version of what was measured.
    pub commit: String,
    /// Processor, CPUs, nodes, frequency governor, boost, SMT, huge pages, microcode: what can be read without privileges.
    pub settings: BTreeMap<String, String>,
    /// CPU seconds that others used during the run: neither the command nor its server.
    pub competing: Option<f64>,
    /// The load average when it began.
    pub load: Option<f64>,
    /// The highest of the thermal zones when it ended, degrees Celsius.
    pub temperature: Option<f64>,
    /// Of the CPUs when it ended, the mean, MHz.
    pub frequency: Option<f64>,
    /// The Slurm job, where it was one.
    pub job: Option<String>,
}

/// The database of a campaign.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

/// The layout of the database.
const SCHEMA: i64 = 1;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS campaign (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS absent (
        application TEXT, lock TEXT, reason TEXT NOT NULL, PRIMARY KEY (application, lock)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS runs (
        application TEXT NOT NULL, nodes INTEGER NOT NULL, threads INTEGER NOT NULL, placement TEXT NOT NULL,
        lock TEXT NOT NULL, round INTEGER NOT NULL,
        outcome TEXT NOT NULL, reason TEXT, machine TEXT, variant TEXT NOT NULL, started TEXT NOT NULL, seconds REAL NOT NULL,
        throughput REAL, p50 REAL, p99 REAL, p999 REAL, energy REAL, energy_dram REAL, energy_seconds REAL,
        user_s REAL, system_s REAL, max_rss_kib INTEGER, voluntary INTEGER, involuntary INTEGER,
        minor_faults INTEGER, major_faults INTEGER, jain REAL, upper_half REAL, metrics TEXT NOT NULL,
        host TEXT NOT NULL, kernel TEXT NOT NULL, commit_id TEXT NOT NULL, settings TEXT NOT NULL,
        competing REAL, load REAL, temperature REAL, frequency REAL, job TEXT, bench TEXT NOT NULL, served TEXT,
        PRIMARY KEY (application, nodes, threads, placement, lock, round)) WITHOUT ROWID;
";

const COLUMNS: &str = "application, nodes, threads, placement, lock, round, outcome, reason, machine, variant, started, \
     seconds, throughput, p50, p99, p999, energy, energy_dram, energy_seconds, user_s, system_s, max_rss_kib, voluntary, \
     involuntary, minor_faults, major_faults, jain, upper_half, metrics, host, kernel, commit_id, settings, competing, load, \
     temperature, frequency, job, bench, served";

impl Store {
    /// Opens the database of a campaign, or makes it.
    ///
    /// # Errors
    ///
    /// If it cannot be read or written, or is of another layout.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let store = Self::connect(path, Connection::open(path))?;
        store.ask(|connection| {
            // Complete on disk before the next run begins; one file, which can be copied at any time between two runs.
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch(TABLES)?;
            // Databases that were begun before it was kept have no such column.
            if !has_served(connection)? {
                connection.execute_batch("ALTER TABLE runs ADD COLUMN served TEXT")?;
            }
            connection.execute("INSERT OR IGNORE INTO campaign VALUES ('schema', ?1)", [SCHEMA.to_string()])
        })?;
        store.check_schema()
    }

    /// Opens a database that is there, to read it while others may write.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is of another layout.
    pub fn read(path: &Path) -> Result<Self, Error> {
        // What a writer that was killed has left half done must be undone before anything is read, which is a write.
        let open = |flags| Self::connect(path, Connection::open_with_flags(path, flags))?.check_schema();
        open(rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)
            .or_else(|_| open(rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY))
    }

    fn connect(path: &Path, connection: rusqlite::Result<Connection>) -> Result<Self, Error> {
        let connection = connection.map_err(|error| Error::store(path, &error))?;
        let store = Store { path: path.to_owned(), connection };
        store.ask(|connection| connection.busy_timeout(std::time::Duration::from_secs(30)))?;
        Ok(store)
    }

    fn check_schema(self) -> Result<Self, Error> {
        match self.value("schema")? {
            Some(schema) if schema == SCHEMA.to_string() => Ok(self),
            other => Err(Error::Store {
                path: self.path,
                reason: format!("layout {} is not {SCHEMA}, this version's", other.unwrap_or_default()),
            }),
        }
    }

    fn ask<T>(&self, ask: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        ask(&self.connection).map_err(|error| Error::store(&self.path, &error))
    }

    /// What is kept of the campaign under a key.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub fn value(&self, key: &str) -> Result<Option<String>, Error> {
        let sql = "SELECT value FROM campaign WHERE key = ?1";
        self.ask(|connection| connection.query_row(sql, [key], |row| row.get(0)).optional())
    }

    /// Keeps something of the campaign.
    ///
    /// # Errors
    ///
    /// If the database cannot be written.
    pub fn keep(&self, key: &str, value: &str) -> Result<(), Error> {
        self.ask(|connection| {
            connection.execute("INSERT OR REPLACE INTO campaign VALUES (?1, ?2)", [key, value])
        })?;
        Ok(())
    }

    /// Replaces the list of what does not run at all: application, lock (empty: all), reason.
    ///
    /// # Errors
    ///
    /// If the database cannot be written.
    pub fn keep_absent(&mut self, absent: &[(String, String, String)]) -> Result<(), Error> {
        let path = self.path.clone();
        let mut replace = || {
            let transaction = self.connection.transaction()?;
            transaction.execute("DELETE FROM absent", [])?;
            for (application, lock, reason) in absent {
                transaction.execute(
                    "INSERT OR REPLACE INTO absent VALUES (?1, ?2, ?3)",
                    [application, lock, reason],
                )?;
            }
            transaction.commit()
        };
        replace().map_err(|error| Error::store(&path, &error))
    }

    /// What does not run at all.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub fn absent(&self) -> Result<Vec<(String, String, String)>, Error> {
        self.ask(|connection| {
            let mut statement =
                connection.prepare("SELECT application, lock, reason FROM absent ORDER BY 1, 2")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })
    }

    /// Adds a run. One that is there already stays as it is: a job that was given up may still hand in what another has made
    /// again.
    ///
    /// # Errors
    ///
    /// If the database cannot be written: a full disk, for one.
    ///
    /// # Panics
    ///
    /// Never: metrics and settings are plain data.
    pub fn add(&self, run: &Record) -> Result<(), Error> {
        let placeholders = vec!["?"; COLUMNS.split(',').count()].join(", ");
        let sql = format!("INSERT OR IGNORE INTO runs ({COLUMNS}) VALUES ({placeholders})");
        let (usage, around) = (&run.usage, &run.surroundings);
        let metrics = serde_json::to_string(&run.metrics).expect("plain data");
        let settings = serde_json::to_string(&around.settings).expect("plain data");
        self.ask(|connection| {
            connection.prepare(&sql)?.execute(rusqlite::params_from_iter([
                sql_value(&run.key.application),
                sql_value(run.key.nodes),
                sql_value(run.key.threads),
                sql_value(run.key.placement.name()),
                sql_value(&run.key.lock),
                sql_value(run.key.round),
                sql_value(run.outcome.name()),
                sql_value(&run.reason),
                sql_value(&run.machine),
                sql_value(&run.variant),
                sql_value(&run.started),
                sql_value(run.seconds),
                sql_value(run.throughput),
                sql_value(run.p50),
                sql_value(run.p99),
                sql_value(run.p999),
                sql_value(run.energy),
                sql_value(run.energy_dram),
                sql_value(run.energy_seconds),
                sql_value(usage.user),
                sql_value(usage.system),
                sql_value(usage.max_rss),
                sql_value(usage.voluntary),
                sql_value(usage.involuntary),
                sql_value(usage.minor_faults),
                sql_value(usage.major_faults),
                sql_value(run.jain),
                sql_value(run.upper_half),
                sql_value(metrics),
                sql_value(&around.host),
                sql_value(&around.kernel),
                sql_value(&around.commit),
                sql_value(settings),
                sql_value(around.competing),
                sql_value(around.load),
                sql_value(around.temperature),
                sql_value(around.frequency),
                sql_value(&around.job),
                sql_value(&run.bench),
                sql_value(&run.served),
            ]))
        })?;
        Ok(())
    }

    /// All runs, ordered by configuration and round.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub fn runs(&self) -> Result<Vec<Record>, Error> {
        self.ask(|connection| {
            let columns = if has_served(connection)? { COLUMNS } else { &COLUMNS.replace("served", "NULL") };
            let mut statement =
                connection.prepare(&format!("SELECT {columns} FROM runs ORDER BY 1, 2, 3, 4, 5, 6"))?;
            statement.query_map([], record)?.collect()
        })
    }

    /// What the plan must know of the runs that were made.
    pub(crate) fn past(&self) -> Result<BTreeMap<RunKey, Past>, Error> {
        let runs = self.runs()?.into_iter();
        Ok(runs.map(|run| (run.key, Past { outcome: run.outcome, throughput: run.throughput })).collect())
    }

    /// Forgets the runs of an application, or those that failed; says how many. Of a campaign that lacks them it is not known
    /// how long it takes, even if it was complete.
    ///
    /// # Errors
    ///
    /// If the database cannot be written.
    pub fn forget(&self, application: Option<&str>) -> Result<usize, Error> {
        self.ask(|connection| {
            let runs = match application {
                Some(name) => {
                    connection.execute("DELETE FROM campaign WHERE key = 'application ' || ?1", [name])?;
                    connection.execute("DELETE FROM runs WHERE application = ?1", [name])?
                }
                None => connection.execute("DELETE FROM runs WHERE outcome <> 'ok'", [])?,
            };
            if runs > 0 {
                connection.execute("DELETE FROM campaign WHERE key = 'left'", [])?;
            }
            Ok(runs)
        })
    }
}

/// Whether the runs have the column of what was served.
fn has_served(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM pragma_table_info('runs') WHERE name = 'served'")?.exists([])
}

fn sql_value(value: impl rusqlite::ToSql) -> rusqlite::types::Value {
    match value.to_sql().expect("numbers and text are values of SQL") {
        rusqlite::types::ToSqlOutput::Owned(value) => value,
        rusqlite::types::ToSqlOutput::Borrowed(value) => value.into(),
        other => unreachable!("{other:?} is neither a number nor text"),
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let bad = |column: usize, what: &str| {
        rusqlite::Error::InvalidColumnType(column, what.to_owned(), rusqlite::types::Type::Text)
    };
    let text = |column: usize| row.get::<_, String>(column);
    let placement = match text(3)?.as_str() {
        "pinned" => Placement::Pinned,
        "unpinned" => Placement::Unpinned,
        "interleaved" => Placement::Interleaved,
        other => return Err(bad(3, other)),
    };
    Ok(Record {
        key: RunKey {
            application: row.get(0)?,
            nodes: row.get(1)?,
            threads: row.get(2)?,
            placement,
            lock: row.get(4)?,
            round: row.get(5)?,
        },
        bench: row.get(38)?,
        outcome: Outcome::parse(&text(6)?).ok_or_else(|| bad(6, "outcome"))?,
        reason: row.get(7)?,
        machine: row.get(8)?,
        variant: row.get(9)?,
        started: row.get(10)?,
        seconds: row.get(11)?,
        throughput: row.get(12)?,
        p50: row.get(13)?,
        p99: row.get(14)?,
        p999: row.get(15)?,
        energy: row.get(16)?,
        energy_dram: row.get(17)?,
        energy_seconds: row.get(18)?,
        usage: Usage {
            user: row.get(19)?,
            system: row.get(20)?,
            max_rss: row.get(21)?,
            voluntary: row.get(22)?,
            involuntary: row.get(23)?,
            minor_faults: row.get(24)?,
            major_faults: row.get(25)?,
        },
        jain: row.get(26)?,
        upper_half: row.get(27)?,
        metrics: serde_json::from_str(&text(28)?).map_err(|_| bad(28, "metrics"))?,
        surroundings: Surroundings {
            host: row.get(29)?,
            kernel: row.get(30)?,
            commit: row.get(31)?,
            settings: serde_json::from_str(&text(32)?).map_err(|_| bad(32, "settings"))?,
            competing: row.get(33)?,
            load: row.get(34)?,
            temperature: row.get(35)?,
            frequency: row.get(36)?,
            job: row.get(37)?,
        },
        served: row.get(39)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_of_before_it_was_kept_what_was_served_is_read_and_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        let store = Store::open(&path).unwrap();
        store.ask(|connection| connection.execute_batch("ALTER TABLE runs DROP COLUMN served")).unwrap();
        assert!(Store::read(&path).unwrap().runs().unwrap().is_empty());
        let store = Store::open(&path).unwrap();
        assert!(store.ask(has_served).unwrap());
        assert!(store.runs().unwrap().is_empty());
    }
}
