//! Each rule by which sections are refused is needed: with one switched off, something notices.

mod program;

use lockwork_reengineer::{Choice, Refusal, Rule, Vocabulary};
use program::Program;

const FAULTS: &str = include_str!("programs/faults.c");

/// What comes of the program without a rule: its verdicts, and its converted text.
fn outcome(without: Option<Rule>, may_hold: bool) -> Option<(Vec<String>, Option<String>)> {
    let program = Program::new(FAULTS);
    let project = program.project(Choice { may_hold, without, ..Choice::default() })?;
    let verdicts = project
        .findings
        .iter()
        .map(|found| {
            let refusal = found.refusal().map(ToString::to_string);
            format!("{}:{}: {refusal:?}", found.section.function, found.line)
        })
        .collect();
    let changes = project.converted(&mut |_, _, _| {}).ok();
    Some((
        verdicts,
        changes.and_then(|changes| {
            changes.first().map(|change| String::from_utf8_lossy(&change.after).into_owned())
        }),
    ))
}

#[test]
fn a_rule_that_is_switched_off_is_missed() {
    let Some((verdicts, text)) = outcome(None, true) else { return };
    let program = Program::new(FAULTS);
    let before = program.run();
    assert!(before.status.success(), "{before:?}");
    std::fs::write(program.file(), text.expect("converted")).expect("written");
    let after = program.run();
    assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before.stdout));
    let mut unnoticed = Vec::new();
    // These are noticed by programs of their own.
    let apart = [
        Rule::Holds,
        Rule::Errors,
        Rule::Wrappers,
        Rule::Cancels,
        Rule::CalleeLeaves,
        Rule::Commands,
        Rule::CalleeKeeps,
        Rule::Owned,
        Rule::MacrosInside,
        Rule::Legible,
    ];
    for rule in Rule::ALL.iter().filter(|rule| !apart.contains(rule) && !OF_CHAINS.contains(rule)) {
        let (others, text) = outcome(Some(*rule), true).expect("there is libclang");
        let verdict_differs = others != verdicts;
        let differs = |text| {
            std::fs::write(program.file(), text).expect("written");
            program.try_run().is_none_or(|run| run.stdout != before.stdout || !run.status.success())
        };
        // A verdict that is another is noticed by the fixtures of verdicts.
        if !verdict_differs && !text.is_none_or(differs) {
            unnoticed.push(rule);
        }
    }
    // This one applies only where nothing may be held.
    if outcome(None, false) == outcome(Some(Rule::Holds), false) {
        unnoticed.push(&Rule::Holds);
    }
    assert!(unnoticed.is_empty(), "nothing notices that these are switched off: {unnoticed:?}");
}

/// A file that does not see what structures have converts a pointer to one into a pointer to another.
#[test]
fn structures_that_become_others_where_nothing_of_them_is_seen_are_missed() {
    const HEAD: &str = "struct seen;\nstruct real;\nstruct seen *seen_of(struct real *real);\n";
    const OTHER: &str = "struct seen *seen_of(struct real *real)\n{\n    return (struct seen *)real;\n}\n";
    let (head, _) = CHAINS.split_once("/* case ").expect("cases");
    let text = format!(
        "#include \"other.h\"\n{head}int main(void)\n{{\n    add(seen_of(&real));\n    printf(\"%d\\n\", TIMED(&real));\n\
         \x20   return real.count != 10;\n}}\n"
    );
    let program = Program::new(&text);
    let write = |name: &str, text: &str| std::fs::write(program.path().join(name), text).expect("written");
    write("other.h", HEAD);
    write("other.c", &format!("#include \"other.h\"\n{OTHER}"));
    let command = |file| {
        let arguments = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-c", file];
        serde_json::json!({ "directory": program.path(), "file": file, "arguments": arguments })
    };
    let database = serde_json::json!([command("program.c"), command("other.c")]);
    write("compile_commands.json", &database.to_string());
    let kept = |without| {
        let project = program.project(Choice { without, ..Choice::default() })?;
        Some(project.mutexes().into_iter().map(|mutex| mutex.kept.is_some()).collect::<Vec<_>>())
    };
    let Some(all) = kept(None) else { return };
    assert!(all.iter().all(|is_kept| *is_kept), "{all:?}");
    assert_eq!(kept(Some(Rule::Veiled)).map(|all| all.contains(&false)), Some(true), "nothing else keeps it");
}

const CHAINS: &str = include_str!("programs/chains.c");

/// The rules by which it is known that structures become others in a roundabout way.
const OF_CHAINS: [Rule; 4] = [Rule::Between, Rule::Holders, Rule::Arguments, Rule::Values];

/// The cases of such ways: the name of each, its rule, and its program.
fn chains() -> Vec<(&'static str, &'static str, String)> {
    let mut parts = CHAINS.split("/* case ");
    let head = parts.next().unwrap_or_default();
    let case = |part: &'static str| {
        let (name, rest) = part.split_once(", ").expect("a name");
        let (rule, rest) = rest.split_once(": ").expect("a rule");
        let main = format!("int main(void)\n{{\n    printf(\"%ld\\n\", {name}());\n    return 0;\n}}\n");
        (name, rule, format!("{head}/* {rest}{main}"))
    };
    parts.map(case).collect()
}

/// A mutex that is reached by structures of two types stays what it is by both of them.
#[test]
fn structures_that_become_others_in_a_roundabout_way_are_missed() {
    for (name, rule, text) in chains() {
        let program = Program::new(&text);
        let Some(project) = program.project(Choice::default()) else { return };
        let mut all = project.mutexes().into_iter();
        let stays = |kept: Option<String>| {
            kept.is_some_and(|why| why.starts_with("delegates have no pthread_mutex_timedlock (program.c:"))
        };
        assert!(all.len() > 0 && all.all(|mutex| stays(mutex.kept)), "{name}: {:?}", project.mutexes());
        assert!(project.converted(&mut |_, _, _| {}).expect("converted").is_empty(), "{name}");
        let before = program.run();
        assert!(before.status.success(), "{name}: {before:?}");
        // Without the rule, something else comes out.
        let without = Rule::ALL.iter().copied().find(|other| format!("{other:?}") == rule);
        let without = Some(without.expect("there is such a rule"));
        let project = program.project(Choice { without, ..Choice::default() }).expect("there is libclang");
        program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
        let is_same =
            program.try_run().is_some_and(|run| run.stdout == before.stdout && run.status.success());
        assert!(!is_same, "{name}: nothing notices that {rule} is switched off");
    }
    for rule in OF_CHAINS {
        let name = format!("{rule:?}");
        assert!(chains().iter().any(|(_, of, _)| *of == name), "no case needs {name}");
    }
}

/// A section that is refused for what it calls takes those of its function and lock with it: conversion tells them apart by no more.
#[test]
fn what_is_refused_for_a_callee_is_not_converted() {
    let program = Program::new(FAULTS);
    let Some(project) = program.project(Choice { may_hold: true, ..Choice::default() }) else { return };
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    let text = String::from_utf8_lossy(&changes.first().expect("a file").after);
    assert!(text.contains("lockwork_survives_1_run"), "closures have other names");
    for function in ["callee_asks", "callee_asks_beside", "callee_releases"] {
        let mut of_function = project.findings.iter().filter(|found| found.section.function == function);
        assert!(of_function.all(|found| found.refusal().is_some()), "{function}");
        assert!(!text.contains(&format!("lockwork_{function}_")), "{function}");
    }
}

/// A file that the compiler finds an error in may say anything where it is.
#[test]
fn what_has_errors_is_not_converted() {
    const PROGRAM: &str = "#include <pthread.h>\n#include \"made_later.h\"\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\nstatic int counter;\n\
        int next(int by)\n{\n    pthread_mutex_lock(&lock);\n    RETURN_IF(by < 0);\n    counter += by;\n\
        \x20   pthread_mutex_unlock(&lock);\n    return counter;\n}\n";
    let verdict = |without| {
        let program = Program::new(PROGRAM);
        let choice = Choice { without, ..Choice::default() };
        let project = program.project_with_errors(choice)?;
        assert!(!project.errors.is_empty(), "the header is not there");
        Some(
            project.findings.iter().map(|found| found.refusal().map(ToString::to_string)).collect::<Vec<_>>(),
        )
    };
    let Some(verdicts) = verdict(None) else { return };
    let reason = verdicts[0].as_deref().expect("it is refused");
    assert!(reason.starts_with("the compiler finds an error"), "{reason}");
    assert_eq!(verdict(Some(Rule::Errors)), Some(vec![None]), "nothing else refuses it");
}

/// A thread that is cancelled while it waits for a delegate's condition would wait for ever.
#[test]
fn waits_of_programs_that_cancel_threads_are_not_converted() {
    const PROGRAM: &str = "#include <pthread.h>\nstatic pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
        static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;\nstatic int is_filled;\n\
        void *await(void *unused)\n{\n    pthread_mutex_lock(&lock);\n    while (!is_filled)\n\
        \x20       pthread_cond_wait(&filled, &lock);\n    pthread_mutex_unlock(&lock);\n    return unused;\n}\n\
        int end(pthread_t thread)\n{\n    return pthread_cancel(thread);\n}\n";
    let verdict = |without, text: &str| {
        let project = Program::new(text).project(Choice { without, ..Choice::default() })?;
        Some(project.findings.iter().map(|found| found.refusal().cloned()).collect::<Vec<_>>())
    };
    let Some(verdicts) = verdict(None, PROGRAM) else { return };
    assert_eq!(verdicts, [Some(Refusal::Cancels)]);
    assert_eq!(verdict(Some(Rule::Cancels), PROGRAM), Some(vec![None]), "nothing else refuses it");
    let without = PROGRAM.replace("pthread_cancel", "pthread_detach");
    assert_eq!(verdict(None, &without), Some(vec![None]), "nothing is cancelled");
}

/// A function that jumps out of the section would jump out of what runs the closure.
#[test]
fn sections_that_a_callee_may_leave_are_not_converted() {
    const PROGRAM: &str = "#include <pthread.h>\n#include <setjmp.h>\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\nstatic int counter;\nstatic jmp_buf start;\n\
        static void fail(void)\n{\n    longjmp(start, 1);\n}\n\
        static int checked(int by)\n{\n    if (by < 0)\n        fail();\n    return by;\n}\n\
        int next(int by)\n{\n    pthread_mutex_lock(&lock);\n    counter += checked(by);\n\
        \x20   pthread_mutex_unlock(&lock);\n    return counter;\n}\n";
    let verdict = |without, text: &str| {
        let project = Program::new(text).project(Choice { without, ..Choice::default() })?;
        Some(project.findings.iter().map(|found| found.refusal().cloned()).collect::<Vec<_>>())
    };
    let Some(verdicts) = verdict(None, PROGRAM) else { return };
    let said = Refusal::CalleeLeaves { callee: "checked".to_owned(), by: "longjmp".to_owned() };
    assert_eq!(verdicts, [Some(said)]);
    assert_eq!(verdict(Some(Rule::CalleeLeaves), PROGRAM), Some(vec![None]), "nothing else refuses it");
    let without = PROGRAM.replace("longjmp(start, 1)", "counter = 0");
    assert_eq!(verdict(None, &without), Some(vec![None]), "nothing leaves");
}

/// A mutex that belongs to a thread: a section that is run in another one waits for its own requester, which waits for the section.
#[test]
fn sections_that_take_mutexes_of_their_thread_are_not_converted() {
    const PROGRAM: &str = "#define _GNU_SOURCE\n#include <pthread.h>\n\
        static pthread_mutex_t stats = PTHREAD_MUTEX_INITIALIZER;\n\
        static pthread_mutex_t tree = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;\nstatic pthread_mutex_t checked;\nstatic long nodes, total;\n\
        static long size(void)\n{\n    pthread_mutex_lock(&tree);\n    long n = nodes;\n    pthread_mutex_unlock(&tree);\n    return n;\n}\n\
        static long twice(void)\n{\n    return 2 * size();\n}\n\
        void report(void)\n{\n    pthread_mutex_lock(&tree);\n    pthread_mutex_lock(&stats);\n    total += twice();\n\
        \x20   pthread_mutex_unlock(&stats);\n    pthread_mutex_unlock(&tree);\n}\n\
        void itself(void)\n{\n    pthread_mutex_lock(&stats);\n    pthread_mutex_lock(&checked);\n    total += nodes;\n\
        \x20   pthread_mutex_unlock(&checked);\n    pthread_mutex_unlock(&stats);\n}\n\
        void begin(pthread_mutexattr_t *kind)\n{\n    pthread_mutexattr_settype(kind, PTHREAD_MUTEX_ERRORCHECK);\n\
        \x20   pthread_mutex_init(&checked, kind);\n}\n";
    let verdict = |choice: Choice, text: &str| {
        let project = Program::new(text).project(choice)?;
        let of_stats = project.findings.into_iter().filter(|found| found.section.lock == "(&stats)");
        Some(of_stats.map(|it| (it.refusal().cloned(), it.section.warnings)).collect::<Vec<_>>())
    };
    let Some(verdicts) = verdict(Choice::default(), PROGRAM) else { return };
    let owned = |callee: Option<&str>, line: u32| {
        let place = format!("program.c:{line}");
        (Some(Refusal::Owned { callee: callee.map(str::to_owned), place }), Vec::new())
    };
    assert_eq!(verdicts, [owned(Some("twice"), 4), owned(None, 37)]);
    let without = Choice { without: Some(Rule::Owned), ..Choice::default() };
    let unsaid = vec![(None, Vec::new()), (None, Vec::new())];
    assert_eq!(verdict(without, PROGRAM), Some(unsaid.clone()), "nothing else refuses them");
    let said = verdict(Choice { any_thread: true, ..Choice::default() }, PROGRAM).expect("there is libclang");
    let [(None, twice), (None, itself)] = said.as_slice() else { panic!("{said:?}") };
    assert!(twice[0].starts_with("twice takes a mutex that may be recursive"), "{twice:?}");
    assert!(itself[0].starts_with("a mutex that may be recursive or checked (program.c:37)"), "{itself:?}");
    let plain = PROGRAM
        .replace("PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP", "PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP")
        .replace("init(&checked, kind)", "init(&checked, NULL)");
    assert_eq!(verdict(Choice::default(), &plain), Some(unsaid), "others belong to nobody");
}

/// A macro that takes a lock may return from the function, which a closure must not.
#[test]
fn macros_that_take_a_lock_inside_do_not_stay_in_a_closure() {
    const MACROS: &str = include_str!("programs/macros.c");
    let outcome = |without| {
        let program = Program::new(MACROS);
        let words = program.path().join("words");
        let all = "lock TAKE $2 by run($1, $2)\nunlock GIVE $2\n";
        std::fs::write(&words, all).expect("written");
        let mut vocabulary = Vocabulary::default();
        vocabulary.add_from(&words).expect("words");
        let project = program.project_with(vocabulary, Choice { without, ..Choice::default() })?;
        let verdicts: Vec<_> = project
            .findings
            .iter()
            .filter(|it| it.section.function == "changes")
            .map(|found| found.refusal().cloned())
            .collect();
        let before = program.run();
        program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
        Some((verdicts, program.try_run().is_some_and(|after| after.stdout == before.stdout)))
    };
    let Some((verdicts, is_same)) = outcome(None) else { return };
    assert_eq!(verdicts[0], Some(Refusal::KeepsMacro));
    assert!(is_same);
    let (verdicts, is_same) = outcome(Some(Rule::MacrosInside)).expect("there is libclang");
    assert_eq!(verdicts[0], None, "nothing else refuses it");
    assert!(!is_same, "the macro's `return` is the closure's");
}

/// More different bytes that are no UTF-8 than there are characters which could stand for them.
#[test]
fn files_whose_bytes_would_be_lost_are_not_converted() {
    let outcome = |count: u8, without| {
        let program = Program::new("");
        let mut text = b"#include <pthread.h>\n#include <stdio.h>\n\
            static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\nstatic int counter;\n\
            int main(void)\n{\n    pthread_mutex_lock(&lock);\n    counter++;\n    pthread_mutex_unlock(&lock);\n    puts(\""
            .to_vec();
        text.extend(0xa0..0xa0 + count);
        text.extend(b"\");\n    return counter - 1;\n}\n");
        std::fs::write(program.file(), text).expect("written");
        let project = program.project(Choice { without, ..Choice::default() })?;
        let verdicts: Vec<_> = project.findings.iter().map(|found| found.refusal().cloned()).collect();
        let before = program.run();
        program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
        Some((verdicts, program.run().stdout == before.stdout))
    };
    let Some(refused) = outcome(30, None) else { return };
    assert_eq!(refused, (vec![Some(Refusal::Illegible)], true));
    assert_eq!(outcome(30, Some(Rule::Legible)), Some((vec![None], false)), "nothing else refuses it");
    assert_eq!(outcome(20, None), Some((vec![None], true)), "there are characters for so many");
}

/// A callee that takes another lock for longer than it runs takes it for the thread that it runs in.
#[test]
fn sections_whose_callees_keep_a_lock_are_not_converted() {
    const PROGRAM: &str = "#include <pthread.h>\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\nstatic pthread_mutex_t stats = PTHREAD_MUTEX_INITIALIZER;\nstatic long total;\n\
        static void lock_stats(void)\n{\n    pthread_mutex_lock(&stats);\n}\n\
        static void unlock_stats(void)\n{\n    pthread_mutex_unlock(&stats);\n}\n\
        static int try_stats(void)\n{\n    return pthread_mutex_trylock(&stats);\n}\n\
        static void counts(long by)\n{\n    lock_stats();\n    total += by;\n    unlock_stats();\n}\n\
        void keeps(long by)\n{\n    pthread_mutex_lock(&lock);\n    total += by;\n    lock_stats();\n    pthread_mutex_unlock(&lock);\n    unlock_stats();\n}\n\
        void gives(long by)\n{\n    lock_stats();\n    pthread_mutex_lock(&lock);\n    total += by;\n    unlock_stats();\n    pthread_mutex_unlock(&lock);\n}\n\
        void tries(long by)\n{\n    int outcome;\n    pthread_mutex_lock(&lock);\n    outcome = try_stats();\n    total += by;\n    pthread_mutex_unlock(&lock);\n    if (outcome == 0)\n        unlock_stats();\n}\n\
        static void *try_one(long by)\n{\n    static pthread_mutex_t locks[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };\n\
        \x20   pthread_mutex_t *one = &locks[by & 1];\n    return pthread_mutex_trylock(one) == 0 ? one : NULL;\n}\n\
        static void unlock_one(void *one)\n{\n    pthread_mutex_unlock((pthread_mutex_t *)one);\n}\n\
        void hides(long by)\n{\n    pthread_mutex_lock(&lock);\n    void *one = try_one(by);\n    total += by;\n    if (one)\n        unlock_one(one);\n    pthread_mutex_unlock(&lock);\n}\n\
        void nests(long by)\n{\n    pthread_mutex_lock(&lock);\n    counts(by);\n    lock_stats();\n    total++;\n    unlock_stats();\n    pthread_mutex_unlock(&lock);\n}\n";
    let verdict = |without| {
        let project =
            Program::new(PROGRAM).project(Choice { without, may_hold: true, ..Choice::default() })?;
        let of_lock = project.findings.iter().filter(|found| found.section.lock == "(&lock)");
        Some(of_lock.map(|found| found.refusal().cloned()).collect::<Vec<_>>())
    };
    let Some(verdicts) = verdict(None) else { return };
    let keeps = |name: &str| Some(Refusal::CalleeKeeps(name.to_owned()));
    assert_eq!(verdicts, [keeps("lock_stats"), keeps("unlock_stats"), keeps("try_stats"), None, None]);
    assert_eq!(verdict(Some(Rule::CalleeKeeps)), Some(vec![None; 5]), "nothing else refuses them");
}

/// A thread that is cancelled in a section may be another than the one whose section it is.
#[test]
fn sections_that_may_be_cancelled_are_not_converted() {
    const PROGRAM: &str = "#include <pthread.h>\n#include <unistd.h>\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\nstatic int counter;\n\
        static void say(void)\n{\n    (void)!write(1, \"\", 0);\n}\n\
        void naps(void)\n{\n    pthread_mutex_lock(&lock);\n    counter++;\n    usleep(1);\n    pthread_mutex_unlock(&lock);\n}\n\
        void says(void)\n{\n    pthread_mutex_lock(&lock);\n    say();\n    pthread_mutex_unlock(&lock);\n}\n\
        int end(pthread_t thread)\n{\n    return pthread_cancel(thread);\n}\n";
    let verdict = |without, text: &str| {
        let choice = Choice { without, may_hold: true, ..Choice::default() };
        let project = Program::new(text).project(choice)?;
        let section =
            |found: &lockwork_reengineer::Finding| (found.refusal().cloned(), found.section.warnings.clone());
        Some(project.findings.iter().map(section).collect::<Vec<_>>())
    };
    let Some(verdicts) = verdict(None, PROGRAM) else { return };
    let [(naps, _), (None, said)] = verdicts.as_slice() else { panic!("{verdicts:?}") };
    assert_eq!(*naps, Some(Refusal::MayBeCancelled("usleep".to_owned())));
    assert!(said.iter().any(|said| said.starts_with("say may call write")), "{said:?}");
    let unwarned = vec![(None, Vec::new()), (None, Vec::new())];
    assert_eq!(verdict(Some(Rule::Cancels), PROGRAM), Some(unwarned.clone()), "nothing else refuses it");
    assert_eq!(verdict(None, &PROGRAM.replace("pthread_cancel", "pthread_detach")), Some(unwarned));
}

/// A file that two commands compile otherwise: what differs stays, and calls that only the second compiles are calls all the same.
#[test]
fn what_another_command_makes_otherwise_is_not_converted() {
    const PROGRAM: &str = "#include <pthread.h>\n#include <stdio.h>\n\
        #if MODE == 2\n#define ADD(by) (counter += (by) * scale)\n#else\n#define ADD(by) (counter += (by))\n#endif\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
        static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;\nstatic pthread_mutex_t third = PTHREAD_MUTEX_INITIALIZER;\nstatic long counter;\n\
        void both(long by, long scale);\nvoid both(long by, long scale)\n{\n    pthread_mutex_lock(&lock);\n    ADD(by);\n\
        \x20   pthread_mutex_unlock(&lock);\n    (void)scale;\n}\n\
        void alike(void);\nvoid alike(void)\n{\n    pthread_mutex_lock(&own);\n    counter++;\n    pthread_mutex_unlock(&own);\n}\n\
        void taken(void);\nvoid taken(void)\n{\n    pthread_mutex_lock(&third);\n    counter++;\n    pthread_mutex_unlock(&third);\n}\n\
        #if MODE == 2\nvoid takes(void);\nvoid takes(void)\n{\n    if (pthread_mutex_trylock(&third) == 0) {\n        counter += 2;\n\
        \x20       pthread_mutex_unlock(&third);\n    }\n}\n#endif\n\
        int main(void)\n{\n    both(2, 3);\n    alike();\n    taken();\n#if MODE == 2\n    takes();\n#endif\n\
        \x20   printf(\"%ld\\n\", counter);\n    return 0;\n}\n";
    let program = Program::new(PROGRAM);
    let database = |modes: &[&str]| {
        let command = |mode: &&str| {
            let arguments = ["cc", "-std=gnu11", "-D_GNU_SOURCE", mode, "-c", "program.c"];
            serde_json::json!({ "directory": program.path(), "file": "program.c", "arguments": arguments })
        };
        let all: Vec<_> = modes.iter().map(command).collect();
        let text = serde_json::Value::from(all).to_string();
        std::fs::write(program.path().join("compile_commands.json"), text).expect("written");
    };
    database(&["-DMODE=1", "-DMODE=2"]);
    let verdicts = |project: &lockwork_reengineer::Project| -> Vec<Option<Refusal>> {
        project.findings.iter().map(|found| found.refusal().cloned()).collect()
    };
    let Some(project) = program.project(Choice::default()) else { return };
    assert_eq!(project.again.len(), 1);
    let found = verdicts(&project);
    let [Some(Refusal::OtherCommand), None, Some(Refusal::StaysMutex(reason))] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(reason.starts_with("pthread_mutex_trylock at program.c:"), "{reason}");
    let held = program.project(Choice { may_hold: true, ..Choice::default() }).expect("there is libclang");
    let run = |mode: &str| {
        let text = std::fs::read_to_string(program.file()).expect("written");
        Program::new(&format!("#define MODE {mode}\n{text}")).run()
    };
    let before = [run("1"), run("2")];
    for project in [project, held] {
        program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
        for (mode, before) in ["1", "2"].into_iter().zip(&before) {
            let after = run(mode);
            assert_eq!(
                String::from_utf8_lossy(&after.stdout),
                String::from_utf8_lossy(&before.stdout),
                "{mode}"
            );
            assert!(after.status.success());
        }
        std::fs::write(program.file(), PROGRAM).expect("written");
    }
    let without = Choice { without: Some(Rule::Commands), ..Choice::default() };
    let project = program.project(without).expect("there is libclang");
    assert_eq!(verdicts(&project), [None, None, None], "nothing else refuses them");
    database(&["-DMODE=1", "-DMODE=1"]);
    let project = program.project(Choice::default()).expect("there is libclang");
    assert!(project.again.is_empty());
    assert_eq!(verdicts(&project), [None, None, None], "the same twice");
}

/// A lock's name has the suffixes of its numbers, which are the types that the arithmetic is done in.
#[test]
fn names_of_locks_keep_the_types_of_their_numbers() {
    let Some((_, text)) = outcome(None, true) else { return };
    let text = text.expect("converted");
    let call = "lockwork_delegate_run_or_abort((&stripes[((by - 7) % 16u)]), lockwork_suffixes_1_run";
    assert!(text.contains(call), "no {call} in\n{text}");
}

/// What a macro has besides its lock call stays, because the section does.
#[test]
fn sections_whose_macros_do_more_are_refused() {
    let program = Program::new(FAULTS);
    let Some(project) = program.project(Choice { may_hold: true, ..Choice::default() }) else { return };
    for (function, name) in [
        ("checks", "CHECK"),
        ("leaves_by_a_macro", "LEAVE"),
        ("begins_by_a_macro", "BEGIN"),
        ("pauses_by_a_macro", "PAUSE"),
    ] {
        let mut of_function = project.findings.iter().filter(|found| found.section.function == function);
        assert!(of_function.clone().all(|found| found.refusal().is_some()), "{function}");
        let is_it = |found: &lockwork_reengineer::Finding| {
            found.refusal() == Some(&Refusal::MacroDoesMore(name.to_owned()))
        };
        assert!(of_function.any(is_it) || function == "pauses_by_a_macro", "{function}");
    }
}

/// Text of another file has no place in the file: nothing of it is taken for the file's own, and nothing ends in a panic.
#[test]
fn sections_with_text_of_another_file_are_refused() {
    const PROGRAM: &str = "#include <pthread.h>\nstatic pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
        static int counter;\nint add(int by)\n{\n#include \"begin.inc\"\n    counter += by;\n\
        \x20   pthread_mutex_unlock(&lock);\n    return counter;\n}\n\
        int main(void)\n{\n    return add(2) - 2;\n}\n";
    let program = Program::new(PROGRAM);
    let begin = format!("/* \u{e4}{} */\npthread_mutex_lock(&lock);\n", "x".repeat(900));
    std::fs::write(program.path().join("begin.inc"), begin).expect("written");
    let Some(project) = program.project(Choice { may_hold: true, ..Choice::default() }) else { return };
    let verdicts: Vec<_> = project.findings.iter().map(|found| found.refusal().cloned()).collect();
    assert_eq!(verdicts, [Some(Refusal::NotAsWritten)]);
    program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
    assert!(program.run().status.success());
}

/// Of a wrapper that also counts, nothing would be left in a closure. One that only looks at the result is the call.
#[test]
fn sections_of_wrappers_that_do_more_are_refused() {
    const PROGRAM: &str = "#include <pthread.h>\n#include <stdlib.h>\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\nint held, counter;\n\
        static void take(pthread_mutex_t *it)\n{\n    int error = pthread_mutex_lock(it);\n    if (error != 0)\n\
        \x20       abort();\n}\n\
        static void give(pthread_mutex_t *it)\n{\n    held--;\n    pthread_mutex_unlock(it);\n}\n\
        int next(int by)\n{\n    take(&lock);\n    counter += by;\n    give(&lock);\n    return counter;\n}\n";
    let verdict = |without, text: &str| {
        let program = Program::new(text);
        let words = program.path().join("words");
        std::fs::write(&words, "lock take 0\nunlock give 0\n").expect("written");
        let mut vocabulary = Vocabulary::default();
        vocabulary.add_from(&words).expect("words");
        let choice = Choice { may_hold: true, without, ..Choice::default() };
        let project = program.project_with(vocabulary, choice)?;
        let of_next = project.findings.iter().filter(|found| found.section.function == "next");
        Some(of_next.map(|found| found.refusal().cloned()).collect::<Vec<_>>())
    };
    let Some(verdicts) = verdict(None, PROGRAM) else { return };
    assert_eq!(verdicts, [Some(Refusal::WrapperDoesMore("give".to_owned()))]);
    assert_eq!(verdict(Some(Rule::Wrappers), PROGRAM), Some(vec![None]), "nothing else refuses it");
    let plain = PROGRAM.replace("held--;", "");
    assert_eq!(verdict(None, &plain), Some(vec![None]), "it only takes and releases");
}

/// The inner closure has the address of `total`, which a macro of the outer one names: that one is left, and only its line is named.
#[test]
fn sections_that_cannot_be_converted_after_those_inside_are_named() {
    const PROGRAM: &str = "#include <pthread.h>\n\
        static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;\n\
        static int counter;\n#define TALLY() (total += counter)\nint next(int by)\n{\n    int total = 0;\n\
        \x20   pthread_mutex_lock(&one);\n    counter += by;\n    pthread_mutex_unlock(&one);\n\
        \x20   pthread_mutex_lock(&one);\n    counter += by;\n    pthread_mutex_lock(&other);\n    TALLY();\n\
        \x20   if (total > 1) {\n        pthread_mutex_unlock(&other);\n        total += 1000;\n\
        \x20       pthread_mutex_unlock(&one);\n        return total;\n    }\n\
        \x20   pthread_mutex_unlock(&other);\n    TALLY();\n    pthread_mutex_unlock(&one);\n    return total;\n}\n";
    let program = Program::new(PROGRAM);
    let Some(project) = program.project(Choice::default()) else { return };
    let verdicts: Vec<_> = project.findings.iter().map(|found| found.refusal().cloned()).collect();
    assert_eq!(verdicts, [None, None, None]);
    let said = project.converted(&mut |_, _, _| {}).expect_err("it is left").to_string();
    assert!(said.contains("what begins at line 11 cannot be converted"), "{said}");
    let held = Choice { may_hold: true, ..Choice::default() };
    let changes =
        program.project(held).expect("there is libclang").converted(&mut |_, _, _| {}).expect("converted");
    assert_eq!(changes[0].left.iter().collect::<Vec<_>>(), [&11]);
    let text = String::from_utf8_lossy(&changes[0].after);
    assert_eq!(text.matches("\nstatic void *lockwork_").count(), 2, "{text}");
    let except = vec![("program.c".into(), 11)];
    let project = program.project(Choice { except, ..Choice::default() }).expect("there is libclang");
    project.converted(&mut |_, _, _| {}).expect("without that section, and the others of its lock");
}
