//! Programs keep what they do, section by section.

mod library;
mod program;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use library::{headers, library};
use lockwork_reengineer::{Choice, Error, Project, Refusal, Vocabulary};
use program::{Program, changes_nothing};

/// Everything, and what stays locks holds the delegate.
fn all() -> Choice {
    Choice { may_hold: true, ..Choice::default() }
}

/// Sections of every kind: each function returns what it computed, and `main` prints it.
const SECTIONS: &str = include_str!("programs/sections.c");

/// Converts the program and runs it before and after: it prints the same, and a second run by the same choice changes nothing. The
/// converted text.
fn does_what_it_did(program: &Program, project: &Project, choice: Choice) -> String {
    let before = program.run();
    assert!(before.status.success(), "{before:?}");
    program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
    let after = program.run();
    let text = std::fs::read_to_string(program.file()).expect("written");
    assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before.stdout), "{text}");
    assert!(after.status.success(), "{after:?}\n{text}");
    let again = program.project(choice).expect("there is libclang");
    changes_nothing(&again);
    text
}

#[test]
fn a_converted_program_does_what_it_did() {
    let program = Program::new(SECTIONS);
    let Some(project) = program.project(all()) else { return };
    does_what_it_did(&program, &project, all());
}

/// What a section gives local variables is passed out of the closure.
const SET_FIRST: &str = include_str!("programs/set_first.c");

/// The compiler sees of such a variable what it saw before, so that it warns of no other that has a value under a condition on it. Where
/// the section might leave the variable as it was, the closure has its address.
#[test]
fn what_a_section_sets_first_keeps_its_address() {
    let program = Program::new(SET_FIRST);
    let Some(project) = program.project(all()) else { return };
    let text = does_what_it_did(&program, &project, all());
    let library = program.run_with(&headers(), &library(), "locked(futex)");
    assert!(library.status.success(), "{library:?}");
    // The other configuration.
    let other = |text: &str| Program::new(&format!("#define OTHER\n{text}")).run().stdout;
    assert_eq!(String::from_utf8_lossy(&other(&text)), String::from_utf8_lossy(&other(SET_FIRST)));
    for (function, variable) in [("numbered", "mine"), ("leaves", "left"), ("twice", "mine")] {
        let passed_out = format!("{variable} = lockwork_{function}_1.{variable};");
        assert!(text.contains(&passed_out), "no {passed_out} in\n{text}");
    }
    let addresses = text.matches("mine = &mine").count() + text.matches("left = &left").count();
    assert_eq!(addresses, 1, "only the section that reads it has it:\n{text}");
    assert_eq!(text.matches("kept = lockwork_").count(), 0, "{text}");
}

/// A program that its compiler holds to C90's order of declarations and statements.
const DECLARATIONS: &str = include_str!("programs/declarations.c");

#[test]
fn declarations_stay_in_front_of_statements() {
    let program = Program::new(DECLARATIONS);
    let Some(project) = program.project(all()) else { return };
    for found in &project.findings {
        assert_eq!(found.refusal(), None, "{}", found.section.function);
    }
    let before = program.run();
    program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
    let after = program.run();
    assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before.stdout));
    assert!(after.status.success(), "{after:?}");
}

#[test]
fn each_refusal_has_its_reason() {
    let program = Program::new(SECTIONS);
    let Some(project) = program.project(all()) else { return };
    let found = refused_as_said(&project, SECTIONS);
    assert_eq!(found["checked"], [None, None], "macros that only report that a call has failed are the call");
}

/// The verdicts by function, which are those of the program's comments, `NAME refused: REASON`.
fn refused_as_said(project: &Project, text: &str) -> BTreeMap<String, Vec<Option<Refusal>>> {
    let found: BTreeMap<String, Vec<Option<Refusal>>> =
        project.findings.iter().fold(BTreeMap::new(), |mut all, found| {
            all.entry(found.section.function.clone()).or_default().push(found.refusal().cloned());
            all
        });
    let expected = |line: &str| {
        let (name, reason) = line.split_once("refused: ")?;
        Some((
            name.trim().trim_start_matches("/* ").trim().to_owned(),
            reason.trim_end_matches(" */").to_owned(),
        ))
    };
    let refused: BTreeMap<String, String> = text.lines().filter_map(expected).collect();
    assert!(refused.len() > 4, "{refused:?}");
    for (function, verdicts) in &found {
        let reasons: Vec<String> = verdicts.iter().flatten().map(ToString::to_string).collect();
        match refused.get(function) {
            Some(reason) => {
                assert!(reasons.iter().any(|it| it == reason), "{function}: {reasons:?}, not {reason:?}")
            }
            None => assert!(reasons.is_empty(), "{function}: {reasons:?}"),
        }
    }
    for function in refused.keys() {
        assert!(found.contains_key(function), "{function} has no section");
    }
    found
}

/// What a section declares and keeps, what threads have of their own, and what declarations say besides.
const ESCAPES: &str = include_str!("programs/escapes.c");

/// A delegate leaves nothing of the stack and of `errno` as it was.
#[test]
fn what_a_section_declares_and_sets_is_there_after_it() {
    let program = Program::new(ESCAPES);
    let Some(project) = program.project(all()) else { return };
    refused_as_said(&project, ESCAPES);
    does_what_it_did(&program, &project, all());
}

/// A program that may be compiled without its locks.
const GUARDS: &str = include_str!("programs/guards.c");

/// Sections whose lock and releases are each alone in the same `#ifndef` become closures, and the program does what it did, compiled
/// with its locks and without.
#[test]
fn locks_that_a_program_can_do_without_are_converted() {
    let without = |text: &str| Program::new(&format!("#define WITHOUT_LOCKS\n{text}"));
    let program = Program::new(GUARDS);
    let Some(project) = program.project(all()) else { return };
    assert!(project.findings.iter().all(|found| found.refusal().is_none()));
    let before = [program.run(), without(GUARDS).run()];
    program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
    let text = std::fs::read_to_string(program.file()).expect("written");
    for (before, after) in before.iter().zip([program.run(), without(&text).run()]) {
        assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before.stdout), "{text}");
        assert!(after.status.success(), "{after:?}");
    }
    let requests = |text: &str| text.matches("lockwork_delegate_run_or_abort((&lock)").count();
    assert_eq!((requests(&text), text.matches("pthread_mutex_lock").count()), (4, 0), "{text}");
    assert_eq!(requests(&without(&text).preprocessed()), 0, "a program without its locks requests nothing");
    let again = program.project(all()).expect("there is libclang");
    changes_nothing(&again);
}

#[test]
fn locks_that_are_guarded_otherwise_than_their_releases_stay() {
    let text = include_str!("programs/half_guards.c");
    let program = Program::new(text);
    let Some(project) = program.project(all()) else { return };
    assert_eq!(refused_as_said(&project, text).len(), 6);
}

/// Mutexes that become delegates and mutexes that stay, each for its own reasons.
const LOCKS: &str = include_str!("programs/locks.c");

/// `NAME stays: REASON` in a program's comments.
fn said_to_stay(text: &str) -> BTreeMap<&str, &str> {
    text.lines()
        .filter_map(|line| {
            let (name, reason) = line.split_once(" stays: ")?;
            Some((name.rsplit([' ', '*']).next()?, reason.trim_end_matches(" */")))
        })
        .collect()
}

/// Of each mutex what a section calls it, and why it stays one.
fn verdicts(project: &Project) -> BTreeMap<String, Option<String>> {
    let all = project.mutexes();
    all.iter().flat_map(|mutex| mutex.names.iter().map(|name| (name.clone(), mutex.kept.clone()))).collect()
}

/// Compares which mutexes stay with what the program's comments say, and converts it: it does what it did, and a second run changes
/// nothing. The converted text.
fn converts_by_itself(
    text: &str,
    stay: usize,
    converted: &[&str],
    same_as: &[(&str, &str)],
) -> Option<String> {
    let program = Program::new(text);
    // No section of a converted one is left: all delegates can run it.
    let project = program.project(Choice::default())?;
    let verdicts = verdicts(&project);
    let said = said_to_stay(text);
    assert_eq!(said.len(), stay, "{said:?}");
    for name in converted {
        assert_eq!(verdicts[*name], None, "{name}");
    }
    for (name, verdict) in &verdicts {
        let name = same_as.iter().find(|(one, _)| one == name).map_or(name.as_str(), |(_, other)| other);
        match (verdict, said.get(name)) {
            (Some(reason), Some(expected)) => assert!(reason.starts_with(expected), "{name}: {reason}"),
            (verdict, expected) => assert_eq!(verdict.as_deref(), expected.copied(), "{name}"),
        }
    }
    Some(does_what_it_did(&program, &project, Choice::default()))
}

#[test]
fn each_mutex_is_converted_or_stays_by_itself() {
    let converted = [
        "(&plain)",
        "(&ordinary)",
        "stripe",
        "(&box->lock)",
        "lock",
        "(&queue.lock)",
        "(&gate)",
        "other.lock",
    ];
    let Some(text) = converts_by_itself(LOCKS, 19, &converted, &[("(&first)", "(&second)")]) else { return };
    for gone in ["pthread_cond_wait(&queue", "lockwork_delegate_acquire", "pthread_cond_wait(&opened"] {
        assert!(!text.contains(gone), "{gone} in\n{text}");
    }
    for there in ["static pthread_mutex_t only_tried", "pthread_mutex_trylock(&only_tried)"] {
        assert!(text.contains(there), "no {there} in\n{text}");
    }
}

/// Mutexes whose type is named by typedefs and macros.
const TYPEDEFS: &str = include_str!("programs/typedefs.c");

#[test]
fn a_mutex_whose_type_has_another_name_is_converted_or_stays_by_itself() {
    let converted =
        ["(&plain)", "(&named)", "lock", "(&of->lock)", "stripe", "above", "(&roomy_one)", "roomy_two"];
    let same_as = [("(&first)", "(&second)")];
    let Some(text) = converts_by_itself(TYPEDEFS, 16, &converted, &same_as) else { return };
    for there in [
        "typedef pthread_mutex_t lock_type;",
        "#define MUTEX pthread_mutex_t",
        "static lockwork_delegate_t plain",
        "static lock_type shown",
        "static lockwork_delegate_t named =",
        "static MUTEX named_too",
        "    lockwork_delegate_t lock;\n    lockwork_delegate_cond_t filled;",
        "many = calloc(4, sizeof(lockwork_delegate_t));",
        "static void add(lockwork_delegate_t *lock,",
        "typedef lockwork_delegate_t *lone;",
        "#define ROOMY lockwork_delegate_t\nstatic ROOMY roomy_one",
        "void (*call)(lock_type *lock);\n    lock_type *unused;",
    ] {
        assert!(text.contains(there), "no {there} in\n{text}");
    }
}

/// Structures that become others by way of a `void *`.
const VEILED: &str = include_str!("programs/veiled.c");

#[test]
fn structures_that_become_others_without_a_name_change_together() {
    let converted = ["(&worker->lock)", "(&plain->lock)"];
    let Some(text) = converts_by_itself(VEILED, 5, &converted, &[]) else { return };
    for there in ["struct timer { pthread_mutex_t lock", "struct worker { lockwork_delegate_t lock"] {
        assert!(text.contains(there), "no {there} in\n{text}");
    }
}

/// Structures whose sizes constants are computed of.
const SIZES: &str = include_str!("programs/sizes.c");

#[test]
fn mutexes_whose_structures_have_to_keep_their_sizes_stay() {
    converts_by_itself(SIZES, 6, &["(&grows->lock)"], &[]);
}

#[test]
fn what_tries_and_waits_with_the_lock_holds_the_delegate() {
    let program = Program::new(LOCKS);
    let Some(project) = program.project(all()) else { return };
    let verdicts = verdicts(&project);
    for name in ["(&tried)", "(&first)", "(&second)", "(&alike->lock)", "(&waited_until)"] {
        assert_eq!(verdicts[name], None, "{name}");
    }
    for name in ["(&timed)", "(&recursive)", "(&shown)"] {
        assert_ne!(verdicts[name], None, "{name}");
    }
    let before = program.run();
    program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
    let text = std::fs::read_to_string(program.file()).expect("written");
    for call in [
        "lockwork_delegate_try_acquire_or_abort(&tried)",
        "lockwork_delegate_cond_timedwait_held(&never, &waited_until",
    ] {
        assert!(text.contains(call), "no {call} in\n{text}");
    }
    let after = program.run();
    assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before.stdout), "{text}");
    assert!(after.status.success(), "{after:?}\n{text}");
}

#[test]
fn a_mutex_with_sections_that_stay_locks_is_a_delegate_only_if_that_may_be_held() {
    let program = Program::new(SECTIONS);
    let Some(project) = program.project(Choice::default()) else { return };
    let reason = verdicts(&project)["(&lock)"].clone().expect("it stays");
    assert!(reason.contains("--hold"), "{reason}");
    let Some(project) = program.project(all()) else { return };
    assert_eq!(verdicts(&project)["(&lock)"], None);
}

#[test]
fn what_stays_a_lock_ends_the_program_under_a_delegate_that_cannot_be_held() {
    let program = Program::new(SECTIONS);
    let Some(project) = program.project(all()) else { return };
    let before = program.run();
    program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
    let held = program.run_with(&headers(), &library(), "locked(futex)");
    assert_eq!(String::from_utf8_lossy(&held.stdout), String::from_utf8_lossy(&before.stdout));
    assert!(held.status.success(), "{held:?}");
    let output = program.run_with(&headers(), &library(), "cc-synch");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it would run without the lock: {output:?}");
    assert!(said.starts_with("lockwork: lockwork_delegate_acquire_or_abort: `cc-synch"), "{said}");
    assert!(said.contains("cannot be held"), "{said}");
}

#[test]
fn locks_and_places_can_be_chosen() {
    let program = Program::new(SECTIONS);
    let choice = Choice { locks: vec!["&other".to_owned()], ..all() };
    let Some(project) = program.project(choice) else { return };
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    let text = String::from_utf8_lossy(&changes[0].after);
    assert!(text.contains("lockwork_delegate_run_or_abort((&other)"), "{text}");
    assert!(!text.contains("lockwork_delegate_run_or_abort((&lock)"), "{text}");
}

#[test]
fn excepted_sections_stay_locks() {
    let program = Program::new(SECTIONS);
    let line = |function: &str| {
        let lines = || SECTIONS.lines().enumerate();
        let (begin, _) =
            lines().find(|(_, line)| line.contains(&format!(" {function}("))).expect("it is there");
        let (lock, _) =
            lines().skip(begin).find(|(_, line)| line.contains("mutex_lock(&lock)")).expect("it locks");
        lock + 1
    };
    let except = ["straight", "twice"].map(|function| (PathBuf::from("program.c"), line(function)));
    let choice = Choice { except: except.to_vec(), ..all() };
    let Some(project) = program.project(choice) else { return };
    assert_eq!(project.needless_exception(), None);
    let stay = project.findings.iter().filter(|found| found.refusal() == Some(&Refusal::Excepted));
    let stay: Vec<&str> = stay.map(|found| found.section.function.as_str()).collect();
    assert_eq!(stay, ["straight", "twice", "twice"], "the others of the lock in the function stay, too");
    let before = program.run();
    program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
    let after = program.run();
    let text = std::fs::read_to_string(program.file()).expect("written");
    assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before.stdout), "{text}");
    assert!(text.contains("lockwork_exits_1_run") && !text.contains("lockwork_straight_1_run"), "{text}");
    assert!(!text.contains("lockwork_twice_1_run"), "{text}");

    let nowhere = (PathBuf::from("program.c"), 1);
    let project =
        program.project(Choice { except: vec![nowhere.clone()], ..all() }).expect("there is libclang");
    assert_eq!(project.needless_exception(), Some(&nowhere));
}

/// Sections of files that were not named stay locks, and those may not hold a delegate unless that is allowed.
#[test]
fn sections_of_files_that_are_not_named_are_not_chosen() {
    const OTHER: &str = "#include <pthread.h>\nextern pthread_mutex_t lock;\nextern int counter;\nvoid add(int by);\n\
        void add(int by)\n{\n    pthread_mutex_lock(&lock);\n    counter += by;\n    pthread_mutex_unlock(&lock);\n}\n";
    const PROGRAM: &str = "#include <pthread.h>\npthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
        static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;\nint counter;\n\
        int main(void)\n{\n    pthread_mutex_lock(&lock);\n    counter++;\n    pthread_mutex_unlock(&lock);\n\
        \x20   pthread_mutex_lock(&own);\n    counter++;\n    pthread_mutex_unlock(&own);\n    return counter - 2;\n}\n";
    let program = Program::new(PROGRAM);
    std::fs::write(program.path().join("other.c"), OTHER).expect("written");
    let command = |file: &str| {
        let arguments = ["cc", "-std=gnu11", "-c", file];
        serde_json::json!({ "directory": program.path(), "file": file, "arguments": arguments })
    };
    let database = serde_json::json!([command("program.c"), command("other.c")]).to_string();
    std::fs::write(program.path().join("compile_commands.json"), database).expect("written");
    let verdicts = |project: &Project| -> Vec<Option<Refusal>> {
        project.findings.iter().map(|found| found.refusal().cloned()).collect()
    };
    let changed = |project: &Project| -> Vec<String> {
        let changes = project.converted(&mut |_, _, _| {}).expect("converted");
        let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
        changes
            .iter()
            .map(|change| {
                format!(
                    "{} {}",
                    name(&change.path),
                    String::from_utf8_lossy(&change.after).contains("lockwork_delegate_run")
                )
            })
            .collect()
    };
    let files = vec!["program.c".into()];
    let Some(project) = program.project(Choice { files: files.clone(), ..Choice::default() }) else { return };
    let reason = "the section at other.c:7 was not chosen (--hold allows it)";
    assert_eq!(verdicts(&project), [Some(Refusal::StaysMutex(reason.to_owned())), None]);
    assert_eq!(changed(&project), ["program.c true"], "the other file stays as it is");
    let project =
        program.project(Choice { files, may_hold: true, ..Choice::default() }).expect("there is libclang");
    assert_eq!(verdicts(&project), [None, None]);
    assert_eq!(changed(&project), ["other.c false", "program.c true"], "it holds the delegate there");
    let project = program.project(Choice::default()).expect("there is libclang");
    assert_eq!(verdicts(&project), [None, None, None]);
    assert_eq!(changed(&project), ["other.c true", "program.c true"]);
}

/// What is no UTF-8 in a file stays as it is, byte by byte, in what moves and in what does not.
#[test]
fn bytes_that_are_no_text_are_kept() {
    const PROGRAM: &[u8] = b"/* J. M\xfcller, \xc3\xbc */\n#include <pthread.h>\n#include <stdio.h>\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\nstatic int counter;\n\
        static void add(int by)\n{\n    int size;\n    pthread_mutex_lock(&lock);\n    /* \xe4 */\n\
        \x20   char name[] = \"M\xfcller \xdf\";\n    size = sizeof(name);\n    counter += by + name[1];\n\
        \x20   pthread_mutex_unlock(&lock);\n    printf(\"%d %d \xe4 %s\\n\", size, counter, name);\n}\n\
        int main(void)\n{\n    add(3);\n    return 0;\n}\n";
    let program = Program::new("");
    std::fs::write(program.file(), PROGRAM).expect("written");
    let Some(project) = program.project(Choice::default()) else { return };
    let before = program.run();
    assert_eq!(before.stdout, b"9 -1 \xe4 M\xfcller \xdf\n", "{before:?}");
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    let [change] = changes.as_slice() else { panic!("{} files", changes.len()) };
    assert_eq!(change.before, PROGRAM);
    let strange = |bytes: &[u8]| {
        let mut found: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii()).collect();
        found.sort_unstable();
        found
    };
    assert_eq!(strange(&change.after), strange(PROGRAM));
    assert!(
        change.after.iter().all(|byte| *byte >= b' ' || *byte == b'\n'),
        "{:?}",
        change.after.escape_ascii().to_string()
    );
    assert!(String::from_utf8_lossy(&change.after).contains("lockwork_delegate_run"));
    let patch = change.diff(program.path());
    let removed = b"\n-    char name[] = \"M\xfcller \xdf\";\n";
    assert!(patch.windows(removed.len()).any(|part| part == removed), "{}", patch.escape_ascii());
    program.write(&changes);
    assert_eq!(program.run().stdout, before.stdout);
}

/// A file that cannot be kept byte by byte stays, and so do the mutexes that it takes; the others change.
#[test]
fn a_file_that_is_no_text_stays() {
    let program = Program::new(
        "#include <pthread.h>\npthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
         static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;\nint counter;\nvoid add(int by);\nvoid add(int by)\n{\n    pthread_mutex_lock(&lock);\n    counter += by;\n\
         \x20   pthread_mutex_unlock(&lock);\n    pthread_mutex_lock(&own);\n    counter += by;\n\
         \x20   pthread_mutex_unlock(&own);\n}\n",
    );
    let text = "*/\n#include <pthread.h>\nextern pthread_mutex_t lock;\nextern int counter;\nvoid add_too(int by);\n\
        void add_too(int by)\n{\n    pthread_mutex_lock(&lock);\n    counter += by;\n    pthread_mutex_unlock(&lock);\n}\n";
    let strange = [b"/* ".as_slice(), &(0x80..=0xff).rev().collect::<Vec<u8>>(), text.as_bytes()].concat();
    std::fs::write(program.path().join("strange.c"), strange).expect("written");
    let command = |file: &str| {
        let arguments = ["cc", "-std=gnu11", "-c", file];
        serde_json::json!({ "directory": program.path(), "file": file, "arguments": arguments })
    };
    let database = serde_json::json!([command("program.c"), command("strange.c")]).to_string();
    std::fs::write(program.path().join("compile_commands.json"), database).expect("written");
    let Some(project) = program.project(all()) else { return };
    let verdicts: Vec<Option<String>> =
        project.findings.iter().map(|found| found.refusal().map(ToString::to_string)).collect();
    let [Some(shared), None, Some(strange)] = verdicts.as_slice() else { panic!("{verdicts:?}") };
    assert!(shared.contains("strange.c is no UTF-8 (convert it by iconv)"), "{shared}");
    assert!(strange.contains("convert it by iconv"), "{strange}");
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    assert!(changes.iter().all(|change| change.path.ends_with("program.c")) && changes.len() == 1);
}

/// A mutex that a header beside the files declares; `place`: where the compilation database is.
fn beside(place: &str) -> Option<(Vec<Option<String>>, Vec<String>)> {
    let program = Program::new("");
    std::fs::remove_file(program.path().join("compile_commands.json")).expect("removed");
    for directory in ["src", "include", "build"] {
        std::fs::create_dir(program.path().join(directory)).expect("made");
    }
    let write = |name: &str, text: &str| std::fs::write(program.path().join(name), text).expect("written");
    write(
        "include/queue.h",
        "#include <pthread.h>\nstruct queue { pthread_mutex_t lock; int length; };\nvoid put(struct queue *queue);\n",
    );
    write(
        "src/queue.c",
        "#include \"queue.h\"\nvoid put(struct queue *queue)\n{\n    pthread_mutex_lock(&queue->lock);\n\
         \x20   queue->length++;\n    pthread_mutex_unlock(&queue->lock);\n}\n",
    );
    let arguments = ["cc", "-std=gnu11", "-Iinclude", "-c", "src/queue.c"];
    let database =
        serde_json::json!([{ "directory": program.path(), "file": "src/queue.c", "arguments": arguments }]);
    write(&format!("{place}/compile_commands.json"), &database.to_string());
    let opened = Project::open(
        &program.path().join(place),
        Vocabulary::default(),
        Choice::default(),
        &mut |_, _, _| {},
    );
    let project = match opened {
        Err(Error::NoLibclang { .. }) => return None,
        other => other.expect("read"),
    };
    let verdicts = project.findings.iter().map(|found| found.refusal().map(ToString::to_string)).collect();
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    Some((verdicts, changes.iter().map(|change| name(&change.path)).collect()))
}

#[test]
fn headers_beside_the_files_are_the_programs() {
    for place in [".", "build"] {
        let Some((verdicts, changes)) = beside(place) else { return };
        assert_eq!(verdicts, [None], "{place}");
        assert_eq!(changes, ["queue.h", "queue.c"], "{place}");
    }
    let Some((verdicts, changes)) = beside("src") else { return };
    let [Some(reason)] = verdicts.as_slice() else { panic!("{verdicts:?}") };
    assert!(reason.contains("queue.h is outside of ") && reason.contains("compilation database"), "{reason}");
    assert!(changes.is_empty(), "{changes:?}");
}

/// A delegate keeps memory until it is destroyed, which a mutex does not.
#[test]
fn mutexes_that_are_never_destroyed_are_warned_of() {
    const PROGRAM: &str = "#include <pthread.h>\n#include <stdlib.h>\n\
        struct part { pthread_mutex_t lock; long count; };\nstruct other { pthread_mutex_t lock; long count; };\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\nstatic long counter;\n\
        struct part *part(void)\n{\n    struct part *made = malloc(sizeof(*made));\n    pthread_mutex_init(&made->lock, NULL);\n\
        \x20   return made;\n}\n\
        void first(struct part *of)\n{\n    pthread_mutex_lock(&of->lock);\n    of->count++;\n    pthread_mutex_unlock(&of->lock);\n}\n\
        void second(struct part *of)\n{\n    pthread_mutex_lock(&of->lock);\n    of->count--;\n    pthread_mutex_unlock(&of->lock);\n}\n\
        void initialised(void)\n{\n    pthread_mutex_lock(&lock);\n    counter++;\n    pthread_mutex_unlock(&lock);\n}\n\
        void destroyed(struct other *of)\n{\n    pthread_mutex_init(&of->lock, NULL);\n\
        \x20   pthread_mutex_lock(&of->lock);\n    of->count++;\n\
        \x20   pthread_mutex_unlock(&of->lock);\n    pthread_mutex_destroy(&of->lock);\n}\n";
    let warnings = |text: &str| {
        let project = Program::new(text).project(Choice::default())?;
        let of = |found: &lockwork_reengineer::Finding| {
            assert_eq!(found.refusal(), None, "{}", found.section.function);
            (found.section.function.clone(), found.section.warnings.clone())
        };
        Some(project.findings.iter().map(of).collect::<BTreeMap<_, _>>())
    };
    let Some(said) = warnings(PROGRAM) else { return };
    let [warning] = said["first"].as_slice() else { panic!("{said:?}") };
    assert!(warning.starts_with("its mutex is initialised at program.c:10, and"), "{warning}");
    for function in ["second", "initialised", "destroyed"] {
        assert!(said[function].is_empty(), "{function}: {said:?}");
    }
    let destroys = format!(
        "{PROGRAM}void end(struct part *of)\n{{\n    pthread_mutex_destroy(&of->lock);\n    free(of);\n}}\n"
    );
    let said = warnings(&destroys).expect("there is libclang");
    assert!(said.values().all(Vec::is_empty), "{said:?}");
}

/// The name of the function is another in a closure, which is worth a warning, by whatever macro it comes: other than in an assertion,
/// and in what runs at the call site.
#[test]
fn a_function_that_says_its_name_is_warned_of() {
    const PROGRAM: &str = "#include <assert.h>\n#include <pthread.h>\n#include <stdio.h>\n\
        #define LOG(...) (fprintf(stderr, \"%s: \", __func__), fprintf(stderr, __VA_ARGS__))\n\
        #define WHERE __FUNCTION__\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\nstatic long counter;\n\
        void says(int loud)\n{\n    pthread_mutex_lock(&lock);\n    if (loud)\n        puts(__func__);\n\
        \x20   pthread_mutex_unlock(&lock);\n}\n\
        void logs(void)\n{\n    pthread_mutex_lock(&lock);\n    LOG(\"%ld\\n\", ++counter);\n    pthread_mutex_unlock(&lock);\n}\n\
        void where(const char **to)\n{\n    pthread_mutex_lock(&lock);\n    *to = (WHERE);\n    pthread_mutex_unlock(&lock);\n}\n\
        void asserts(void)\n{\n    pthread_mutex_lock(&lock);\n    assert(counter++ > 0);\n    pthread_mutex_unlock(&lock);\n}\n\
        void behind(int is_odd)\n{\n    pthread_mutex_lock(&lock);\n    if (is_odd) {\n        pthread_mutex_unlock(&lock);\n\
        \x20       puts(__func__);\n        return;\n    }\n    counter++; /* __func__ */\n    pthread_mutex_unlock(&lock);\n}\n";
    let Some(project) = Program::new(PROGRAM).project(Choice::default()) else { return };
    let said = |function: &str| {
        let found =
            project.findings.iter().find(|found| found.section.function == function).expect("a section");
        assert_eq!(found.refusal(), None, "{function}");
        found.section.warnings.clone()
    };
    for function in ["says", "logs"] {
        assert_eq!(said(function), ["`__func__` is the closure's name"], "{function}");
    }
    assert_eq!(said("where"), ["`__FUNCTION__` is the closure's name"]);
    for function in ["asserts", "behind"] {
        assert_eq!(said(function), [""; 0], "{function}");
    }
}
