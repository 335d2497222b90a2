//! Generated functions: each section is converted and does what it did, or is refused.

mod program;

use std::collections::BTreeMap;
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
    /// The lock of the section that is written.
    lock: &'static str,
    /// How many of what is rare there are.
    rare: BTreeMap<&'static str, usize>,
}

/// What is written now and then, all of it at least once.
const RARE: [&str; 8] = [
    "text of a name",
    "literal in a block",
    "literal that is kept",
    "array that is kept",
    "name that hides a global",
    "errno",
    "condition by an index",
    "lock over a pause",
];

/// Mutexes whose types are named in all ways; the last one stays a mutex.
const LOCKS: [&str; 6] = ["lock", "lock", "typed", "named", "box.lock", "seen"];

/// Where a statement is: what may be written there.
#[derive(Clone, Copy)]
struct Place {
    held: bool,
    in_loop: bool,
    in_switch: bool,
    levels: usize,
}

impl Generator {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:width$}{text}", "", width = 4 * self.depth);
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
        let kind = self.random.u8(..if place.levels == 0 { 5 } else { 20 });
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
            9 if place.in_loop || place.in_switch => self.leave(place, "break;"),
            10 if place.in_loop => self.leave(place, "continue;"),
            11 if place.levels > 0 => self.leave(place, "return a ^ b;"),
            12 => self.section(inner),
            13 if !place.held => self.leave(place, "goto done;"),
            _ => self.line(&format!("shared = (shared * 31 + {value}) & 0xffffff;")),
        }
    }

    /// Goes elsewhere, sometimes, with what must be released released.
    fn leave(&mut self, place: Place, how: &str) {
        let value = self.value();
        self.line(&format!("if (({value} & 7) == 3) {{"));
        // In a loop of the section's own, break and continue may keep the lock.
        let keeps = place.held && !how.starts_with("return") && place.in_loop && self.random.bool();
        if place.held && !keeps && !how.starts_with("return") {
            self.line("    shared++;");
            self.line("}");
            return;
        }
        if place.held && !keeps {
            if self.random.u8(..12) == 0 {
                self.line(&format!("    GIVE_RETURN(&{});", self.lock));
            } else {
                self.line(&format!("    pthread_mutex_unlock(&{});", self.lock));
            }
            if self.random.bool() {
                self.line("    a += 3;");
            }
        }
        self.line(&format!("    {how}"));
        self.line("}");
    }

    fn count(&mut self, what: &'static str) {
        *self.rare.entry(what).or_default() += 1;
    }

    /// A section, in a block of its own, with something that tells apart before and behind it.
    fn rare_section(&mut self, place: Place) {
        let inside = Place { held: true, in_loop: false, in_switch: false, levels: place.levels.min(1) };
        let (lock, value) = (LOCKS[self.random.usize(..5)], self.value());
        self.lock = lock;
        let shapes = &RARE[2..];
        // By turns, so that none is missing.
        let what =
            shapes[shapes.iter().filter_map(|shape| self.rare.get(shape)).sum::<usize>() % shapes.len()];
        self.count(what);
        self.line("{");
        self.depth += 1;
        if what.ends_with("is kept") {
            self.line("const long *kept;");
        }
        self.line(&format!("pthread_mutex_lock(&{lock});"));
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
                self.line(&format!("pthread_mutex_unlock(&{lock});"));
                self.line("shared ^= 9;");
                self.line(&format!("pthread_mutex_lock(&{lock});"));
                self.line(&format!("shared += {value} & 3;"));
                self.line("pthread_mutex_unlock(&over);");
            }
        }
        self.line(&format!("pthread_mutex_unlock(&{lock});"));
        self.line(after);
        self.depth -= 1;
        self.line("}");
    }

    fn section(&mut self, place: Place) {
        if place.held {
            self.line("shared ^= 5;");
            return;
        }
        if self.random.u8(..8) == 0 {
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
        self.line(&format!("{take}(&{lock});"));
        self.depth -= 1;
        self.block(Place { held: true, in_loop: false, in_switch: false, levels: place.levels }, 5);
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

    fn function(&mut self, number: usize) {
        let attribute = if self.random.bool() { "__attribute__((noinline)) " } else { "" };
        self.line(&format!("static {attribute}long f{number}(long a, long b)"));
        self.line("{");
        self.line("    long c = a + b, many[3] = { a, b, 7 };");
        self.line("    struct pair pair = { a, b }, *pointer = &pair;");
        self.depth = 1;
        for _ in 0..self.random.usize(2..5) {
            if self.random.bool() {
                self.section(Place { held: false, in_loop: false, in_switch: false, levels: 3 });
            } else {
                self.statement(Place { held: false, in_loop: false, in_switch: false, levels: 3 });
            }
        }
        self.depth = 0;
        self.line("    goto done;");
        self.line("done:");
        self.line("    return a + 3 * b + 5 * c + many[0] + many[2] + pair.x + pointer->y;");
        self.line("}");
        self.line("");
    }
}

const HEAD: &str = "\
#include <errno.h>
#include <pthread.h>
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
static long shared, hidden = 77;

";

/// A program, and how many of each of [`RARE`] are in it.
fn generated(seed: u64, functions: usize) -> (String, BTreeMap<&'static str, usize>) {
    let mut generator = Generator {
        random: fastrand::Rng::with_seed(seed),
        text: HEAD.to_owned(),
        depth: 0,
        names: 0,
        labels: 0,
        lock: LOCKS[0],
        rare: BTreeMap::new(),
    };
    for number in 0..functions {
        generator.function(number);
    }
    generator.line("int main(void)");
    generator.line("{");
    for number in 0..functions {
        generator.line("    for (long by = 0; by < 6; by++)");
        generator
            .line(&format!("        printf(\"%d %ld %ld\\n\", {number}, f{number}(by, by * 7), shared);"));
    }
    generator.line("    return shown == 0;");
    generator.line("}");
    (generator.text, generator.rare)
}

#[test]
fn generated_functions_do_what_they_did() {
    let deeper: usize =
        std::env::var("LOCKWORK_DEEPER").ok().and_then(|times| times.parse().ok()).unwrap_or(1).max(1);
    for round in 0..deeper {
        let seed = 7 + round as u64;
        let (text, rare) = generated(seed, FUNCTIONS);
        for what in RARE {
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
        eprintln!("{rare:?}");
        eprintln!("seed {seed}: {converted} of {} sections converted", project.findings.len());
    }
}
