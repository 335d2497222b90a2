//! The delegates' header: where converted files name it, and what the compiler is given of it while the text is half converted.

/// How converted files name the delegates' header.
const HEADER: &str = "#include <lockwork.h>";

/// What closures need that carry `errno`.
const ERRNO_HEADER: &str = "#include <errno.h>";

/// The header, and what text needs that is half converted. It is read before a file's own text, so that it need not be installed.
pub(super) const DECLARATIONS: &str = concat!(
    "#include <errno.h>\n",
    include_str!("../../../capi/include/lockwork.h"),
    "\n#undef lockwork_any_lock\nint lockwork_any_lock();\n#undef lockwork_any_unlock\nint lockwork_any_unlock();\n",
    "#undef lockwork_any_trylock\nint lockwork_any_trylock();\n#undef lockwork_any_wait\nint lockwork_any_wait();\n",
    "#undef lockwork_any_timedwait\nint lockwork_any_timedwait();\n"
);

pub(super) const DECLARATIONS_PATH: &str = "/lockwork/declarations.h";

/// The text with the delegates' header, and what its closures need besides.
pub(super) fn with_header(text: &str) -> String {
    let needs_errno = text.contains("lockwork_errno") && !text.contains(ERRNO_HEADER);
    let errno = if needs_errno { format!("{ERRNO_HEADER}\n") } else { String::new() };
    if text.contains(HEADER) {
        return text.replacen(HEADER, &format!("{errno}{HEADER}"), 1);
    }
    let at = place_of_include(text);
    format!("{}{errno}{HEADER}\n{}", &text[..at], &text[at..])
}

/// Behind the last `#include` before the first use that is in no `#if` but a header's guard; else the beginning, or where the guard
/// begins.
fn place_of_include(text: &str) -> usize {
    let (mut at, mut depth, mut place) = (0, 0_usize, 0);
    // The macro that a header's guard, which is its first directive, asks for and then defines.
    let (mut asked, mut is_first, mut guard) = (None, true, 0);
    let use_of = |word: &str| text.find(word).unwrap_or(text.len());
    let first_use = use_of("lockwork_").min(use_of("LOCKWORK_"));
    let mut in_comment = false;
    for line in text.split_inclusive('\n') {
        let was_in_comment = in_comment;
        for (begin, _) in line.match_indices(['/', '*']) {
            match line.get(begin..begin + 2) {
                Some("/*") => in_comment = true,
                Some("*/") => in_comment = false,
                _ => {}
            }
        }
        let code = if was_in_comment { "" } else { line };
        let mut words = code.trim_start().strip_prefix('#').unwrap_or_default().split_whitespace();
        let (word, of) = (words.next().unwrap_or_default(), words.next());
        let end = at + line.len();
        if end > first_use {
            break;
        }
        let (asked_before, was_first) = (asked.take(), is_first);
        is_first &= word.is_empty();
        if word.is_empty() {
            asked = asked_before;
        } else if word.starts_with("if") {
            asked = of.filter(|_| was_first && word == "ifndef");
            depth += 1;
        } else if word == "endif" {
            depth = depth.saturating_sub(1);
            if depth < guard {
                // It was no header's.
                (guard, place) = (0, end);
            }
        } else if word == "define" && of.is_some() && of == asked_before {
            guard = 1;
            place = end;
        } else if depth == guard
            && (word.starts_with("include")
                || word == "define" && of.is_some_and(|name| name.contains("_SOURCE")))
        {
            place = end;
        }
        at = end;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_named_before_its_first_use() {
        let line_before = |text: &str| text[..place_of_include(text)].lines().last().unwrap_or("").to_owned();
        let use_of = "static lockwork_delegate_t lock = LOCKWORK_DELEGATE_INITIALIZER;\n";
        let text = format!("#include <a.h>\n#ifdef X\n#include <x.h>\n#endif\n#include <b.h>\n{use_of}");
        assert_eq!(line_before(&text), "#include <b.h>");
        assert_eq!(line_before(&format!("{text}#include <late.h>\n")), "#include <b.h>");
        let guarded = format!("#ifndef A_H\n#define A_H\n#include <a.h>\n{use_of}#endif\n");
        assert_eq!(line_before(&guarded), "#include <a.h>");
        assert_eq!(
            line_before(&format!("#ifndef A_H\n#define A_H\n{use_of}#include <late.h>\n#endif\n")),
            "#define A_H"
        );
        assert_eq!(line_before(&format!("{use_of}#include <late.h>\n")), "");
        let defined = format!("#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n{use_of}");
        assert_eq!(line_before(&defined), "#endif");
        let no_guard = format!("#ifdef X\n#include <a.h>\n#endif\n#ifndef Y\n#define Y 3\n#endif\n{use_of}");
        assert_eq!(line_before(&no_guard), "");
        assert_eq!(line_before(&format!("#ifndef Y\n#include <y.h>\n#endif\n{use_of}")), "");
        assert_eq!(line_before(&format!("#define _GNU_SOURCE\n{no_guard}")), "#define _GNU_SOURCE");
    }
}
