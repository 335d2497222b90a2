//! Numbers as programs print them: with separators between thousands, and with a comma for the point in some languages.

/// The number that `text` begins with, and the rest of the text. `None` if it begins with none, or with one that can be read in
/// two ways.
///
/// Separators are read as follows. `_` between digits means nothing. Where both commas and points occur, the last of them is the
/// decimal mark, and those before it must stand between groups of three: `1,234.5` and `1.234,5`. Several of one kind stand
/// between groups of three: `1,234,567`. One comma alone before three digits separates thousands, unless a single 0 is before
/// it, and any other is a decimal mark: `1,234`, `0,125`, `3,52`. One point alone is a decimal mark. A separator with no digit
/// behind it belongs to the rest.
///
/// ```
/// use lockwork_stats::printed::leading;
///
/// assert_eq!(leading("1,234,567.5 ops/s"), Some((1_234_567.5, " ops/s")));
/// assert_eq!(leading("3,52e2s"), Some((352.0, "s")));
/// assert_eq!(leading("1.2.3"), None);
/// ```
#[must_use]
pub fn leading(text: &str) -> Option<(f64, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (figures, rest) = split_figures(unsigned);
    let mut plain = as_rust_has_it(figures)?;
    let rest = &rest[push_exponent(rest, &mut plain)..];
    let value: f64 = plain.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some((if text.starts_with('-') { -value } else { value }, rest))
}

/// The number that the text is, but for blanks around it.
#[must_use]
pub fn whole(text: &str) -> Option<f64> {
    leading(text.trim()).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// Splits off the digits at the beginning, with the separators between them, and a point before them or at their end.
fn split_figures(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = 0;
    while is_digit(end) || (b"_,.".contains(bytes.get(end).unwrap_or(&0)) && is_digit(end + 1)) {
        end += 1;
    }
    text.split_at(end)
}

/// The figures without separators between thousands, and with a point; `None` if that is not clear.
fn as_rust_has_it(figures: &str) -> Option<String> {
    let figures = figures.replace('_', "");
    let last = figures.rfind(['.', ',']);
    let Some(last) = last else { return Some(figures) };
    let mark = &figures[last..=last];
    let other = if mark == "." { "," } else { "." };
    let (before, after) = (&figures[..last], &figures[last + 1..]);
    match (before.contains(mark), before.contains(other)) {
        (true, true) => None,
        (true, false) => in_threes(&figures, mark),
        (false, true) => Some(format!("{}.{after}", in_threes(before, other)?)),
        (false, false) if mark == "," && after.len() == 3 && before != "0" && !before.is_empty() => {
            in_threes(&figures, mark)
        }
        (false, false) => Some(format!("{before}.{after}")),
    }
}

/// The digits of groups of three, of which the first may be shorter.
fn in_threes(figures: &str, separator: &str) -> Option<String> {
    let mut groups = figures.split(separator);
    let first = groups.next()?;
    let is_sound = !first.is_empty() && groups.all(|group| group.len() == 3);
    is_sound.then(|| figures.replace(separator, ""))
}

/// Appends `e-3` and the like; returns how many bytes of `text` it was, 0 when no exponent is there.
fn push_exponent(text: &str, digits: &mut String) -> usize {
    let Some(exponent) = text.strip_prefix(['e', 'E']) else { return 0 };
    let sign = usize::from(exponent.starts_with(['+', '-']));
    let figures = exponent[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if figures == 0 {
        return 0;
    }
    digits.push('e');
    digits.push_str(&exponent[..sign + figures]);
    1 + sign + figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators() {
        for (text, value) in [
            ("12", Some(12.0)),
            ("-3.5", Some(-3.5)),
            ("+3.5", Some(3.5)),
            (".5", Some(0.5)),
            ("1e-3", Some(0.001)),
            ("1_000", Some(1000.0)),
            ("1,000.25", Some(1000.25)),
            ("1,234,567", Some(1_234_567.0)),
            ("1234,567", Some(1_234_567.0)),
            ("1.234.567", Some(1_234_567.0)),
            ("1.234,5", Some(1234.5)),
            ("1.234.567,25", Some(1_234_567.25)),
            ("3,52", Some(3.52)),
            ("0,125", Some(0.125)),
            ("-0,125", Some(-0.125)),
            (",125", Some(0.125)),
            ("1,2345", Some(1.2345)),
            ("1,25e3", Some(1250.0)),
            ("1.5,2.5", None),
            ("4,5,6", None),
            ("1.2.3", None),
            ("12,34,56", None),
            ("inf", None),
            ("1e999", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(whole(text), value, "{text}");
        }
    }

    #[test]
    fn the_rest_is_the_callers() {
        for (text, value, rest) in [
            ("12e", 12.0, "e"),
            ("4, 5", 4.0, ", 5"),
            ("1.5...", 1.5, "..."),
            ("2.Threads", 2.0, ".Threads"),
            ("7\u{a0}ms", 7.0, "\u{a0}ms"),
            ("1.5Mops/s", 1.5, "Mops/s"),
        ] {
            assert_eq!(leading(text), Some((value, rest)), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[-+0-9.,_eE ]{0,16}.{0,3}") {
            let _ = leading(&text);
        }

        #[test]
        fn what_rust_prints_is_read_as_it_was(value: f64) {
            proptest::prop_assume!(value.is_finite());
            proptest::prop_assert_eq!(whole(&format!("{value:?}")), Some(value));
        }
    }
}
