//! From TOML to a policy, with the line and column of whatever is wrong.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use lockwork_locks::registry::{Choice, nearest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::PolicyError;
use crate::kind::{self, Kind, KindPattern};
use crate::module::Location;
use crate::symbol::SymbolPattern;
use crate::{Init, Policy, Rule, Variable};

const KEYS: [&str; 2] = ["default", "rule"];
const RULE_KEYS: [&str; 4] = ["init", "symbol", "kind", "lock"];

type Key<'i> = Spanned<Cow<'i, str>>;
type Value<'i> = Spanned<DeValue<'i>>;

pub(crate) fn policy(text: &str) -> Result<Policy, PolicyError> {
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        PolicyError::at(text, offset, error.message().replace('\n', ", "))
    })?;
    let file = File { text };
    let mut policy = Policy { default: Choice::Passthrough, rules: Vec::new() };
    for (key, value) in table.get_ref() {
        match key.get_ref().as_ref() {
            "default" => policy.default = file.lock(value)?,
            "rule" => policy.rules = file.rules(value)?,
            _ => return Err(file.unknown(key, "a policy", &KEYS)),
        }
    }
    Ok(policy)
}

/// The file's text, for the places of errors.
struct File<'t> {
    text: &'t str,
}

impl File<'_> {
    fn error(&self, offset: usize, message: impl Into<String>) -> PolicyError {
        PolicyError::at(self.text, offset, message)
    }

    fn unknown(&self, key: &Key<'_>, of: &str, known: &[&'static str]) -> PolicyError {
        let name = key.get_ref();
        let mend = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it has {}", list(known)),
        };
        self.error(key.span().start, format!("{of} has no key `{name}`: {mend}"))
    }

    fn string<'v>(&self, value: &'v Value<'_>, what: &str) -> Result<&'v str, PolicyError> {
        value.get_ref().as_str().ok_or_else(|| {
            let found = value.get_ref().type_str();
            self.error(value.span().start, format!("expected {what} in quotes, found {found}"))
        })
    }

    fn lock(&self, value: &Value<'_>) -> Result<Choice, PolicyError> {
        let spec = self.string(value, "a lock such as \"mcs-stp\"")?;
        Choice::parse(spec)
            .map_err(|error| self.error(self.inside(value, spec, error.offset()), error.to_string()))
    }

    /// The place of an offset in a string's contents, where the file has them literally.
    fn inside(&self, value: &Value<'_>, contents: &str, offset: usize) -> usize {
        let span = value.span();
        let start = span.start + 1;
        if self.text.get(start..start + contents.len()) == Some(contents) {
            start + offset
        } else {
            span.start
        }
    }

    fn rules(&self, value: &Value<'_>) -> Result<Vec<Rule>, PolicyError> {
        let expected = || self.error(value.span().start, "rules are written as tables headed [[rule]]");
        let array = value.get_ref().as_array().ok_or_else(expected)?;
        array
            .iter()
            .map(|entry| match entry.get_ref().as_table() {
                Some(table) => self.rule(table, entry.span().start),
                None => Err(expected()),
            })
            .collect()
    }

    fn rule(&self, table: &DeTable<'_>, start: usize) -> Result<Rule, PolicyError> {
        let (mut init, mut symbol, mut kind, mut lock) = (None, None, None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "init" => init = Some(self.init(value)?),
                "symbol" => symbol = Some(self.variable(value)?),
                "kind" => kind = Some(self.kind(value)?),
                "lock" => lock = Some((self.lock(value)?, value)),
                _ => return Err(self.unknown(key, "a rule", &RULE_KEYS)),
            }
        }
        if init.is_none() && symbol.is_none() && kind.is_none() {
            return Err(self.error(
                start,
                "the rule has no condition: add `init`, `symbol` or `kind`, or make its lock the `default`",
            ));
        }
        // A spin lock is one word, without room for a decision of its own.
        if kind == Some(KindPattern::Only(Kind::Spin)) && (init.is_some() || symbol.is_some()) {
            let message = "a rule for spin locks cannot have `init` or `symbol`: leave them out";
            return Err(self.error(start, message));
        }
        let (lock, value) = lock
            .ok_or_else(|| self.error(start, "the rule has no lock: add for example lock = \"mcs-stp\""))?;
        self.check_sort(lock, value, kind)?;
        let line = self.error(start, "").line;
        Ok(Rule { init, symbol, kind, lock, line })
    }

    /// Refuses a reader-writer lock by itself, which leaves everything else to glibc, in a rule for something else.
    fn check_sort(
        &self,
        lock: Choice,
        value: &Value<'_>,
        kind: Option<KindPattern>,
    ) -> Result<(), PolicyError> {
        let (Choice::Rw(spec), Some(kind)) = (lock, kind) else { return Ok(()) };
        let text = value.get_ref().as_str().unwrap_or_default();
        // A spec with a `+` says what mutexes get.
        if kind == KindPattern::Only(Kind::Rwlock) || text.contains('+') {
            return Ok(());
        }
        let offset = text.len() - text.trim_start().len();
        let message = format!(
            "`{spec}` is a reader-writer lock, and the rule's kind is `{kind}`: name another lock such as `mcs-stp`, \
             or write kind = \"rwlock\""
        );
        Err(self.error(self.inside(value, text, offset), message))
    }

    fn init(&self, value: &Value<'_>) -> Result<Init, PolicyError> {
        match self.location(value, "a code location")? {
            Some(location) => Ok(Init::Location(location)),
            None => self.symbol(value).map(Init::Function),
        }
    }

    fn variable(&self, value: &Value<'_>) -> Result<Variable, PolicyError> {
        match self.location(value, "a symbol")? {
            Some(location) => Ok(Variable::Location(location)),
            None => self.symbol(value).map(Variable::Name),
        }
    }

    /// `module+0x1234`; `None` if it is something else.
    fn location(&self, value: &Value<'_>, what: &str) -> Result<Option<Location>, PolicyError> {
        let text = self.string(value, what)?;
        let Some((module, offset)) = text.trim().rsplit_once("+0x") else { return Ok(None) };
        let offset = usize::from_str_radix(offset, 16).map_err(|_| {
            self.error(
                value.span().start,
                format!("`0x{offset}` is no offset: write for example libfoo.so.1+0x1a2b"),
            )
        })?;
        if module.is_empty() {
            return Err(
                self.error(value.span().start, "the module is missing: write for example libfoo.so.1+0x1a2b")
            );
        }
        Ok(Some(Location { module: module.to_string(), offset }))
    }

    fn symbol(&self, value: &Value<'_>) -> Result<SymbolPattern, PolicyError> {
        let text = self.string(value, "a symbol")?;
        SymbolPattern::new(text)
            .map_err(|why| self.error(value.span().start, format!("`{text}` is no symbol: {why}")))
    }

    fn kind(&self, value: &Value<'_>) -> Result<KindPattern, PolicyError> {
        let name = self.string(value, "a kind such as \"recursive\"")?;
        if let Some((_, pattern)) = kind::NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(*pattern);
        }
        let known = kind::NAMES.map(|(known, _)| known);
        let mend = match nearest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", list(&known)),
        };
        Err(self.error(value.span().start, format!("unknown kind `{name}`: {mend}")))
    }
}

/// `a`, `b` and `c`
fn list(names: &[&str]) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        text.push_str(match index {
            0 => "",
            _ if index + 1 == names.len() => " and ",
            _ => ", ",
        });
        text.push('`');
        text.push_str(name);
        text.push('`');
    }
    text
}
