//! Locks that a program's own macros take: sections are run by a call of the program's.

mod program;

use lockwork_reengineer::{Choice, Finding, Project, Vocabulary};
use program::{Program, changes_nothing};

const MACROS: &str = include_str!("programs/macros.c");

const WORDS: &str = "\
# What the macros take, and what runs a section.
lock   TAKE        $2             by run($1, $2)
unlock GIVE        $2
lock   SYSTEM_TAKE ($1)->system   by run($1, ($1)->system)
unlock SYSTEM_GIVE ($1)->system
";

/// The program, read with words that a file has.
fn project(program: &Program, words: &str) -> Option<Project> {
    let file = program.path().join("words");
    std::fs::write(&file, words).expect("written");
    let mut vocabulary = Vocabulary::default();
    vocabulary.add_from(&file).expect("words");
    program.project_with(vocabulary, Choice::default())
}

/// The verdicts of a function's sections.
fn of<'p>(project: &'p Project, function: &str) -> Vec<&'p Finding> {
    project.findings.iter().filter(|found| found.section.function == function).collect()
}

#[test]
fn sections_of_macros_are_run_by_the_programs_own_call() {
    let program = Program::new(MACROS);
    let Some(project) = project(&program, WORDS) else { return };
    for line in
        MACROS.lines().enumerate().filter_map(|(at, line)| Some((at, line.strip_prefix("/* converted: ")?)))
    {
        let (at, verdict) = line;
        let head = MACROS.lines().nth(at + 1).expect("a function");
        let function = head.split('(').next().and_then(|name| name.rsplit(' ').next()).expect("its name");
        let found = of(&project, function);
        let converted =
            found.iter().filter(|found| found.refusal().is_none() && !found.section.goes_on()).count();
        let expected: usize = verdict[..1].parse().expect("a number");
        assert_eq!(converted, expected, "{function}: {found:#?}");
        if let Some((_, reason)) = verdict.trim_end_matches(" */").split_once("refused: ") {
            let reasons: Vec<String> =
                found.iter().filter_map(|it| it.refusal().map(ToString::to_string)).collect();
            assert!(reasons.iter().any(|it| it == reason), "{function}: {reasons:?}");
        }
    }
    let before = program.run();
    assert!(before.status.success(), "{before:?}");
    program.write(&project.converted(&mut |_, _, _| {}).expect("converted"));
    let after = program.run();
    let text = std::fs::read_to_string(program.file()).expect("written");
    assert_eq!(String::from_utf8_lossy(&after.stdout), String::from_utf8_lossy(&before.stdout), "{text}");
    assert_ne!(after.stderr, before.stderr, "closures are run by the program's call:\n{text}");
    assert!(
        text.contains("run(env, page->mtx_page, lockwork_straight_1_run, &lockwork_straight_1);"),
        "{text}"
    );
    let again = self::project(&program, WORDS).expect("there is libclang");
    changes_nothing(&again);
}

#[test]
fn what_is_wrong_in_a_file_of_macros_is_said_with_its_line() {
    let program = Program::new(MACROS);
    for (words, said) in [
        ("lock TAKE $2 by run", ":1: a lock's sections are run `by` a call"),
        ("\nunlock GIVE $2 by run($1)", ":2: a lock's sections are run `by` a call"),
        ("lock TAKE", ":1: not understood"),
        ("take TAKE $1", ":1: not understood"),
    ] {
        let file = program.path().join("words");
        std::fs::write(&file, words).expect("written");
        let error = Vocabulary::default().add_from(&file).expect_err("it is wrong").to_string();
        assert!(error.contains(said), "{error}");
    }
}
