//! A section as a closure: the text that takes its place, and the function that a delegate runs.

use std::fmt::Write as _;
use std::ops::Range;

use crate::edit::{Edit, edited};
use crate::section::{Assigned, Capture, Hoisted, Meanwhile, Plan, Section};
use crate::tree::{Function, Kind};

/// The edits that convert `section`, whose `function` is in `text`; `None` if they would overlap.
pub(crate) fn conversion(
    text: &str,
    function: &Function,
    section: &Section,
    plan: &Plan,
) -> Option<Vec<Edit>> {
    let writer = Writer { text, section, plan, name: free_name(text, &function.name) };
    let body = writer.body()?;
    let head = &text[function.range.start..function.body.range.start];
    // The function's first words may be in an `#if`, which the closure goes in front of.
    let has_lines = head.lines().any(|line| line.trim_start().starts_with('#'));
    let first = function.range.start;
    let first = if has_lines { text[..first].rfind("\n#if").map_or(first, |at| at + 1) } else { first };
    let at = place_before(text, first);
    let mut code = writer.closure(&body);
    if function.body.walk().any(|node| node.kind == Kind::Name(function.name.clone())) {
        let head = text[function.range.start..function.body.range.start].trim_end();
        // Of a definition in the old way, the types of the parameters are said behind their names.
        let old = head.ends_with(';').then(|| head.split_once('(')).flatten();
        let head = old.map_or_else(|| head.to_owned(), |(head, _)| format!("{head}()"));
        code = format!("{head};\n\n{code}");
    }
    Some(vec![Edit::new(at..at, code), Edit::new(plan.slice.clone(), writer.call())])
}

/// A name for a closure that the text does not have.
fn free_name(text: &str, function: &str) -> String {
    (1..)
        .map(|number| format!("lockwork_{function}_{number}"))
        .find(|name| {
            let ends = |at: usize| !text[at + name.len()..].starts_with(|next: char| next.is_ascii_digit());
            !text.match_indices(name.as_str()).any(|(at, _)| ends(at))
        })
        .unwrap_or_default()
}

/// The beginning of the line at `at`, and of the comment before it.
fn place_before(text: &str, at: usize) -> usize {
    let mut start = text[..at].rfind('\n').map_or(0, |line| line + 1);
    // Another declaration ends there.
    if text[start..at].contains([';', '}']) {
        return at;
    }
    loop {
        let before = &text[..start];
        let Some(line) = before.strip_suffix('\n') else { return start };
        let first = line.rfind('\n').map_or(0, |end| end + 1);
        let last_line = line[first..].trim();
        if last_line.starts_with("//") {
            start = first;
        } else if last_line.ends_with("*/") && !last_line.contains(';') {
            match line.rfind("/*") {
                Some(comment) if text[..comment].ends_with('\n') || comment == 0 => return comment,
                _ => return start,
            }
        } else {
            return start;
        }
    }
}

/// What a closure calls its argument.
const CONTEXT: &str = "lockwork_context";
/// Where a closure notes by which exit it left.
const EXIT: &str = "lockwork_exit";
/// Where a closure notes from which pause it goes on; 0 = it begins.
const ENTRY: &str = "lockwork_entry";
/// The caller's `errno`, which the closure has meanwhile.
const ERRNO: &str = "lockwork_errno";
/// Which wait the call site stands ready for.
const WAITS: &str = "lockwork_waits";
/// The label at a closure's end.
const OUT: &str = "lockwork_out";

/// An alignment as the program says it in `__attribute__((…))`, as part of another declaration.
fn aligned(text: &str) -> String {
    format!("__attribute__(({text})) ")
}

struct Writer<'a> {
    text: &'a str,
    section: &'a Section,
    plan: &'a Plan,
    name: String,
}

impl Writer<'_> {
    /// Whether the call site must know by which exit the section was left.
    fn tells_exits(&self) -> bool {
        let has_tail = |exit: &crate::section::Exit| !self.text[exit.tail.clone()].trim().is_empty();
        self.has_pauses() || self.plan.exits.len() > 1 && self.plan.exits.iter().any(has_tail)
    }

    fn has_pauses(&self) -> bool {
        !self.plan.pauses.is_empty()
    }

    /// The conditions that are waited for, by the numbers of the entries behind.
    fn waits(&self) -> impl Iterator<Item = (usize, &String)> {
        self.plan.pauses.iter().enumerate().filter_map(|(number, pause)| match &pause.meanwhile {
            Meanwhile::Waits(condition) => Some((number + 1, condition)),
            Meanwhile::Runs(_) => None,
        })
    }

    /// The number of the exit by which the closure leaves for a pause.
    fn exit_of(&self, entry: usize) -> usize {
        self.plan.exits.len() + entry - 1
    }

    fn has_context(&self) -> bool {
        self.tells_exits() || self.plan.carries_errno || !self.plan.captures.is_empty()
    }

    /// The section's text as the closure has it.
    fn body(&self) -> Option<String> {
        let mut edits = Vec::new();
        for capture in &self.plan.captures {
            let name = &capture.variable.name;
            if !capture.by_value {
                let length = name.len();
                let becomes = match capture.is_set {
                    true => format!("{CONTEXT}->{name}"),
                    false => format!("(*{CONTEXT}->{name})"),
                };
                edits.extend(capture.uses.iter().map(|at| Edit::new(*at..at + length, becomes.clone())));
            }
            if let Some(hoisted) = &capture.hoisted {
                self.assign(capture, hoisted, &mut edits);
            }
        }
        for (number, exit) in self.plan.exits.iter().enumerate() {
            let goes = match (exit.is_last, self.tells_exits()) {
                (true, false) => ";".to_owned(),
                (true, true) => format!("{CONTEXT}->{EXIT} = {number};"),
                (false, false) => format!("goto {OUT};"),
                (false, true) => format!("{{ {CONTEXT}->{EXIT} = {number}; goto {OUT}; }}"),
            };
            // What an exit drops may have been edited: it runs at the call site, where all names are as they were.
            edits.retain(|edit| !(exit.range.start <= edit.range.start && edit.range.end <= exit.range.end));
            edits.push(Edit::new(exit.range.clone(), goes));
        }
        for (number, pause) in self.plan.pauses.iter().enumerate() {
            let entry = number + 1;
            let exit = self.exit_of(entry);
            let waits = match pause.meanwhile {
                Meanwhile::Waits(_) => format!(" if ({CONTEXT}->{WAITS} == {entry}) lockwork_result = 0;"),
                Meanwhile::Runs(_) => String::new(),
            };
            edits
                .retain(|edit| !(pause.range.start <= edit.range.start && edit.range.end <= pause.range.end));
            let text = format!(
                "{{ {CONTEXT}->{EXIT} = {exit}; {CONTEXT}->{ENTRY} = {entry};{waits} goto {OUT}; lockwork_entry_{entry}:; }}"
            );
            edits.push(Edit::new(pause.range.clone(), text));
        }
        edited(self.text, self.plan.lock.end..self.plan.slice.end, &edits)
    }

    /// Makes an assignment of a declaration that stands in front of the section now: where another declaration follows, as the value of
    /// a variable that nobody reads, because there C90 takes no statement.
    fn assign(&self, capture: &Capture, hoisted: &Hoisted, edits: &mut Vec<Edit>) {
        let Range { start, end } = hoisted.statement;
        let (name, type_name) = (&capture.variable.name, &capture.type_name);
        let goes_before_another = hoisted.goes_before_another && !self.has_pauses();
        let ends = self.text[..end].ends_with(';');
        let to = format!("{CONTEXT}->{name}");
        let size = format!("sizeof(__typeof__({type_name}))");
        // What stands around the value, which may be edited itself.
        let (before, after) = match hoisted.assigned {
            Assigned::Plainly => (format!("(*{to}) ="), String::new()),
            Assigned::Braced => (format!("(*{to}) = (__typeof__({type_name}))"), String::new()),
            Assigned::Copied => {
                (format!("__builtin_memcpy({to}, (__typeof__({type_name})[1]) {{"), format!(" }}, {size})"))
            }
            Assigned::CopiedBraced => {
                (format!("__builtin_memcpy({to}, &(__typeof__({type_name}))"), format!(", {size})"))
            }
            Assigned::CopiedString => {
                (format!("__builtin_memcpy({to}, &(__typeof__({type_name})) {{"), format!(" }}, {size})"))
            }
        };
        match hoisted.value {
            Some(value) if goes_before_another && ends => {
                let unread = format!("int const lockwork_set_{name} __attribute__((unused)) = ({before}");
                edits.push(Edit::new(start..value, unread));
                edits.push(Edit::new(end - 1..end, format!("{after}, 0);")));
            }
            Some(value) => {
                edits.push(Edit::new(start..value, before));
                if !after.is_empty() && ends {
                    edits.push(Edit::new(end - 1..end, format!("{after};")));
                }
            }
            None if goes_before_another => edits.push(Edit::new(start..end, "")),
            None => edits.push(Edit::new(start..end, ";")),
        }
    }

    /// The white space in front of the section. Where its first line is the preprocessor's, that of the next.
    fn indent(&self) -> String {
        let at = self.plan.slice.start;
        let line = match &self.plan.guard {
            Some(_) => {
                self.text[at..].lines().skip(1).find(|line| !line.trim().is_empty()).unwrap_or_default()
            }
            None => &self.text[self.text[..at].rfind('\n').map_or(0, |end| end + 1)..at],
        };
        line.chars().take_while(|next| next.is_whitespace()).collect()
    }

    /// The closure's context and the closure.
    fn closure(&self, body: &str) -> String {
        let name = &self.name;
        let mut code = String::new();
        if self.has_context() {
            code += &format!("struct {name} {{\n");
            if self.tells_exits() {
                code += &format!("    int {EXIT};\n");
            }
            if self.has_pauses() {
                code += &format!("    int {ENTRY};\n");
            }
            if self.waits().next().is_some() {
                code += &format!("    int {WAITS};\n");
            }
            if self.plan.carries_errno {
                code += &format!("    int {ERRNO};\n");
            }
            for Capture { variable, type_name, is_register, is_set, .. } in &self.plan.captures {
                let star = if *is_register || *is_set { "" } else { "*" };
                let _ = writeln!(code, "    __typeof__({type_name}) {star}{};", variable.name);
            }
            code += "};\n\n";
        }
        let argument = if self.has_context() { "lockwork_argument" } else { "lockwork_unused" };
        code += &format!("static void *{name}_run(void *{argument})\n{{\n");
        if self.has_context() {
            // The cast is for compilers that warn of what C++ would not take.
            code += &format!("    struct {name} *const {CONTEXT} = (struct {name} *){argument};\n");
        } else {
            code += &format!("    (void){argument};\n");
        }
        let copied = || self.plan.captures.iter().filter(|capture| capture.by_value);
        for Capture { variable, type_name, is_register, .. } in copied() {
            let star = if *is_register { "" } else { "*" };
            let _ = writeln!(code, "    __typeof__({type_name}) {0} = {star}{CONTEXT}->{0};", variable.name);
        }
        let waits = self.waits().next().is_some();
        if waits {
            code += &format!("    void *lockwork_result = {CONTEXT};\n");
        }
        if self.plan.carries_errno {
            code += &format!("    errno = {CONTEXT}->{ERRNO};\n");
        }
        if self.has_pauses() {
            code += &format!("    switch ({CONTEXT}->{ENTRY}) {{\n");
            for entry in 1..=self.plan.pauses.len() {
                let _ = writeln!(code, "    case {entry}: goto lockwork_entry_{entry};");
            }
            code += "    }\n";
        }
        let indent = self.indent();
        code += &format!("{indent}{{{}\n{indent}}}\n", body.trim_end());
        if self.has_pauses() || self.plan.exits.iter().any(|exit| !exit.is_last) {
            code += &format!("{OUT}:\n");
        }
        for capture in copied().filter(|capture| !capture.is_const) {
            let star = if capture.is_register { "" } else { "*" };
            let _ = writeln!(code, "    {star}{CONTEXT}->{0} = {0};", capture.variable.name);
        }
        if self.plan.carries_errno {
            code += &format!("    {CONTEXT}->{ERRNO} = errno;\n");
        }
        code += if waits { "    return lockwork_result;\n}\n\n" } else { "    return 0;\n}\n\n" };
        code
    }

    /// What takes the section's place.
    fn call(&self) -> String {
        let name = &self.name;
        let indent = self.indent();
        let begins_line = self.plan.guard.is_some() && self.has_context();
        let mut code = if begins_line { indent.clone() } else { String::new() };
        let hoisted = |is_inner| {
            let is_it = move |capture: &&Capture| {
                capture.hoisted.as_ref().is_some_and(|hoisted| hoisted.is_inner == is_inner)
            };
            self.plan.captures.iter().filter(is_it)
        };
        if hoisted(false).next().is_some() && self.text[..self.plan.slice.start].trim_end().ends_with(':') {
            code += ";\n";
            code += &indent;
        }
        for capture in hoisted(false) {
            let _ = write!(code, "{}\n{indent}", Self::declaration(capture));
        }
        if !self.has_context() {
            code += self.request(&indent, "0").trim_start();
            let tail =
                self.plan.exits.first().map(|exit| self.text[exit.tail.clone()].trim()).unwrap_or_default();
            return if tail.is_empty() || self.plan.exits.len() > 1 {
                code
            } else {
                format!("{code}\n{indent}{tail}")
            };
        }
        let begin = self.waits().next().map(|(entry, _)| format!(".{WAITS} = {entry}"));
        let entry = self.has_pauses().then(|| format!(".{ENTRY} = 0"));
        let passed_in = self.plan.captures.iter().filter(|capture| !capture.is_set);
        let captured = passed_in.map(|Capture { variable, is_register, .. }| {
            format!(".{0} = {1}{0}", variable.name, if *is_register { "" } else { "&" })
        });
        let errno = self.plan.carries_errno.then(|| format!(".{ERRNO} = errno"));
        let fields: Vec<String> = entry.into_iter().chain(begin).chain(errno).chain(captured).collect();
        let fields = if fields.is_empty() { "0".to_owned() } else { fields.join(", ") };
        code += "{\n";
        for capture in hoisted(true) {
            let _ = writeln!(code, "{indent}    {}", Self::declaration(capture));
        }
        let _ = writeln!(code, "{indent}    struct {name} {name} = {{ {fields} }};");
        code += &if self.has_pauses() { self.runs(&indent) } else { self.run(&format!("{indent}    ")) };
        for (number, exit) in self.plan.exits.iter().enumerate() {
            let tail = self.text[exit.tail.clone()].trim();
            if tail.is_empty() {
                continue;
            }
            if self.tells_exits() {
                let _ = writeln!(
                    code,
                    "{indent}    if ({name}.{EXIT} == {number}) {{\n{indent}        {tail}\n{indent}    }}"
                );
            } else {
                let _ = writeln!(code, "{indent}    {tail}");
            }
        }
        code + &indent + "}"
    }

    /// The declaration of a variable at the call site.
    fn declaration(capture: &Capture) -> String {
        let Capture { variable, type_name, hoisted, .. } = capture;
        let alignment: String =
            hoisted.iter().flat_map(|hoisted| &hoisted.alignment).map(|text| aligned(text)).collect();
        format!("{alignment}__typeof__({type_name}) {};", variable.name)
    }

    /// Runs the closure once.
    fn run(&self, indent: &str) -> String {
        format!("{}\n{}", self.request(indent, &format!("&{}", self.name)), self.copies_out(indent))
    }

    /// The call that runs the closure with an argument, on lines of its own. Where the lock would not be compiled, it is run as it is.
    fn request(&self, indent: &str, argument: &str) -> String {
        let (name, lock) = (&self.name, &self.section.lock);
        let request = match self.section.by.as_deref().and_then(|by| by.strip_suffix(')')) {
            Some(by) if by.ends_with('(') => format!("{by}{name}_run, {argument});"),
            Some(by) => format!("{by}, {name}_run, {argument});"),
            None => format!("lockwork_delegate_run_or_abort({lock}, {name}_run, {argument});"),
        };
        match &self.plan.guard {
            None => format!("{indent}{request}"),
            Some(guard) => {
                format!("{guard}\n{indent}{request}\n#else\n{indent}{name}_run({argument});\n#endif")
            }
        }
    }

    /// The variables that have no address: the call site copies them to the context and back.
    fn copied_in(&self) -> impl Iterator<Item = &Capture> {
        self.plan.captures.iter().filter(|capture| capture.is_register && !capture.is_const)
    }

    /// What the closure's copies are becomes what the variables are.
    fn copies_out(&self, indent: &str) -> String {
        let name = &self.name;
        let errno = self.plan.carries_errno.then(|| format!("{indent}errno = {name}.{ERRNO};\n"));
        let copied = self.copied_in().chain(self.plan.captures.iter().filter(|capture| capture.is_set));
        errno
            .into_iter()
            .chain(
                copied.map(|Capture { variable, .. }| format!("{indent}{0} = {name}.{0};\n", variable.name)),
            )
            .collect()
    }

    /// Runs the closure until it leaves by an exit that is no pause.
    fn runs(&self, indent: &str) -> String {
        let (name, lock) = (&self.name, &self.section.lock);
        let deep = format!("{indent}        ");
        let mut code = format!("{indent}    for (;;) {{\n");
        let mut is_first = true;
        for (entry, condition) in self.waits() {
            let other = if is_first { "" } else { "else " };
            is_first = false;
            let _ = writeln!(
                code,
                "{deep}{other}if ({name}.{WAITS} == {entry})\n{deep}    lockwork_delegate_cond_wait_or_abort({lock}, {condition}, \
                 {name}_run, &{name}, 0);"
            );
        }
        if is_first {
            let _ = writeln!(code, "{}", self.request(&deep, &format!("&{name}")));
        }
        code += &self.copies_out(&deep);
        for (number, pause) in self.plan.pauses.iter().enumerate() {
            let entry = number + 1;
            let (exit, meanwhile) = (self.exit_of(entry), &pause.meanwhile);
            let _ = writeln!(code, "{deep}if ({name}.{EXIT} == {exit}) {{");
            match meanwhile {
                Meanwhile::Waits(_) => {
                    let _ = writeln!(code, "{deep}    {name}.{WAITS} = {entry};");
                }
                Meanwhile::Runs(range) => {
                    let text = self.text[range.clone()].trim();
                    if !text.is_empty() {
                        let _ = writeln!(code, "{deep}    {text}");
                    }
                    if self.plan.carries_errno {
                        let _ = writeln!(code, "{deep}    {name}.{ERRNO} = errno;");
                    }
                    for Capture { variable, .. } in self.copied_in() {
                        let _ = writeln!(code, "{deep}    {name}.{0} = {0};", variable.name);
                    }
                }
            }
            let _ = writeln!(code, "{deep}    continue;\n{deep}}}");
        }
        // What leaves nowhere goes on for ever, so that nothing need follow.
        let leaves = if self.plan.exits.is_empty() { String::new() } else { format!("{deep}break;\n") };
        code + &format!("{leaves}{indent}    }}\n")
    }
}
