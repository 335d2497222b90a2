//! What is asked for, by number, and what is made of it.

use crate::cover::Cover;
use crate::data::Study;
use crate::error::Error;
use crate::observations::Observations;
use crate::render::{self, Shape};
use crate::table::Table;
use crate::tables;
use crate::view::{Level, Metric, View};

/// What a table or figure cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Throughput,
    Energy,
    Latency,
    Linked,
    Levels,
}

impl Needs {
    fn met_by(self, study: &Study) -> bool {
        match self {
            Needs::Throughput => true,
            Needs::Energy => study.has_energy(),
            Needs::Latency => study.has_latency(),
            Needs::Linked => study.has_linked(),
            Needs::Levels => study.has_levels(),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Needs::Throughput => "a column `throughput`",
            Needs::Energy => "a column `energy`",
            Needs::Latency => "a column `p99`",
            Needs::Linked => "a column `variant` with runs of `linked` locks",
            Needs::Levels => "runs of an application on several numbers of nodes",
        }
    }
}

const TABLES: [(&str, Needs); 19] = [
    ("3.1", Needs::Linked),
    ("3.2", Needs::Linked),
    ("3.3", Needs::Linked),
    ("4.4", Needs::Throughput),
    ("4.5", Needs::Throughput),
    ("4.6", Needs::Levels),
    ("4.7", Needs::Levels),
    ("4.8", Needs::Throughput),
    ("4.9", Needs::Throughput),
    ("4.10", Needs::Throughput),
    ("4.11", Needs::Throughput),
    ("4.12", Needs::Levels),
    ("4.13", Needs::Energy),
    ("4.14", Needs::Energy),
    ("4.15", Needs::Energy),
    ("4.16", Needs::Throughput),
    ("guidelines", Needs::Throughput),
    ("tree", Needs::Throughput),
    ("observations", Needs::Throughput),
];

const FIGURES: [(&str, Needs); 6] = [
    ("3.2", Needs::Linked),
    ("4.1", Needs::Throughput),
    ("4.2", Needs::Energy),
    ("4.3", Needs::Energy),
    ("4.4", Needs::Energy),
    ("4.5", Needs::Latency),
];

fn shape(figure: &str) -> Shape {
    match figure {
        "3.2" => Shape::Bars,
        "4.1" => Shape::Heat,
        "4.5" => Shape::BarsAndDots,
        _ => Shape::Points,
    }
}

/// Tables and figures of the studies of one or several machines.
#[derive(Debug)]
pub struct Report<'a> {
    /// One for each machine; there is at least one.
    pub studies: &'a [Study],
    /// What the tables of throughput are of.
    pub metric: Metric,
    /// Where Table 4.11 and the tree (by default max nodes) and Figures 4.1 and 4.5 (by default opt nodes) look; `None` is the default.
    pub level: Option<Level>,
    /// What Figure 4.5 compares with, and what the tree measures under.
    pub baseline: &'a str,
    /// What stands above the tables; `None` for data that is no campaign's.
    pub cover: Option<&'a Cover>,
    /// Tables of the campaign itself, before the thesis's: see [`campaign_tables`](crate::campaign_tables).
    pub campaign: &'a [Table],
    /// What table `observations` holds the data against; `None` is the thesis's.
    pub observations: Option<&'a Observations>,
}

impl Report<'_> {
    /// The numbers of the tables that the data allows.
    #[must_use]
    pub fn tables(&self) -> Vec<&str> {
        let campaign = self.campaign.iter().map(|table| table.id.as_str());
        // Whatever was measured, the thesis's observations are about its own applications: they are shown when asked for.
        let is_wanted = |id: &&str| *id != "observations" || self.observations.is_some();
        campaign.chain(self.allowed(&TABLES)).filter(is_wanted).collect()
    }

    /// The numbers of the figures that the data allows.
    #[must_use]
    pub fn figures(&self) -> Vec<&'static str> {
        self.allowed(&FIGURES)
    }

    fn allowed(&self, all: &[(&'static str, Needs)]) -> Vec<&'static str> {
        all.iter().filter(|(_, needs)| self.lacks(*needs).is_none()).map(|(id, _)| *id).collect()
    }

    /// What the data lacks of what is needed, by the table or figure or by the metric.
    fn lacks(&self, needs: Needs) -> Option<Needs> {
        let metric = match self.metric {
            Metric::Throughput => Needs::Throughput,
            Metric::Efficiency => Needs::Energy,
            Metric::TailLatency => Needs::Latency,
        };
        [needs, metric].into_iter().find(|needs| !self.studies.iter().any(|study| needs.met_by(study)))
    }

    fn check(&self, what: &str, id: &str, all: &[(&'static str, Needs)]) -> Result<(), Error> {
        let Some((_, needs)) = all.iter().find(|(known, _)| *known == id) else {
            let known: Vec<&str> = all.iter().map(|(id, _)| *id).collect();
            return Err(Error::Unknown { id: format!("{what} {id}"), known: known.join(", ") });
        };
        match self.lacks(*needs) {
            None => Ok(()),
            Some(lacking) => Err(Error::NotMeasured { id: format!("{what} {id}"), needs: lacking.text() }),
        }
    }

    /// A table by its number: one for all machines, or one for each.
    ///
    /// # Errors
    ///
    /// If there is no such table, or the data lacks a column that it needs.
    pub fn table(&self, id: &str) -> Result<Vec<Table>, Error> {
        let own: Vec<Table> = self.campaign.iter().filter(|table| table.id == id).cloned().collect();
        if !own.is_empty() {
            return Ok(own);
        }
        self.check("table", id, &TABLES)?;
        let views: Vec<View<'_>> = self.studies.iter().map(|study| View::new(study, self.metric)).collect();
        let each = |of: fn(&View<'_>) -> Table| views.iter().map(of).collect();
        Ok(match id {
            "3.1" => self.studies.iter().map(tables::closeness).collect(),
            "3.2" => self.studies.iter().map(tables::hierarchy).collect(),
            "3.3" => self.studies.iter().map(tables::student).collect(),
            "4.4" => each(tables::best_over_worst),
            "4.5" => vec![tables::sensitive(&views)],
            "4.6" => each(tables::optimum_over_max),
            "4.7" => vec![tables::breakdown(&views)],
            "4.8" => vec![tables::coverage_statistics(&views)],
            "4.9" => each(tables::coverage),
            "4.10" => vec![tables::harm(&views)],
            "4.11" => {
                let level = self.level.unwrap_or(Level::Max);
                views.iter().map(|view| tables::gains_of_best(view, level)).collect()
            }
            "4.12" => each(tables::changes),
            "4.13" => vec![tables::gain_differences(self.studies)],
            "4.14" => vec![tables::optimum_differences(self.studies)],
            "4.15" => vec![tables::correlations(self.studies)],
            "4.16" => each(tables::by_application),
            "observations" => match self.observations {
                Some(own) => vec![own.table(self.studies)],
                None => vec![Observations::thesis().table(self.studies)],
            },
            "guidelines" => views.iter().map(|view| tables::choices(view, self.baseline)).collect(),
            _ => {
                let level = self.level.unwrap_or(Level::Max);
                views.iter().map(|view| tables::fitted(view, level, self.baseline)).collect()
            }
        })
    }

    /// The figures of a number, one for each machine that has the data, as the tables that they draw.
    ///
    /// # Errors
    ///
    /// If there is no such figure, or the data lacks a column that it needs.
    pub fn figure(&self, id: &str) -> Result<Vec<Table>, Error> {
        self.check("figure", id, &FIGURES)?;
        let level = self.level.unwrap_or(Level::Opt);
        let needs =
            FIGURES.iter().find(|(known, _)| *known == id).map_or(Needs::Throughput, |(_, needs)| *needs);
        let studies = self.studies.iter().filter(|study| needs.met_by(study));
        Ok(studies
            .map(|study| match id {
                "3.2" => tables::side_by_side(study),
                "4.1" => tables::scores(&View::new(study, self.metric), level),
                "4.2" => tables::scatter(id, study, None),
                "4.3" => tables::scatter(id, study, Some(Level::One)),
                "4.4" => tables::scatter(id, study, Some(Level::Max)),
                _ => tables::tail(study, level, self.baseline),
            })
            .collect())
    }

    /// The figures of a number, one for each machine that has the data, as SVG.
    ///
    /// # Errors
    ///
    /// As [`Report::figure`].
    pub fn svg(&self, id: &str) -> Result<Vec<String>, Error> {
        self.figure(id)?.iter().map(|table| render::svg(table, shape(id))).collect()
    }

    /// A page with the tables and figures of these numbers, in one file that needs nothing else.
    ///
    /// # Errors
    ///
    /// As [`Report::table`] and [`Report::figure`].
    pub fn html(&self, tables: &[&str], figures: &[&str]) -> Result<String, Error> {
        let (mut made, mut drawn) = (Vec::new(), Vec::new());
        for id in tables {
            made.extend(self.table(id)?);
        }
        for id in figures {
            drawn.extend(self.figure(id)?.into_iter().map(|table| (table, shape(id))));
        }
        render::page(self.cover, &made, &drawn)
    }

    /// Tables as text for a terminal.
    #[must_use]
    pub fn text(tables: &[Table]) -> String {
        render::text(tables)
    }

    /// Tables as CSV, with an empty line between two. Percentages are numbers with two decimals; an empty field was not
    /// measured.
    ///
    /// # Errors
    ///
    /// If a table cannot be written, which only a lack of memory can cause.
    pub fn csv(tables: &[Table]) -> Result<String, Error> {
        render::csv(tables)
    }
}
