//! Words of the measured command with `{…}` expressions in them: `--reads={1000000/threads}`.
//!
//! An expression is integer arithmetic over `threads`: `+ - * /` (division rounds towards zero), parentheses,
//! `min(a,b)` and `max(a,b)`. `{{` and `}}` stand for literal braces; a lone `}` is a literal too.

use std::fmt;

/// A command word split at its expressions.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    source: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Literal(String),
    Expression(Expr),
}

#[derive(Debug, Clone)]
enum Expr {
    Number(i64),
    Threads,
    Call(Function, Box<Expr>, Box<Expr>, usize),
    Negate(Box<Expr>, usize),
}

#[derive(Debug, Clone, Copy)]
enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
}

/// Why a word is no template, or has no value: the word, the column (in characters, from 1) and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateError {
    word: String,
    column: usize,
    reason: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in `{}`, column {}: {}", self.word, self.column, self.reason)
    }
}

impl Template {
    /// Splits `word` at its braces and parses what is between them.
    pub(crate) fn parse(word: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(c) = word[at..].chars().next() {
            let rest = &word[at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                literal.push(c);
                at += 2;
            } else if c == '{' {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                let mut parser = Parser { word, at: at + 1 };
                parts.push(Part::Expression(parser.whole()?));
                at = parser.at;
            } else {
                literal.push(c);
                at += c.len_utf8();
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Template { source: word.to_owned(), parts })
    }

    /// Whether the word changes with the number of threads.
    pub(crate) fn uses_threads(&self) -> bool {
        fn in_expr(expr: &Expr) -> bool {
            match expr {
                Expr::Number(_) => false,
                Expr::Threads => true,
                Expr::Call(_, left, right, _) => in_expr(left) || in_expr(right),
                Expr::Negate(inner, _) => in_expr(inner),
            }
        }
        self.parts.iter().any(|part| matches!(part, Part::Expression(expr) if in_expr(expr)))
    }

    /// The word for `threads` threads.
    pub(crate) fn expand(&self, threads: Option<u32>) -> Result<String, TemplateError> {
        let mut word = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => word.push_str(text),
                Part::Expression(expr) => {
                    let value = evaluate(expr, threads)
                        .map_err(|(at, reason)| TemplateError::new(&self.source, at, reason))?;
                    word.push_str(&value.to_string());
                }
            }
        }
        Ok(word)
    }
}

impl TemplateError {
    fn new(word: &str, at: usize, reason: impl Into<String>) -> Self {
        let column = word[..at].chars().count() + 1;
        TemplateError { word: word.to_owned(), column, reason: reason.into() }
    }
}

fn evaluate(expr: &Expr, threads: Option<u32>) -> Result<i64, (usize, String)> {
    match expr {
        Expr::Number(value) => Ok(*value),
        Expr::Threads => threads
            .map(i64::from)
            .ok_or_else(|| (0, "`threads` has no value: say which with --threads 2,8,32".to_owned())),
        Expr::Negate(inner, at) => {
            evaluate(inner, threads)?.checked_neg().ok_or_else(|| (*at, too_large().to_owned()))
        }
        Expr::Call(function, left, right, at) => {
            let (left, right) = (evaluate(left, threads)?, evaluate(right, threads)?);
            let value = match function {
                Function::Add => left.checked_add(right),
                Function::Subtract => left.checked_sub(right),
                Function::Multiply => left.checked_mul(right),
                Function::Divide if right == 0 => return Err((*at, "division by zero".to_owned())),
                Function::Divide => left.checked_div(right),
                Function::Min => Some(left.min(right)),
                Function::Max => Some(left.max(right)),
            };
            value.ok_or_else(|| (*at, too_large().to_owned()))
        }
    }
}

fn too_large() -> &'static str {
    "the value does not fit in 64 bits"
}

/// How deep parentheses may nest: far beyond need, far below the stack's end.
const MAX_DEPTH: usize = 64;

/// Recursive descent over one expression; `at` is a byte offset into the word.
struct Parser<'a> {
    word: &'a str,
    at: usize,
}

impl Parser<'_> {
    /// An expression and its closing brace.
    fn whole(&mut self) -> Result<Expr, TemplateError> {
        let expr = self.sum(0)?;
        match self.peek() {
            Some('}') => {
                self.at += 1;
                Ok(expr)
            }
            Some(c) => Err(self.error(format!("expected `}}` or an operator, found `{c}`"))),
            None => Err(self.error("the `{` is never closed; write `{{` for a literal brace")),
        }
    }

    fn sum(&mut self, depth: usize) -> Result<Expr, TemplateError> {
        self.chain(depth, &[('+', Function::Add), ('-', Function::Subtract)], Self::product)
    }

    fn product(&mut self, depth: usize) -> Result<Expr, TemplateError> {
        self.chain(depth, &[('*', Function::Multiply), ('/', Function::Divide)], Self::operand)
    }

    /// Left-associative operators of one precedence.
    fn chain(
        &mut self,
        depth: usize,
        operators: &[(char, Function)],
        next: fn(&mut Self, usize) -> Result<Expr, TemplateError>,
    ) -> Result<Expr, TemplateError> {
        let mut left = next(self, depth)?;
        loop {
            let found = self.peek();
            let Some(&(_, function)) = operators.iter().find(|(c, _)| Some(*c) == found) else {
                return Ok(left);
            };
            let at = self.at;
            self.at += 1;
            let right = next(self, depth)?;
            left = Expr::Call(function, Box::new(left), Box::new(right), at);
        }
    }

    fn operand(&mut self, depth: usize) -> Result<Expr, TemplateError> {
        if depth > MAX_DEPTH {
            return Err(self.error("the expression is nested too deeply"));
        }
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let inner = self.sum(depth + 1)?;
                self.expect(')')?;
                Ok(inner)
            }
            Some('-') => {
                let at = self.at;
                self.at += 1;
                Ok(Expr::Negate(Box::new(self.operand(depth + 1)?), at))
            }
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.name(depth),
            Some('}') => Err(self.error("a number or `threads` is missing here")),
            Some(c) => Err(self.error(format!(
                "expected a number or `threads`, found `{c}`; write `{{{{` for a literal brace"
            ))),
            None => Err(self.error("the `{` is never closed; write `{{` for a literal brace")),
        }
    }

    fn number(&mut self) -> Result<Expr, TemplateError> {
        let start = self.at;
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '_').replace('_', "");
        digits.parse().map(Expr::Number).map_err(|_| TemplateError::new(self.word, start, too_large()))
    }

    fn name(&mut self, depth: usize) -> Result<Expr, TemplateError> {
        let start = self.at;
        let name = self.take_while(|c| c.is_alphanumeric() || c == '_').to_owned();
        let function = match name.as_str() {
            "threads" => return Ok(Expr::Threads),
            "min" => Function::Min,
            "max" => Function::Max,
            _ => {
                let reason = format!(
                    "`{name}` is unknown: expressions know `threads`, min(a,b) and max(a,b); \
                     write `{{{{` for a literal brace"
                );
                return Err(TemplateError::new(self.word, start, reason));
            }
        };
        self.expect('(')?;
        let left = self.sum(depth + 1)?;
        self.expect(',')?;
        let right = self.sum(depth + 1)?;
        self.expect(')')?;
        Ok(Expr::Call(function, Box::new(left), Box::new(right), start))
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &str {
        let rest = &self.word[self.at..];
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// The next character that is no blank.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.word[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        rest.trim_start().chars().next()
    }

    fn expect(&mut self, wanted: char) -> Result<(), TemplateError> {
        match self.peek() {
            Some(c) if c == wanted => {
                self.at += wanted.len_utf8();
                Ok(())
            }
            Some(c) => Err(self.error(format!("expected `{wanted}`, found `{c}`"))),
            None => Err(self.error(format!("expected `{wanted}` before the end"))),
        }
    }

    fn error(&self, reason: impl Into<String>) -> TemplateError {
        TemplateError::new(self.word, self.at, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(word: &str, threads: u32) -> Result<String, String> {
        Template::parse(word).and_then(|t| t.expand(Some(threads))).map_err(|e| e.to_string())
    }

    #[test]
    fn arithmetic() {
        for (word, expected) in [
            ("plain", "plain"),
            ("", ""),
            ("-t{threads}", "-t8"),
            ("{800000/threads}", "100000"),
            ("{min(threads,4)}-{max(threads, 16)}", "4-16"),
            ("{1+2*3}", "7"),
            ("{(1+2)*3}", "9"),
            ("{10-3-2}", "5"),
            ("{7/2}", "3"),
            ("{ -threads + 1_0 }", "2"),
            ("{{threads}}", "{threads}"),
            ("a}b", "a}b"),
            ("{threads}}", "8}"),
        ] {
            assert_eq!(expand(word, 8).as_deref(), Ok(expected), "{word}");
        }
    }

    #[test]
    fn errors_name_the_column() {
        for (word, expected) in [
            ("{", "column 2: the `{` is never closed"),
            ("{}", "column 2: a number or `threads` is missing"),
            ("{thread}", "column 2: `thread` is unknown"),
            ("é{1/0}", "column 4: division by zero"),
            ("{1+}", "column 4: a number or"),
            ("{\"a\"}", "column 2: expected a number"),
            ("{min(1)}", "column 7: expected `,`, found `)`"),
            ("{9223372036854775807+1}", "does not fit"),
            ("{99999999999999999999}", "does not fit"),
            ("{(1}", "column 4: expected `)`"),
            ("{1 2}", "column 4: expected `}` or an operator"),
        ] {
            let error = expand(word, 8).unwrap_err();
            assert!(error.contains(expected), "{word}: {error}");
        }
    }

    #[test]
    fn threads_without_a_value_is_an_error() {
        let template = Template::parse("{threads}").unwrap();
        assert!(template.uses_threads());
        assert!(template.expand(None).unwrap_err().to_string().contains("--threads"));
        assert!(!Template::parse("{1+1}").unwrap().uses_threads());
    }

    #[test]
    fn deep_nesting_is_refused_not_overflowed() {
        let word = format!("{{{}1{}}}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(expand(&word, 1).unwrap_err().contains("too deeply"));
        let word = format!("{{{}1}}", "-".repeat(100_000));
        assert!(expand(&word, 1).unwrap_err().contains("too deeply"));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(word in ".{0,40}", threads in 0u32..) {
            let _ = expand(&word, threads);
        }

        #[test]
        fn never_panics_on_expressions(word in "[{}a-z0-9()+*/,-]{0,24}", threads in 0u32..) {
            let _ = expand(&word, threads);
        }
    }
}
