//! The thesis's guidelines as a decision table, and the locks that they recommend.

use std::sync::LazyLock;

use toml::de::{DeTable, DeValue as Value};

/// One rule of Figure 4.6.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What holds the application up, where the rule holds.
    pub bottleneck: String,
    /// What one asks.
    pub question: String,
    /// What one measures.
    pub feature: String,
    /// The rule holds from this value of the feature on.
    pub at_least: f64,
    /// And below this one.
    pub below: Option<f64>,
    /// Properties that a lock should have.
    pub prefer: Vec<String>,
    /// Properties that a lock should not have.
    pub avoid: Vec<String>,
    /// Where it is from.
    pub source: String,
    /// How many applications it is from.
    pub evidence: i64,
}

impl Rule {
    /// Whether the rule holds for a value of its feature.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        value >= self.at_least && self.below.is_none_or(|below| value < below)
    }
}

/// The decision table with what it knows of applications and locks.
#[derive(Debug, Clone)]
pub struct Guidelines {
    /// In the order of the questions.
    pub rules: Vec<Rule>,
    applications: Vec<(String, Vec<String>)>,
    properties: Vec<(String, Vec<String>)>,
}

static THESIS: LazyLock<Guidelines> = LazyLock::new(|| {
    let text = include_str!("guidelines.toml");
    Guidelines::parse(text).unwrap_or_else(|error| panic!("guidelines.toml: {error}"))
});

impl Guidelines {
    /// The thesis's.
    #[must_use]
    pub fn thesis() -> &'static Self {
        &THESIS
    }

    fn parse(text: &str) -> Result<Self, String> {
        let parsed = DeTable::parse(text).map_err(|error| error.to_string())?;
        let table = parsed.get_ref();
        let get = |key: &str| table.get(key).map(|value| value.get_ref());
        let rules = get("rule").and_then(Value::as_array).ok_or("no rules")?;
        Ok(Guidelines {
            rules: rules.iter().map(|value| rule(value.get_ref())).collect::<Result<_, _>>()?,
            applications: lists(get("applications"))?,
            properties: lists(get("properties"))?,
        })
    }

    /// The rules for an application that Table 4.16 knows.
    #[must_use]
    pub fn rules_for(&self, application: &str) -> Option<Vec<&Rule>> {
        let (_, bottlenecks) = self.applications.iter().find(|(name, _)| name == application)?;
        Some(self.rules.iter().filter(|rule| bottlenecks.contains(&rule.bottleneck)).collect())
    }

    /// The rules that hold for measured features, by name; a feature that is not among them holds no rule.
    #[must_use]
    pub fn rules_of(&self, features: &[(&str, f64)]) -> Vec<&Rule> {
        let value =
            |rule: &Rule| features.iter().find(|(name, _)| *name == rule.feature).map(|(_, value)| *value);
        self.rules.iter().filter(|rule| value(rule).is_some_and(|value| rule.holds(value))).collect()
    }

    /// Those of `locks`, by their places, that the rules leave. A lock whose properties are unknown is left out.
    #[must_use]
    pub fn recommended(&self, rules: &[&Rule], locks: &[String]) -> Vec<usize> {
        let mut left: Vec<usize> = (0..locks.len()).filter(|&lock| self.knows(&locks[lock])).collect();
        for rule in rules {
            let fits = |lock: &&usize| {
                let has = |property: &String| self.has(&locks[**lock], property);
                rule.prefer.iter().all(has) && !rule.avoid.iter().any(has)
            };
            let fewer: Vec<usize> = left.iter().filter(fits).copied().collect();
            if !fewer.is_empty() {
                left = fewer;
            }
        }
        left
    }

    fn knows(&self, lock: &str) -> bool {
        self.properties.iter().any(|(property, _)| self.has(lock, property))
    }

    fn has(&self, lock: &str, property: &str) -> bool {
        let lock = lock.replace('_', "-");
        self.properties.iter().any(|(name, locks)| name == property && locks.contains(&lock))
    }
}

fn rule(value: &Value<'_>) -> Result<Rule, String> {
    let get = |key: &str| value.get(key).map(|value| value.get_ref());
    let text = |key: &str| {
        get(key).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| format!("a rule without `{key}`"))
    };
    let number =
        |key: &str| get(key).and_then(Value::as_float).and_then(|number| number.as_str().parse().ok());
    let evidence =
        get("evidence").and_then(Value::as_integer).and_then(|number| number.as_str().parse().ok());
    Ok(Rule {
        bottleneck: text("bottleneck")?,
        question: text("question")?,
        feature: text("feature")?,
        at_least: number("at_least").ok_or("a rule without `at_least`")?,
        below: number("below"),
        prefer: get("prefer").map_or(Ok(Vec::new()), strings)?,
        avoid: get("avoid").map_or(Ok(Vec::new()), strings)?,
        source: text("source")?,
        evidence: evidence.ok_or("a rule without `evidence`")?,
    })
}

fn lists(table: Option<&Value<'_>>) -> Result<Vec<(String, Vec<String>)>, String> {
    let table = table.and_then(Value::as_table).ok_or("a table is missing")?;
    table.iter().map(|(name, value)| Ok((name.get_ref().to_string(), strings(value.get_ref())?))).collect()
}

fn strings(value: &Value<'_>) -> Result<Vec<String>, String> {
    let list = value.as_array().ok_or("not a list")?;
    list.iter()
        .map(|item| item.get_ref().as_str().map(str::to_owned).ok_or_else(|| "not a text".to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name that the data uses is defined in it.
    #[test]
    fn names_are_known() {
        let thesis = Guidelines::thesis();
        let property = |name: &String| thesis.properties.iter().any(|(known, _)| known == name);
        for rule in &thesis.rules {
            assert!(rule.prefer.iter().chain(&rule.avoid).all(property), "{rule:?}");
            assert!(!rule.prefer.is_empty() || !rule.avoid.is_empty(), "{rule:?}");
        }
        for (application, bottlenecks) in &thesis.applications {
            let rules = thesis.rules_for(application).unwrap();
            assert_eq!(rules.len(), bottlenecks.len(), "{application}");
        }
    }

    /// The thesis's own example (section 4.5.2): upscaledb suffers from extreme contention, and should get a hierarchical
    /// lock, for example AHMCS.
    #[test]
    fn upscaledb_gets_a_hierarchical_lock() {
        let thesis = Guidelines::thesis();
        let locks: Vec<String> =
            ["ahmcs", "mcs_spin", "hmcs", "pthread", "a-lock-of-ours"].map(str::to_owned).into();
        let features = [("threads for each core", 1.0), ("share of the threads that wait for one lock", 0.8)];
        assert_eq!(thesis.rules_of(&features), thesis.rules_for("upscaledb").unwrap());
        assert_eq!(thesis.recommended(&thesis.rules_of(&features), &locks), [0, 2]);
    }

    /// A rule that would leave no lock is passed over.
    #[test]
    fn some_lock_is_always_left() {
        let thesis = Guidelines::thesis();
        let locks = ["ticket".to_owned(), "mcs_spin".to_owned()];
        assert_eq!(thesis.recommended(&thesis.rules_for("kyotocabinet").unwrap(), &locks), [0, 1]);
        assert_eq!(thesis.recommended(&thesis.rules_for("sqlite").unwrap(), &[]), [] as [usize; 0]);
    }
}
