//! What ordinary programs are written like is converted.

mod program;

use lockwork_reengineer::{Choice, Project, Refusal, Vocabulary};
use program::{Program, changes_nothing};

const ORDINARY: &str = include_str!("programs/ordinary.c");

/// The verdicts on a function's sections.
fn of(project: &Project, function: &str) -> Vec<Option<Refusal>> {
    let all = project.findings.iter().filter(|found| found.section.function == function);
    all.map(|found| found.refusal().cloned()).collect()
}

/// No section is left, so that all delegates can run the program.
#[test]
fn what_ordinary_programs_do_is_converted() {
    let program = Program::new(ORDINARY);
    let Some(project) = program.project(Choice::default()) else { return };
    let refused: Vec<String> = (project.findings.iter())
        .filter_map(|found| Some(format!("{}:{}: {}", found.section.function, found.line, found.refusal()?)))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let before = program.run();
    assert!(before.status.success(), "{before:?}");
    program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
    let text = std::fs::read_to_string(program.file()).expect("written");
    assert!(!text.contains("pthread_mutex"), "{text}");
    let after = program.run();
    assert!(after.status.success(), "{after:?}\n{text}");
    assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before.stdout), "{text}");
    let again = program.project(Choice::default()).expect("there is libclang");
    changes_nothing(&again);
}

/// Where no declaration says that a function never returns, `--macros` can.
#[test]
fn functions_that_never_return_can_be_named() {
    const PROGRAM: &str = "#include <pthread.h>\nstatic pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
        static int counter;\nvoid fail(void);\nint next(int by)\n{\n    pthread_mutex_lock(&lock);\n\
        \x20   if (by < 0) {\n        pthread_mutex_unlock(&lock);\n        fail();\n    }\n    counter += by;\n\
        \x20   pthread_mutex_unlock(&lock);\n    return counter;\n}\n";
    let verdict = |words: &str| {
        let program = Program::new(PROGRAM);
        let file = program.path().join("words");
        std::fs::write(&file, words).expect("written");
        let mut vocabulary = Vocabulary::default();
        vocabulary.add_from(&file).expect("words");
        Some(of(&program.project_with(vocabulary, Choice::default())?, "next"))
    };
    let Some(verdicts) = verdict("") else { return };
    assert_eq!(verdicts, [Some(Refusal::Mixed)]);
    assert_eq!(verdict("noreturn fail # it ends the program\n"), Some(vec![None]));
}

/// A call in a lock's name that may have an effect would have it once in place of twice.
#[test]
fn a_lock_that_a_call_names_is_refused_with_the_mend() {
    const PROGRAM: &str = "#include <pthread.h>\nstatic pthread_mutex_t locks[4];\nstatic int counter, turn;\n\
        int other(void);\nint next(int by)\n{\n    pthread_mutex_lock(&locks[other()]);\n    counter += by;\n\
        \x20   pthread_mutex_unlock(&locks[other()]);\n    return counter;\n}\n\
        int choose(int by)\n{\n    pthread_mutex_lock(turn ? &locks[1] : &locks[2]);\n    turn = by;\n\
        \x20   pthread_mutex_unlock(turn ? &locks[1] : &locks[2]);\n    return counter;\n}\n";
    let program = Program::new(PROGRAM);
    let Some(project) = program.project(Choice { may_hold: true, ..Choice::default() }) else { return };
    assert_eq!(of(&project, "next"), [Some(Refusal::NamesLock)]);
    assert!(
        Refusal::NamesLock.to_string().contains("put its address in a local variable"),
        "it says what helps"
    );
    // Which computes, and which does not.
    let verdict = |body: &str| {
        let definition = format!("int next(int by);\nstatic int other(void)\n{{\n    {body}\n}}\n");
        let program = Program::new(&PROGRAM.replace("int other(void);\n", &definition));
        let project =
            program.project(Choice { may_hold: true, ..Choice::default() }).expect("there is libclang");
        of(&project, "next")
    };
    assert_eq!(verdict("return 3;"), [None]);
    for body in [
        "return counter;",
        "return turn++;",
        "static int last;\n    return last;",
        "volatile int one = 1;\n    return one;",
        "int *at = &turn;\n    *at += 1;\n    return 1;",
        "int all[2] = { 1, 2 };\n    all[1] = 3;\n    return all[1];",
        "return ({ turn = 1; 2; });",
        "__asm__ volatile (\"\");\n    return 1;",
        "return next(1);",
    ] {
        assert_eq!(verdict(body), [Some(Refusal::NamesLock)], "{body}");
    }
    assert_eq!(of(&project, "choose"), [Some(Refusal::LockChanges("turn".to_owned()))]);
}

/// A lock's name may read memory, by itself or by a call, that the section leaves alone.
#[test]
fn a_section_that_writes_what_its_locks_name_is_read_from_is_refused() {
    const PROGRAM: &str = "#include <pthread.h>\nstatic pthread_mutex_t locks[4];\nstatic int counter;\n\
        struct box { int at, other; int *slot; char name[8]; };\n\
        static int member(const struct box *box)\n{\n    return box->at & 3;\n}\n\
        static int pointer(const int *at)\n{\n    return *at & 3;\n}\n\
        static int inner(const struct box *box)\n{\n    return pointer(box->slot);\n}\n\
        static int hash(const char *key)\n{\n    int sum = 0;\n    while (*key)\n        sum = sum * 31 + *key++;\n\
        \x20   return sum & 3;\n}\n\
        int next(struct box *box, struct box *other, int *at, char *key)\n{\n    pthread_mutex_lock(&locks[NAME]);\n\
        \x20   counter += other->other + *at + *key + member(box) + pointer(at) + hash(key) + inner(box);\n    BODY;\n\
        \x20   pthread_mutex_unlock(&locks[NAME]);\n    return counter;\n}\n";
    let verdict = |name: &str, body: &str| {
        let program = Program::new(&PROGRAM.replace("NAME", name).replace("BODY", body));
        let project = program.project(Choice { may_hold: true, ..Choice::default() })?;
        Some(of(&project, "next"))
    };
    for (name, body, changes) in [
        ("member(box)", "box->other = 2", None),
        ("member(box)", "box->at = 2", Some("at")),
        ("member(box)", "other->at++", Some("at")),
        ("member(box)", "*box = *other", Some("box")),
        ("pointer(at)", "box->at = 2", None),
        ("pointer(at)", "*at = 2", Some("at")),
        ("pointer(at)", "at[1] += 2", Some("at")),
        ("pointer(&box->at)", "box->at = 2", Some("at")),
        ("inner(box)", "*box->slot = 2", Some("slot")),
        ("inner(box)", "box->slot = at", Some("slot")),
        ("hash(key)", "box->name[0] = 'a'", None),
        ("hash(key)", "key[0] = 'a'", Some("key")),
        ("hash(box->name)", "other->name[0] = 'a'", Some("name")),
        ("box->slot[1]", "box->at = 2", None),
        ("box->slot[1]", "box->slot[0] = 2", Some("slot")),
        ("box->slot[1]", "other->slot = at", Some("slot")),
        ("box->name[1]", "box->slot = at", None),
        ("counter", "box->slot = at", Some("counter")),
    ] {
        let Some(verdicts) = verdict(name, body) else { return };
        assert_eq!(verdicts, [changes.map(|it| Refusal::LockChanges(it.to_owned()))], "{name}: {body}");
    }
}

/// What is initialised by a macro of the program's in a way that is not followed keeps all that the macro initialises.
#[test]
fn initialisers_of_macros_change_for_all_or_for_none() {
    const PROGRAM: &str = "#include <pthread.h>\n#define FREE PTHREAD_MUTEX_INITIALIZER\n\
        static pthread_mutex_t lock = FREE;\nstatic int counter;\n\
        int next(int by)\n{\n    pthread_mutex_lock(&lock);\n    counter += by;\n\
        \x20   pthread_mutex_unlock(&lock);\n    return counter;\n}\n";
    let verdict = |text: &str| Some(of(&Program::new(text).project(Choice::default())?, "next"));
    let Some(verdicts) = verdict(PROGRAM) else { return };
    assert_eq!(verdicts, [None]);
    let stays = |text: &str, why: &str| match verdict(text).expect("there is libclang").as_slice() {
        [Some(Refusal::StaysMutex(reason))] => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    };
    let elsewhere = "void set(pthread_mutex_t *it)\n{\n    *it = (pthread_mutex_t)FREE;\n}\n";
    stays(&format!("{PROGRAM}{elsewhere}"), "is used for another one, too");
    let twice =
        PROGRAM.replace("#define FREE", "#ifdef FREE_BY_HAND\n#define FREE { { 0 } }\n#endif\n#define FREE");
    stays(&twice, "comes from a macro that is not understood");
    stays(
        &PROGRAM.replace("PTHREAD_MUTEX_INI", "PTHREAD_RECURSIVE_MUTEX_INI").replace("LIZER\n", "LIZER_NP\n"),
        "not understood",
    );
}

/// What a macro makes of its argument is no attribute that could be written elsewhere.
#[test]
fn attributes_of_macros_with_arguments_are_refused() {
    const PROGRAM: &str = "#include <pthread.h>\n#define ALIGNED(by) __attribute__((aligned(by)))\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\nstatic int counter;\n\
        int next(int by)\n{\n    pthread_mutex_lock(&lock);\n    int after ALIGNED(64) = counter += by;\n\
        \x20   pthread_mutex_unlock(&lock);\n    return after;\n}\n";
    let Some(project) = Program::new(PROGRAM).project(Choice::default()) else { return };
    assert_eq!(of(&project, "next"), [Some(Refusal::Attributes("after".to_owned()))]);
}
