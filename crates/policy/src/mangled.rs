//! Just enough of the Itanium C++ ABI's name mangling to tell which function or variable a symbol is.
//!
//! A demangler would allocate, and this runs inside lock calls. Only the qualified name is read, up to the
//! parameters; whatever it does not know ends it as [`Component::Other`], which matches nothing.

/// How the linker calls an unnamed namespace.
pub(crate) const UNNAMED: &str = "_GLOBAL__N_1";

/// A part of a qualified name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component<'a> {
    Name(&'a str),
    Constructor,
    Destructor,
    /// An operator, a lambda, or something unknown.
    Other,
}

/// The parts of the name in `symbol`; `None` when it is not mangled this way.
pub(crate) fn components(symbol: &str) -> Option<Components<'_>> {
    let rest = symbol.strip_prefix("_Z")?;
    // What is local to a function counts as the function.
    let rest = rest.trim_start_matches('Z');
    let (nested, rest) = match rest.strip_prefix('N') {
        Some(rest) => (true, rest.trim_start_matches(['r', 'V', 'K', 'R', 'O'])),
        None => (false, rest),
    };
    Some(Components { rest, nested, started: false, ended: false })
}

/// Whether `name` is the hash that ends Rust's older symbols.
pub(crate) fn is_rust_hash(name: &str) -> bool {
    name.len() == 17
        && name.strip_prefix('h').is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Reads a name from the left.
#[derive(Debug)]
pub(crate) struct Components<'a> {
    rest: &'a str,
    /// Ends with `E`; otherwise it is one name, perhaps in `std`.
    nested: bool,
    started: bool,
    ended: bool,
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    fn next(&mut self) -> Option<Component<'a>> {
        if self.ended {
            return None;
        }
        let component = self.step();
        if component.is_none() || component == Some(Component::Other) {
            self.ended = true;
        }
        component
    }
}

impl<'a> Components<'a> {
    fn step(&mut self) -> Option<Component<'a>> {
        loop {
            let first = self.rest.bytes().next();
            if self.started && !self.nested {
                return None;
            }
            match first {
                Some(b'E') | None => return None,
                Some(b'L') => self.skip(1),
                Some(b'I') if self.started => match end_of_arguments(&self.rest[1..]) {
                    Some(rest) => self.rest = rest,
                    None => return Some(Component::Other),
                },
                Some(b'B') if self.started => {
                    self.skip(1);
                    if self.name().is_none() {
                        return Some(Component::Other);
                    }
                }
                Some(b'0'..=b'9') => {
                    self.started = true;
                    return Some(self.name().map_or(Component::Other, Component::Name));
                }
                Some(b'S') if self.rest.starts_with("St") && !self.started => {
                    self.skip(2);
                    // `St` alone does not end an unnested name: its own name follows.
                    return Some(Component::Name("std"));
                }
                Some(b'C') if self.is_structor() => {
                    self.skip(2);
                    return Some(Component::Constructor);
                }
                Some(b'D') if self.is_structor() => {
                    self.skip(2);
                    return Some(Component::Destructor);
                }
                _ => return Some(Component::Other),
            }
        }
    }

    /// `C1`, `D2` and the like after a class's name.
    fn is_structor(&self) -> bool {
        self.started && self.rest.as_bytes().get(1).is_some_and(|byte| byte.is_ascii_digit())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// A length and as many bytes.
    fn name(&mut self) -> Option<&'a str> {
        let (name, rest) = length_prefixed(self.rest)?;
        self.rest = rest;
        Some(name)
    }
}

fn length_prefixed(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text[..digits].parse().ok()?;
    text[digits..].split_at_checked(length)
}

/// What follows the `E` that ends the template arguments at the beginning of `text`.
fn end_of_arguments(mut text: &str) -> Option<&str> {
    let mut depth = 1_usize;
    while depth > 0 {
        let skipped = match text.bytes().next()? {
            b'0'..=b'9' => {
                text = length_prefixed(text)?.1;
                0
            }
            b'E' => {
                depth -= 1;
                1
            }
            b'I' | b'N' | b'X' | b'J' | b'F' => {
                depth += 1;
                1
            }
            b'L' => {
                text = end_of_literal(&text[1..])?;
                0
            }
            // Substitutions: `St` and its like, or a number in base 36 up to `_`.
            b'S' if text.as_bytes().get(1)?.is_ascii_lowercase() => 2,
            b'S' | b'T' | b'A' => text.find('_')? + 1,
            b'D' => match text.as_bytes().get(1)? {
                b'T' | b't' | b'O' => {
                    depth += 1;
                    2
                }
                _ => 2,
            },
            b'U' => return None,
            _ => 1,
        };
        text = text.get(skipped..)?;
    }
    Some(text)
}

/// What follows the `E` that ends a literal such as `Li42E`, behind its `L`.
fn end_of_literal(text: &str) -> Option<&str> {
    let value = match text.bytes().next()? {
        b'a'..=b'z' => &text[1..],
        b'0'..=b'9' => length_prefixed(text)?.1,
        // A nested name ends with an `E` as arguments do.
        b'N' => end_of_arguments(&text[1..])?,
        _ => return None,
    };
    value.find('E').map(|end| &value[end + 1..])
}
