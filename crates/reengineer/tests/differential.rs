//! Generated functions: each section is converted and does what it did, or is refused.

mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use lockwork_reengineer::Choice;
use program::Program;

/// How many functions; LOCKWORK_DEEPER=N means N times as many.
const FUNCTIONS: usize = 150;

/// Writes functions with sections in all shapes that C's statements allow.
struct Generator {
    random: fastrand::Rng,
    text: String,
    depth: usize,
    names: usize,
    labels: usize,
    /// The lock of the section that is written, and the line that takes it.
    lock: &'static str,
    site: usize,
    /// Labels to be written at the function's end, each in front of a release of the lock that stands by it.
    fails: Vec<(String, &'static str)>,
    /// Of all that is rare, the lines of the sections that it is in; 0 where there is none.
    rare: Rare,
}

type Rare = BTreeMap<&'static str, Vec<usize>>;

/// What is written now and then, all of it at least once.
const NOW_AND_THEN: [&str; 6] = [
    "text of a name",
    "literal in a block",
    "static in a section",
    "break behind a release",
    "continue behind a release",
    "goto behind a release",
];

/// What sections have that are written by turns, so that none is missing.
const BY_TURNS: [&str; 14] = [
    "literal that is kept",
    "array that is kept",
    "name that hides a global",
    "errno",
    "condition by an index",
    "lock over a pause",
    "break that ends the section",
    "goto a release that follows",
    "goto a release at the end",
    "loop's variable around a section",
    "loop's variable over a pause",
    "loop's variable over a wait",
    "loop over a pause",
    "loop over a wait",
];

/// Those of which no section is converted, in these programs: what is declared inside would not be there any more, or does not mean the
/// same at the call site.
const STAYS: [&str; 6] = [
    "literal that is kept",
    "name that hides a global",
    "condition by an index",
    "lock over a pause",
    "loop's variable over a pause",
    "loop's variable over a wait",
];

/// Mutexes whose types are named in all ways; the last one stays a mutex.
const LOCKS: [&str; 6] = ["lock", "lock", "typed", "named", "box.lock", "seen"];

/// Where a statement is: what may be written there.
#[derive(Clone, Copy)]
struct Place {
    held: bool,
    /// In a loop or a switch of the section's own, or outside of sections.
    in_loop: bool,
    in_switch: bool,
    /// In a section that is itself in a loop or a switch.
    around_loop: bool,
    around_switch: bool,
    levels: usize,
}

impl Place {
    /// At the beginning of a function.
    const FIRST: Self = Self {
        held: false,
        in_loop: false,
        in_switch: false,
        around_loop: false,
        around_switch: false,
        levels: 3,
    };

    /// At the beginning of a section that is here.
    fn inside(self, levels: usize) -> Self {
        Self {
            held: true,
            in_loop: false,
            in_switch: false,
            around_loop: self.in_loop,
            around_switch: self.in_switch,
            levels,
        }
    }
}

impl Generator {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:width$}{text}", "", width = 4 * self.depth);
    }

    fn either(&mut self, one: &str, other: &str) {
        let line = if self.random.bool() { one } else { other };
        self.line(line);
    }

    fn value(&mut self) -> String {
        // What cannot be converted, as a macro that names b, is in the minority.
        let names = [
            "a",
            "a",
            "b",
            "c",
            "c",
            "shared",
            "shared",
            "many[1]",
            "pair.x",
            "pointer->y",
            "*(&b)",
            "BOTH(a, c)",
            "BOTH(a, shared)",
            "LOCAL_B",
        ];
        let one = names[self.random.usize(..names.len())];
        match self.random.u8(..4) {
            0 => format!("({one} + {})", self.random.u8(..9)),
            1 => format!("({one} ^ (c & {}))", self.random.u8(1..64)),
            2 => self.random.u8(..100).to_string(),
            _ => one.to_owned(),
        }
    }

    fn target(&mut self) -> &'static str {
        let names = ["a", "b", "c", "shared", "many[0]", "many[2]", "pair.x", "pointer->x"];
        names[self.random.usize(..names.len())]
    }

    fn block(&mut self, place: Place, most: usize) {
        let count = self.random.usize(1..=most);
        self.depth += 1;
        for _ in 0..count {
            self.statement(place);
        }
        self.depth -= 1;
    }

    fn statement(&mut self, place: Place) {
        let inner = Place { levels: place.levels.saturating_sub(1), ..place };
        let kind = self.random.u8(..if place.levels == 0 { 5 } else { 21 });
        let (value, target) = (self.value(), self.target());
        match kind {
            0 | 1 => self.line(&format!("{target} = {value} & 0xffff;")),
            2 => self.line(&format!("{target} += {value} % 97;")),
            3 => self.line(&format!("SET({target}, {value});")),
            4 => {
                self.names += 1;
                let name = format!("v{}", self.names);
                let sorts =
                    ["", "", "const ", "register ", "volatile ", "__attribute__((unused)) ", "ALIGNED "];
                let sort = sorts[self.random.usize(..sorts.len())];
                self.line(&format!("{sort}long {name} = {value};"));
                self.line(&format!("shared ^= {name} & 255;"));
            }
            5 => {
                self.line(&format!("if ({value} & 1) {{"));
                self.block(inner, 3);
                if self.random.bool() {
                    self.line("} else {");
                    self.block(inner, 3);
                }
                self.line("}");
            }
            6 => {
                self.names += 1;
                let name = format!("i{}", self.names);
                let times = self.random.u8(1..4);
                self.line(&format!("for (int {name} = 0; {name} < {times}; {name}++) {{"));
                self.block(Place { in_loop: true, in_switch: false, ..inner }, 3);
                self.line("}");
            }
            7 => {
                self.line(&format!("switch ({value} & 3) {{"));
                self.line("case 0:");
                self.block(Place { in_switch: true, ..inner }, 2);
                let breaks = self.random.bool();
                self.line(if breaks { "    break;" } else { "    __attribute__((fallthrough));" });
                self.line("case 1:");
                self.line("default:");
                self.block(Place { in_switch: true, ..inner }, 2);
                self.line("}");
            }
            8 => {
                // A variable that hides one of the function's.
                self.line("{");
                self.line("    long b = c ^ 21;");
                self.block(inner, 2);
                self.line("    shared ^= b & 1023;");
                self.line("}");
            }
            14 => {
                // An array of variable size, which the block may use.
                self.names += 1;
                let name = format!("w{}", self.names);
                self.line("{");
                self.line(&format!("    long {name}[1 + ({value} & 3)];"));
                self.line(&format!("    {name}[0] = b & 1023;"));
                self.block(inner, 2);
                self.line(&format!("    {target} ^= {name}[0];"));
                self.line("}");
            }
            15 => {
                self.names += 1;
                let (name, times) = (format!("i{}", self.names), self.random.u8(1..4));
                self.line(&format!("int {name} = {times};"));
                let is_do = self.random.bool();
                self.line(&if is_do { "do {".to_owned() } else { format!("while ({name}-- > 0) {{") });
                self.block(Place { in_loop: true, in_switch: false, ..inner }, 3);
                self.line(&if is_do { format!("}} while (--{name} > 0);") } else { "}".to_owned() });
            }
            16 => {
                // A loop by a jump back.
                self.labels += 1;
                let (label, name) = (format!("back{}", self.labels), format!("t{}", self.labels));
                self.line("{");
                self.line(&format!("    int {name} = 0;"));
                self.line(&format!("{label}:"));
                self.line(&format!("    {name}++;"));
                self.block(inner, 3);
                let times = self.random.u8(2..4);
                self.line(&format!("    if ({name} < {times}) goto {label};"));
                self.line("}");
            }
            18 => {
                // Of b the address is taken, so that it cannot be copied.
                let name = ["a", "a", "a", "b", "c", "c", "c", "c"][self.random.usize(..8)];
                self.line(&format!("NOTE({name});"));
                self.count("text of a name");
            }
            19 => {
                self.line("{");
                self.line(&format!("    const long *const literal = (const long[]){{ {value}, b }};"));
                self.line("    shared ^= literal[1] & 511;");
                self.line("}");
                self.count("literal in a block");
            }
            20 if place.held => {
                self.names += 1;
                let (name, first) = (format!("s{}", self.names), self.random.u8(..100));
                let is_array = self.random.bool();
                let (size, place) = if is_array { ("[2]", "[1]") } else { ("", "") };
                let first = if is_array { format!("{{ {first}, 2 }}") } else { first.to_string() };
                self.line(&format!("static long {name}{size} = {first};"));
                self.line(&format!("{name}{place} += {value} & 15;"));
                self.line(&format!("shared ^= {name}{place} & 255;"));
                self.count("static in a section");
            }
            9 if place.in_loop || place.in_switch || place.around_loop || place.around_switch => {
                self.leave(place, "break;");
            }
            10 if place.in_loop || place.around_loop => self.leave(place, "continue;"),
            11 if place.levels > 0 => self.leave(place, "return a ^ b;"),
            12 => self.section(inner),
            13 => self.leave(place, "goto done;"),
            _ => self.line(&format!("shared = (shared * 31 + {value}) & 0xffffff;")),
        }
    }

    /// Goes elsewhere, sometimes, with what must be released released.
    fn leave(&mut self, place: Place, how: &str) {
        let value = self.value();
        // A constant would make dead what follows, and a compiler that sees it in a closure warns of variables which are set there.
        self.line(&format!("if ((({value} ^ a) & 7) == 3) {{"));
        // To the end of a loop or a switch of the section's own, the lock is kept.
        let stays_inside = match how {
            "break;" => place.in_loop || place.in_switch,
            "continue;" => place.in_loop,
            _ => false,
        };
        if place.held && !stays_inside {
            if self.random.u8(..12) == 0 && !matches!(how, "break;" | "continue;") {
                self.line(&format!("    GIVE_RETURN(&{});", self.lock));
            } else {
                self.line(&format!("    pthread_mutex_unlock(&{});", self.lock));
                match how {
                    "break;" => self.count("break behind a release"),
                    "continue;" => self.count("continue behind a release"),
                    "goto done;" => self.count("goto behind a release"),
                    _ => {}
                }
            }
            if self.random.bool() {
                self.line("    a += 3;");
            }
        }
        self.line(&format!("    {how}"));
        self.line("}");
    }

    fn count(&mut self, what: &'static str) {
        let site = self.site;
        self.rare.entry(what).or_default().push(site);
    }

    /// Takes the lock of the section that is written.
    fn take(&mut self, by: &str) {
        self.line(&format!("{by}(&{});", self.lock));
        self.site = self.text.lines().count();
    }

    fn give(&mut self) {
        self.line(&format!("pthread_mutex_unlock(&{});", self.lock));
    }

    /// A section, in a block of its own, of a shape that is seldom.
    fn rare_section(&mut self, place: Place) {
        let inside = place.inside(place.levels.min(1));
        let (lock, value) = (LOCKS[self.random.usize(..5)], self.value());
        let turn: usize = BY_TURNS.iter().filter_map(|shape| self.rare.get(shape)).map(Vec::len).sum();
        let what = BY_TURNS[turn % BY_TURNS.len()];
        // The thread that answers takes this one.
        self.lock = if what.ends_with("over a wait") { LOCKS[0] } else { lock };
        if what == "goto a release at the end" {
            // In no block of its own: the release has to be in the same one, at least sometimes.
            self.failing(inside, what);
            return self.count(what);
        }
        self.line("{");
        self.depth += 1;
        match what {
            "break that ends the section" => self.ended_by_break(inside),
            "goto a release that follows" => self.failing(inside, what),
            "loop's variable around a section" => self.in_a_loop(place),
            _ if what.starts_with("loop") => self.pausing(inside, what),
            _ => self.telling(inside, what, &value),
        }
        self.count(what);
        self.depth -= 1;
        self.line("}");
    }

    /// A loop that only a `break` behind the release leaves.
    fn ended_by_break(&mut self, inside: Place) {
        self.names += 1;
        let (name, value) = (format!("n{}", self.names), self.value());
        self.line(&format!("int {name} = 0;"));
        self.take("pthread_mutex_lock");
        self.either("for (;;) {", "while (1) {");
        self.line(&format!("    if ({name}++ > ({value} & 3)) {{"));
        self.line(&format!("        pthread_mutex_unlock(&{});", self.lock));
        if self.random.bool() {
            self.line("        a += 5;");
        }
        self.line("        break;");
        self.line("    }");
        // Any other `break` would leave with the lock.
        self.block(Place { around_loop: false, around_switch: false, ..inside }, 2);
        self.line("}");
    }

    /// A section with a `goto` to another release, which stands behind the section or at the function's end.
    fn failing(&mut self, inside: Place, what: &str) {
        self.labels += 1;
        let (fail, over) = (format!("fail{}", self.labels), format!("over{}", self.labels));
        self.take("pthread_mutex_lock");
        self.depth -= 1;
        self.block(inside, 2);
        self.depth += 1;
        let value = self.value();
        if self.random.bool() {
            self.line(&format!(
                "for (int i = 0; i < 2; i++) if ((({value} ^ (a + i)) & 3) == 1) goto {fail};"
            ));
        } else {
            self.line(&format!("if ((({value} ^ a) & 3) == 1) goto {fail};"));
        }
        self.line("shared += 7;");
        self.give();
        if what == "goto a release at the end" {
            self.fails.push((fail, self.lock));
            return;
        }
        let goes_on = self.random.bool();
        self.line(&if goes_on { format!("goto {over};") } else { "return a ^ 1;".to_owned() });
        self.line(&format!("{fail}:"));
        self.give();
        self.line("a -= 2;");
        if self.random.bool() {
            self.line("return -a;");
        }
        if goes_on {
            self.line(&format!("{over}:"));
        }
        self.line("c ^= 3;");
    }

    /// A loop whose variable the section in it reads and writes.
    fn in_a_loop(&mut self, place: Place) {
        self.names += 1;
        let (name, value) = (format!("i{}", self.names), self.value());
        self.line(&format!("for (long {name} = {value} & 1; {name} < 4; {name}++) {{"));
        self.depth += 1;
        self.take("pthread_mutex_lock");
        self.line(&format!("{name} += shared & 1;"));
        self.depth -= 1;
        let inside = Place { in_loop: true, ..place }.inside(place.levels.min(1));
        self.block(inside, 2);
        self.depth += 1;
        self.leave(inside, "continue;");
        self.leave(inside, "break;");
        self.line(&format!("shared ^= {name};"));
        self.give();
        self.line(&format!("shared += 2 * {name};"));
        self.depth -= 1;
        self.line("}");
    }

    /// A section with a loop whose variable, which may be declared in it, has to be the same behind a release and an acquisition, or a
    /// wait.
    fn pausing(&mut self, inside: Place, what: &str) {
        self.names += 1;
        let (name, value) = (format!("i{}", self.names), self.value());
        let is_declared = what.starts_with("loop's");
        if !is_declared {
            self.line(&format!("long {name}, {name}_end;"));
        }
        self.take("pthread_mutex_lock");
        self.depth -= 1;
        self.block(inside, 2);
        self.depth += 1;
        let first = if is_declared { "long " } else { "" };
        self.line(&format!(
            "for ({first}{name} = {value} & 1, {name}_end = 3; {name} < {name}_end; {name}++) {{"
        ));
        self.depth += 1;
        self.line(&format!("shared += {name};"));
        if what.ends_with("over a wait") {
            self.line("asked = 1;");
            self.line("while (asked)");
            self.line(&format!("    pthread_cond_wait(&answered, &{});", self.lock));
        } else {
            self.give();
            self.line(&format!("shared ^= {name} + 8;"));
            self.line(&format!("pthread_mutex_lock(&{});", self.lock));
        }
        self.line(&format!("a += {name} + (shared & 1);"));
        self.depth -= 1;
        self.line("}");
        self.give();
    }

    /// Something that tells apart before and behind the section.
    fn telling(&mut self, inside: Place, what: &str, value: &str) {
        let lock = self.lock;
        if what.ends_with("is kept") {
            self.line("const long *kept;");
        }
        self.take("pthread_mutex_lock");
        self.depth -= 1;
        self.block(inside, 2);
        self.depth += 1;
        let mut after = "shared += 2;";
        match what {
            "literal that is kept" => {
                self.line(&format!("kept = (long[]){{ {value}, 3 }};"));
                after = "shared ^= kept[0] & 7;";
            }
            "array that is kept" => {
                self.line(&format!("long row[2] = {{ {value}, 1 }};"));
                self.line("kept = row;");
                after = "shared ^= kept[0] & 7;";
            }
            "name that hides a global" => {
                self.line(&format!("if (({value} & 3) == 1) {{"));
                self.line(&format!("    pthread_mutex_unlock(&{lock});"));
                self.line("    return hidden ^ a;");
                self.line("}");
                self.line("long hidden = b & 63;");
                after = "shared ^= hidden;";
            }
            "errno" => {
                self.line(&format!("errno = {value} & 31;"));
                after = "shared ^= errno;";
            }
            "condition by an index" => {
                self.line("while (a > 1L << 60)");
                self.line(&format!("    pthread_cond_wait(&turns[shared & 1], &{lock});"));
            }
            _ => {
                self.line("pthread_mutex_lock(&over);");
                self.give();
                self.line("shared ^= 9;");
                self.line(&format!("pthread_mutex_lock(&{lock});"));
                self.line(&format!("shared += {value} & 3;"));
                self.line("pthread_mutex_unlock(&over);");
            }
        }
        self.give();
        self.line(after);
    }

    fn section(&mut self, place: Place) {
        if place.held {
            self.line("shared ^= 5;");
            return;
        }
        if self.random.u8(..6) == 0 {
            return self.rare_section(place);
        }
        let lock = LOCKS[self.random.usize(..LOCKS.len())];
        let (take, give) = match self.random.u8(..30) {
            0..10 => ("TAKE", "GIVE"),
            10 => ("COUNT_TAKE", "GIVE"),
            11 => ("TAKE", "COUNT_GIVE"),
            _ => ("pthread_mutex_lock", "pthread_mutex_unlock"),
        };
        self.lock = lock;
        self.take(take);
        self.depth -= 1;
        self.block(place.inside(place.levels), 5);
        self.depth += 1;
        if self.random.u8(..4) == 0 {
            self.labels += 1;
            let label = format!("out{}", self.labels);
            self.line(&format!("if (a & 2) goto {label};"));
            self.line("shared++;");
            self.line(&format!("{label}:"));
        }
        self.line(&format!("{give}(&{lock});"));
    }

    /// The releases that sections go to.
    fn releases(&mut self) {
        for (label, lock) in std::mem::take(&mut self.fails) {
            self.line(&format!("{label}:"));
            self.line(&format!("    pthread_mutex_unlock(&{lock});"));
            self.either("    return a - 7;", "    goto done;");
        }
    }

    fn function(&mut self, number: usize) {
        let attribute = if self.random.bool() { "__attribute__((noinline)) " } else { "" };
        self.line(&format!("static {attribute}long f{number}(long a, long b)"));
        self.line("{");
        self.line("    long c = a + b, many[3] = { a, b, 7 };");
        self.line("    struct pair pair = { a, b }, *pointer = &pair;");
        self.depth = 1;
        for _ in 0..self.random.usize(2..5) {
            if self.random.bool() {
                self.section(Place::FIRST);
            } else {
                self.statement(Place::FIRST);
            }
            // Labels between a section and the release that it goes to make it one that is entered elsewhere.
            if !self.fails.is_empty() && self.random.u8(..4) > 0 {
                break;
            }
        }
        self.depth = 0;
        self.line("    goto done;");
        if self.random.u8(..4) > 0 {
            self.releases();
        }
        self.line("done:");
        self.line("    return a + 3 * b + 5 * c + many[0] + many[2] + pair.x + pointer->y;");
        self.releases();
        self.line("}");
        self.line("");
    }
}

const HEAD: &str = "\
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define TAKE(it) do { pthread_mutex_lock(it); } while (0)
#define GIVE(it) do { pthread_mutex_unlock(it); } while (0)
#define COUNT_TAKE(it) pthread_mutex_lock(it); shared += 3
#define COUNT_GIVE(it) shared ^= 2; pthread_mutex_unlock(it)
#define GIVE_RETURN(it) do { pthread_mutex_unlock(it); return a - b; } while (0)
#define SET(to, from) do { (to) = (from); } while (0)
#define BOTH(x, y) ((x) + (y))
#define LOCAL_B (b + 1)
#define ALIGNED __attribute__((aligned(16)))
#define NOTE(it) shared ^= (long)sizeof #it + ((it) & 15)

struct pair { long x, y; };
typedef pthread_mutex_t lock_type;
typedef lock_type inner_type;
#define LOCK_TYPE pthread_mutex_t
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lock_type typed = PTHREAD_MUTEX_INITIALIZER;
static LOCK_TYPE named = PTHREAD_MUTEX_INITIALIZER;
static struct { long before; inner_type lock; } box = { 1, PTHREAD_MUTEX_INITIALIZER };
static lock_type seen = PTHREAD_MUTEX_INITIALIZER;
static void *const shown = &seen;
static pthread_mutex_t over = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turns[2] = { PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER };
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static int asked, is_over;
static long shared, hidden = 77;

/* Answers each wait, so that it goes on. */
static void *answer(void *unused)
{
    for (int ends = 0; !ends; sched_yield()) {
        pthread_mutex_lock(&lock);
        if (asked) {
            asked = 0;
            pthread_cond_broadcast(&answered);
        }
        ends = is_over;
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

";

/// A program, and where what is rare is in it.
fn generated(seed: u64, functions: usize) -> (String, Rare) {
    let mut generator = Generator {
        random: fastrand::Rng::with_seed(seed),
        text: HEAD.to_owned(),
        depth: 0,
        names: 0,
        labels: 0,
        lock: LOCKS[0],
        site: 0,
        fails: Vec::new(),
        rare: Rare::new(),
    };
    for number in 0..functions {
        generator.function(number);
    }
    generator.line("int main(void)");
    generator.line("{");
    generator.line("    pthread_t thread;");
    generator.line("    if (pthread_create(&thread, NULL, answer, NULL) != 0)");
    generator.line("        return 2;");
    for number in 0..functions {
        generator.line("    for (long by = 0; by < 6; by++)");
        generator
            .line(&format!("        printf(\"%d %ld %ld\\n\", {number}, f{number}(by, by * 7), shared);"));
    }
    generator.line("    pthread_mutex_lock(&lock);");
    generator.line("    is_over = 1;");
    generator.line("    pthread_mutex_unlock(&lock);");
    generator.line("    pthread_join(thread, NULL);");
    generator.line("    return shown == 0;");
    generator.line("}");
    (generator.text, generator.rare)
}

#[test]
fn generated_functions_do_what_they_did() {
    let deeper: usize =
        std::env::var("LOCKWORK_DEEPER").ok().and_then(|times| times.parse().ok()).unwrap_or(1).max(1);
    let mut all = BTreeMap::<&str, (usize, usize)>::new();
    for round in 0..deeper {
        let seed = 7 + round as u64;
        let (text, rare) = generated(seed, FUNCTIONS);
        for what in NOW_AND_THEN.iter().chain(&BY_TURNS) {
            assert!(rare.contains_key(what), "seed {seed}: no {what}");
        }
        let program = Program::new(&text);
        let Some(project) = program.project(Choice { may_hold: true, ..Choice::default() }) else { return };
        let converted = project.findings.iter().filter(|found| found.refusal().is_none()).count();
        assert!(project.findings.len() > FUNCTIONS, "{}", project.findings.len());
        let taken_by = |lock: &str| {
            let of = format!("(&{lock})");
            project.findings.iter().filter(|it| it.section.lock == of && it.refusal().is_none()).count()
        };
        assert_eq!(taken_by("seen"), 0, "its address goes elsewhere");
        for lock in &LOCKS[..5] {
            assert!(taken_by(lock) > 0, "{lock}");
        }
        assert!(converted * 2 > project.findings.len(), "{converted} of {}", project.findings.len());
        let before = program.run();
        assert!(before.status.success(), "seed {seed}: {before:?}");
        program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
        let after = program.run();
        let differs = String::from_utf8_lossy(&before.stdout)
            .lines()
            .zip(String::from_utf8_lossy(&after.stdout).lines())
            .find(|(one, other)| one != other)
            .map(|(one, other)| format!("{one} became {other}"));
        assert!(after.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&after.stderr));
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(after.stdout.len(), before.stdout.len());
        let converts = project.findings.iter().filter(|it| it.refusal().is_none());
        let lines: BTreeSet<usize> = converts.map(|it| it.line).collect();
        for (what, sites) in &rare {
            let (found, converted) = all.entry(what).or_default();
            *found += sites.len();
            *converted += sites.iter().filter(|site| lines.contains(site)).count();
        }
        eprintln!("seed {seed}: {converted} of {} sections converted", project.findings.len());
    }
    for (what, (found, converted)) in all {
        eprintln!("{what}: {found}, {converted} of them in sections that are converted");
        assert!(converted > 0 || STAYS.contains(&what), "no section with a {what} is converted");
    }
}
