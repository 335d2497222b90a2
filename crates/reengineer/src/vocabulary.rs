//! Which calls take, release and wait for locks: POSIX's, and a program's own wrappers.

use std::ops::Range;
use std::path::Path;

use crate::error::Error;
use crate::tree::{Function, Kind, Macro, Node, Unary, Variable, is_assignment, value_of};

/// What a call does to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Takes it.
    Lock,
    /// Releases it.
    Unlock,
    /// Takes it if it is free, or within a time.
    Try,
    /// Waits for a condition, and gives the lock up meanwhile.
    Wait,
}

/// A function that does something to a lock.
#[derive(Clone, Debug)]
struct Word {
    name: String,
    action: Action,
    /// Which of its arguments names the lock, from 0.
    argument: usize,
}

/// A macro that does something to a lock which is no mutex of POSIX's. `$1` is its first argument.
#[derive(Clone, Debug)]
struct Pattern {
    name: String,
    action: Action,
    /// The lock.
    lock: String,
    /// What runs a section of it, if sections can be closures.
    by: Option<String>,
}

/// The use of a macro that does something to a lock.
#[derive(Debug)]
pub(crate) struct Expansion {
    /// The macro.
    pub what: Macro,
    /// The lock.
    pub lock: String,
    /// The text of the use.
    pub range: Range<usize>,
}

/// All the functions and macros that do something to locks.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    words: Vec<Word>,
    patterns: Vec<Pattern>,
    /// The program's functions that do not return.
    without_return: Vec<String>,
    /// How many of them are POSIX's and Lockwork's; the rest are the program's wrappers.
    own: usize,
}

impl Default for Vocabulary {
    /// POSIX's.
    fn default() -> Self {
        let words = [
            ("pthread_mutex_lock", Action::Lock, 0),
            ("pthread_mutex_unlock", Action::Unlock, 0),
            ("pthread_mutex_trylock", Action::Try, 0),
            ("pthread_mutex_timedlock", Action::Try, 0),
            ("pthread_mutex_clocklock", Action::Try, 0),
            ("pthread_cond_wait", Action::Wait, 1),
            ("pthread_cond_timedwait", Action::Wait, 1),
            ("pthread_cond_clockwait", Action::Wait, 1),
            // What sections of delegates are before they become closures.
            ("lockwork_delegate_acquire_or_abort", Action::Lock, 0),
            ("lockwork_delegate_try_acquire_or_abort", Action::Try, 0),
            ("lockwork_delegate_acquire", Action::Lock, 0),
            ("lockwork_delegate_release", Action::Unlock, 0),
            ("lockwork_delegate_try_acquire", Action::Try, 0),
            ("lockwork_delegate_cond_wait_held", Action::Wait, 1),
            ("lockwork_delegate_cond_timedwait_held", Action::Wait, 1),
            ("lockwork_any_lock", Action::Lock, 0),
            ("lockwork_any_unlock", Action::Unlock, 0),
            ("lockwork_any_trylock", Action::Try, 0),
            ("lockwork_any_wait", Action::Wait, 1),
            ("lockwork_any_timedwait", Action::Wait, 1),
        ];
        let own = words.len();
        let word = |(name, action, argument): (&str, _, _)| Word { name: name.to_owned(), action, argument };
        let words = words.into_iter().map(word).collect();
        Self { words, patterns: Vec::new(), without_return: Vec::new(), own }
    }
}

impl Vocabulary {
    /// Adds the wrappers that a file names: lines `lock NAME ARGUMENT` and `unlock NAME ARGUMENT`, the argument from 0, of functions
    /// and macros to which a mutex of POSIX's goes; `lock NAME EXPRESSION by CALL(…)` and `unlock NAME EXPRESSION`, with `$1` for the
    /// first argument, of macros that have other locks, whose sections the call is to run: it gets the closure and its argument behind
    /// its own arguments. `noreturn NAME` is of a function that does not return, where no declaration says so.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a line is something else.
    pub fn add_from(&mut self, path: &Path) -> Result<(), Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let fields: Vec<_> = line.split_whitespace().collect();
            let wrong = |reason| Error::Macros { path: path.to_owned(), line: number + 1, reason };
            let (action, name, argument) = match fields.as_slice() {
                [] => continue,
                ["noreturn", name] => {
                    self.without_return.push((*name).to_owned());
                    continue;
                }
                [word @ ("lock" | "unlock"), name, rest @ ..]
                    if rest.iter().any(|part| part.contains('$')) =>
                {
                    let (lock, by) = match rest.join(" ").split_once(" by ") {
                        Some((lock, by)) => (lock.to_owned(), Some(by.trim().to_owned())),
                        None => (rest.join(" "), None),
                    };
                    let action = if *word == "lock" { Action::Lock } else { Action::Unlock };
                    if by.as_ref().is_some_and(|by| !by.ends_with(')') || action == Action::Unlock) {
                        return Err(wrong("a lock's sections are run `by` a call"));
                    }
                    self.patterns.push(Pattern { name: (*name).to_owned(), action, lock, by });
                    continue;
                }
                ["lock", name, argument] => (Action::Lock, name, argument),
                ["unlock", name, argument] => (Action::Unlock, name, argument),
                _ => return Err(wrong("not understood")),
            };
            let argument = argument.parse().map_err(|_| wrong("the argument is no number"))?;
            self.words.push(Word { name: (*name).to_owned(), action, argument });
        }
        Ok(())
    }

    /// Whether a function of this name does something to a lock.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.words.iter().any(|word| word.name == name)
    }

    /// Whether the program's file of words says of a function that it does not return.
    pub(crate) fn never_returns(&self, name: &str) -> bool {
        self.without_return.iter().any(|other| other == name)
    }

    /// What one of the program's own functions does to a lock, and by which argument.
    pub(crate) fn wrapper(&self, name: &str) -> Option<(Action, usize)> {
        let word = self.words.iter().skip(self.own).find(|word| word.name == name)?;
        Some((word.action, word.argument))
    }

    /// Whether a function does nothing but call one of these, and look at the result of that.
    pub(crate) fn only_calls(&self, function: &Function) -> bool {
        let declared: Vec<&Variable> = function
            .body
            .walk()
            .filter_map(|node| match &node.kind {
                Kind::Declaration(variable) => Some(variable),
                _ => None,
            })
            .collect();
        let is_own =
            |node: &Node| matches!(&node.bare().kind, Kind::Local(variable) if declared.contains(&variable));
        // What reports that a call has failed never runs.
        let is_report = |node: &Node| match (&node.kind, node.children.as_slice()) {
            (Kind::If, [tested, branches @ ..]) => {
                let asks = tested.walk().any(|inner| is_own(inner) || self.of(inner).is_some());
                asks && branches.len() == 1 && !branches[0].walk().any(|inner| self.of(inner).is_some())
            }
            _ => false,
        };
        let mut calls = 0;
        let mut stack = vec![&function.body];
        while let Some(node) = stack.pop() {
            let is_harmless = match (&node.kind, node.children.as_slice()) {
                _ if self.of(node).is_some() => {
                    calls += 1;
                    self.of(node).is_some_and(|(_, lock)| lock.expression().is_some())
                }
                (Kind::Binary(sign), [to, _]) if is_assignment(sign) => sign == "=" && is_own(to),
                (Kind::Call(_), _) => node.never_returns,
                (Kind::Unary(Unary::Step) | Kind::Assembly, _) => false,
                _ => true,
            };
            if !is_harmless {
                return false;
            }
            match node.children.as_slice() {
                [tested, ..] if is_report(node) => stack.push(tested),
                _ if self.of(node).is_some() => {}
                children => stack.extend(children),
            }
        }
        calls == 1
    }

    /// What an expression does to a lock if it is a call of one of these functions, and the lock.
    #[must_use]
    pub(crate) fn of<'a>(&self, node: &'a Node) -> Option<(Action, &'a Node)> {
        if let (Kind::Macro(what), Some(lock)) = (&node.kind, node.children.first()) {
            return Some((what.action, lock));
        }
        let Kind::Call(name) = &node.kind else { return None };
        let word = self.words.iter().find(|word| word.name == *name)?;
        Some((word.action, node.children.get(word.argument + 1)?))
    }
}

/// The calls that succeed wherever a section of theirs may become a closure.
const SUCCEED: [&str; 6] = [
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "lockwork_delegate_acquire_or_abort",
    "lockwork_delegate_release",
    "lockwork_any_lock",
    "lockwork_any_unlock",
];

impl Vocabulary {
    /// The lock call of a macro's `do { int error; if ((error = CALL) != 0) report(…); } while (0)`, with a variable or without. The
    /// call does not fail, so that the macro is the call alone. Whatever else a macro does with the result is no such macro.
    pub(crate) fn checked<'a>(&self, node: &'a Node) -> Option<&'a Node> {
        let (true, Kind::Do, [body, condition]) = (node.from_macro, &node.kind, node.children.as_slice())
        else {
            return None;
        };
        let [declared @ .., test] = body.children.as_slice() else { return None };
        let (Kind::Compound, true, Kind::If, [tested, branch]) =
            (&body.kind, is_zero(condition), &test.kind, test.children.as_slice())
        else {
            return None;
        };
        // The branch never runs, unless it is jumped into.
        let is_entered = branch.walk().any(|inner| matches!(inner.kind, Kind::Label(_) | Kind::Case { .. }));
        if is_entered || branch.walk().any(|inner| self.of(inner).is_some()) {
            return None;
        }
        let result = match (&tested.bare().kind, tested.bare().children.as_slice()) {
            (Kind::Binary(operator), [result, zero]) if operator == "!=" && is_zero(zero) => result.bare(),
            _ => tested.bare(),
        };
        let declares = |of: &Node| match &of.bare().kind {
            Kind::Local(variable) => declared.iter().any(|it| match it.children.as_slice() {
                [only] => only.kind == Kind::Declaration(variable.clone()),
                _ => false,
            }),
            _ => false,
        };
        let call = match (&result.kind, result.children.as_slice()) {
            (Kind::Binary(operator), [to, call]) if operator == "=" && declares(to) => call.bare(),
            _ => result,
        };
        // Declarations have no values, which might be calls.
        let is_plain =
            |it: &Node| it.kind == Kind::Declarations && it.children.iter().all(|of| of.children.is_empty());
        let succeeds = matches!(&call.kind, Kind::Call(name) if SUCCEED.contains(&name.as_str()));
        (succeeds && declared.iter().all(is_plain)).then_some(call)
    }

    /// The use of one of the program's macros at a place in a text.
    pub(crate) fn expansion(&self, text: &str, at: usize) -> Option<Expansion> {
        let rest = text.get(at..)?;
        let pattern = self.patterns.iter().find(|pattern| {
            rest.strip_prefix(pattern.name.as_str()).is_some_and(|rest| rest.trim_start().starts_with('('))
        })?;
        let open = at + rest.find('(')?;
        let (arguments, end) = arguments(text, open)?;
        let filled = |template: &str| {
            let mut filled = template.to_owned();
            for (number, argument) in arguments.iter().enumerate().rev() {
                filled = filled.replace(&format!("${}", number + 1), argument);
            }
            filled
        };
        let what = Macro {
            name: pattern.name.clone(),
            action: pattern.action,
            by: pattern.by.as_deref().map(filled),
        };
        Some(Expansion { what, lock: filled(&pattern.lock), range: at..end })
    }
}

fn is_zero(node: &Node) -> bool {
    matches!(&node.bare().kind, Kind::Literal(text) if value_of(text) == "0")
}

/// The arguments of a macro whose parenthesis opens at a place, each with single blanks, and where it ends.
fn arguments(text: &str, open: usize) -> Option<(Vec<String>, usize)> {
    let (mut depth, mut quote, mut start) = (0_usize, None, open + 1);
    let mut found = Vec::new();
    let mut bytes = text.bytes().enumerate().skip(open);
    while let Some((at, byte)) = bytes.next() {
        match (quote, byte) {
            (Some(_), b'\\') => drop(bytes.next()),
            (Some(end), _) if byte == end => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 || depth == 1 && byte == b',' && quote.is_none() {
            found.push(text[start..at].split_whitespace().collect::<Vec<_>>().join(" "));
            start = at + 1;
        }
        if depth == 0 {
            return Some((found, at + 1));
        }
    }
    None
}

/// Whether a function of this name waits for a condition, however long.
pub(crate) fn waits_without_end(name: &str) -> bool {
    matches!(name, "pthread_cond_wait" | "lockwork_delegate_cond_wait_held" | "lockwork_any_wait")
}

/// Whether a function of the system of this name does not return.
pub(crate) fn ends_the_thread(name: &str) -> bool {
    matches!(
        name,
        "exit"
            | "_exit"
            | "_Exit"
            | "quick_exit"
            | "abort"
            | "__assert_fail"
            | "__builtin_unreachable"
            | "__builtin_trap"
            | "longjmp"
            | "siglongjmp"
            | "pthread_exit"
            | "err"
            | "errx"
            | "verr"
            | "verrx"
    )
}

/// Whether a function of this name means the frame, the thread or the process that calls it.
pub(crate) fn is_bound_to_its_caller(name: &str) -> bool {
    matches!(
        name,
        "alloca"
            | "__builtin_alloca"
            | "setjmp"
            | "_setjmp"
            | "sigsetjmp"
            | "__sigsetjmp"
            | "longjmp"
            | "siglongjmp"
            | "pthread_exit"
            | "fork"
            | "vfork"
            | "__builtin_va_start"
            | "__builtin_va_end"
            | "__builtin_va_copy"
            | "__builtin_frame_address"
            | "__builtin_return_address"
    )
}

/// Whether a function of this name goes on in another frame than its caller's, or ends the thread.
pub(crate) fn leaves_its_caller(name: &str) -> bool {
    matches!(
        name,
        "longjmp"
            | "_longjmp"
            | "siglongjmp"
            | "__builtin_longjmp"
            | "pthread_exit"
            | "setcontext"
            | "swapcontext"
    )
}

/// Whether a function of this name answers for the thread that calls it, or sets what belongs to that thread.
pub(crate) fn means_the_thread(name: &str) -> bool {
    matches!(
        name,
        "pthread_self"
            | "gettid"
            | "thrd_current"
            | "pthread_getspecific"
            | "pthread_setspecific"
            | "tss_get"
            | "tss_set"
            | "pthread_sigmask"
            | "pthread_setcancelstate"
            | "pthread_setcanceltype"
            | "pthread_testcancel"
            | "sched_getcpu"
            | "sched_setaffinity"
            | "sched_getaffinity"
            | "sched_setscheduler"
            | "sched_setparam"
            | "setpriority"
            | "getpriority"
            | "nice"
            | "prctl"
            | "unshare"
            | "setns"
            | "sigprocmask"
            | "sigaltstack"
            | "uselocale"
            | "dlerror"
            | "syscall"
            | "omp_get_thread_num"
    )
}

/// Whether a function that is passed to one of this name is called in another thread, or later.
pub(crate) fn runs_elsewhere(name: &str) -> bool {
    matches!(
        name,
        "pthread_create"
            | "thrd_create"
            | "atexit"
            | "on_exit"
            | "at_quick_exit"
            | "signal"
            | "event_set"
            | "event_new"
    ) || name.starts_with("pthread_key_")
}

/// Whether a thread may be cancelled in a function of this name.
pub(crate) fn may_be_cancelled(name: &str) -> bool {
    matches!(
        name,
        "accept"
            | "accept4"
            | "aio_suspend"
            | "clock_nanosleep"
            | "close"
            | "connect"
            | "creat"
            | "epoll_wait"
            | "epoll_pwait"
            | "fclose"
            | "fdatasync"
            | "fflush"
            | "fgetc"
            | "fgets"
            | "fopen"
            | "fprintf"
            | "fputc"
            | "fputs"
            | "fread"
            | "fsync"
            | "fwrite"
            | "getchar"
            | "getline"
            | "lockf"
            | "mq_receive"
            | "mq_send"
            | "msgrcv"
            | "msgsnd"
            | "msync"
            | "nanosleep"
            | "open"
            | "open64"
            | "openat"
            | "pause"
            | "perror"
            | "poll"
            | "ppoll"
            | "pread"
            | "pread64"
            | "printf"
            | "pselect"
            | "pthread_join"
            | "putchar"
            | "puts"
            | "pwrite"
            | "pwrite64"
            | "read"
            | "readv"
            | "recv"
            | "recvfrom"
            | "recvmsg"
            | "select"
            | "sem_timedwait"
            | "sem_wait"
            | "send"
            | "sendmsg"
            | "sendto"
            | "sigsuspend"
            | "sigtimedwait"
            | "sigwait"
            | "sigwaitinfo"
            | "sleep"
            | "syslog"
            | "system"
            | "tcdrain"
            | "usleep"
            | "vfprintf"
            | "vprintf"
            | "wait"
            | "wait4"
            | "waitpid"
            | "write"
            | "writev"
    )
}

/// Whether a function of this name returns what the thread has of its own, which others of its calls change.
pub(crate) fn gives_the_threads_own(name: &str) -> bool {
    name == "inet_ntoa"
}

/// Whether a function of this name neither reads nor sets `errno`.
pub(crate) fn leaves_errno(name: &str) -> bool {
    let of_strings = [
        "memcpy",
        "memmove",
        "memset",
        "memcmp",
        "memchr",
        "strlen",
        "strnlen",
        "strcmp",
        "strncmp",
        "strcasecmp",
        "strncasecmp",
        "strcpy",
        "strncpy",
        "stpcpy",
        "strcat",
        "strncat",
        "strchr",
        "strrchr",
        "strstr",
        "strspn",
        "strcspn",
        "strpbrk",
        "abs",
        "labs",
        "htonl",
        "htons",
        "ntohl",
        "ntohs",
        "atomic_thread_fence",
        "__builtin_expect",
        "__builtin_unreachable",
        "__builtin_trap",
        "__assert_fail",
        "__ctype_b_loc",
    ];
    let word = name.strip_prefix("__builtin_").unwrap_or(name);
    // They return what is wrong. A closure inside carries what its own calls set.
    let returns_it =
        ["pthread_mutex_", "pthread_cond_", "lockwork_delegate_", "__sync_", "__atomic_", "__c11_atomic_"];
    of_strings.contains(&name)
        || of_strings.contains(&word)
        || returns_it.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_have_arguments_of_all_sorts() {
        let text = "X(a, f(b, c)[1],\n  \",)\", '\\'') + 1";
        let (found, end) = arguments(text, 1).expect("arguments");
        assert_eq!(found, ["a", "f(b, c)[1]", "\",)\"", "'\\''"]);
        assert_eq!(&text[end..], " + 1");
        assert_eq!(arguments("X(a", 1), None);
    }
}
