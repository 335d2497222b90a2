//! Policies as users write them: what they choose, and what is said of bad ones.

use lockwork_policy::{Choice, Kind, Policy, Site};
use proptest::prelude::*;

const EXAMPLE: &str = r#"
default = "gcr(mcs-stp)"

[[rule]]
init = "librocksdb.so.7+0x1a2b3c"
lock = "mcs-stp"

[[rule]]
init = "rocksdb::LRUCache::Insert"
kind = "mutex"
lock = "ticket"

[[rule]]
symbol = "global_mutex"
lock = "ttas"

[[rule]]
kind = "recursive"
lock = "passthrough"
"#;

fn site(kind: Kind) -> Site<'static> {
    Site { module: None, offset: 0, symbol: None, lock_module: None, lock_offset: 0, lock_symbol: None, kind }
}

fn chosen(policy: &Policy, site: &Site<'_>) -> String {
    policy.lock_for(site).to_string()
}

#[test]
fn the_first_matching_rule_decides() {
    let policy = Policy::parse(EXAMPLE).unwrap();
    assert_eq!(policy.rules.len(), 4);
    assert_eq!(policy.rules.iter().map(|rule| rule.line).collect::<Vec<_>>(), [4, 8, 13, 17]);
    assert_eq!(chosen(&policy, &site(Kind::Normal)), "gcr(mcs-stp)");
    assert_eq!(chosen(&policy, &site(Kind::Recursive)), "passthrough");

    let rocksdb = Some("/usr/lib/x86_64-linux-gnu/librocksdb.so.7.8.3");
    let at = Site { module: rocksdb, offset: 0x1a2b3c, ..site(Kind::Recursive) };
    assert_eq!(chosen(&policy, &at), "mcs-stp");
    assert_eq!(chosen(&policy, &Site { offset: 0x1a2b3d, ..at }), "passthrough");

    let insert = Some("_ZN7rocksdb8LRUCache6InsertERKNS_5SliceE");
    let within = Site { symbol: insert, ..site(Kind::Normal) };
    assert_eq!(chosen(&policy, &within), "ticket");
    assert_eq!(chosen(&policy, &Site { kind: Kind::Rwlock, ..within }), "gcr(mcs-stp)");

    let global = Site { lock_symbol: Some("global_mutex"), ..site(Kind::Recursive) };
    assert_eq!(chosen(&policy, &global), "ttas");
    assert_eq!(policy.choose(&global).unwrap().line, 13);
}

#[test]
fn a_static_lock_is_named_by_its_place_in_a_file() {
    let text = "[[rule]]\nsymbol = \"libfoo.so+0x4040\"\nkind = \"mutex\"\nlock = \"tas\"\n";
    let policy = Policy::parse(text).unwrap();
    assert!(policy.needs_lock_location() && !policy.needs_lock_symbol() && !policy.needs_location());
    assert_eq!(policy.rules[0].symbol.as_ref().unwrap().to_string(), "libfoo.so+0x4040");
    let lock = Site { lock_module: Some("/lib/libfoo.so.1"), lock_offset: 0x4040, ..site(Kind::Normal) };
    assert_eq!(chosen(&policy, &lock), "tas");
    assert_eq!(chosen(&policy, &Site { lock_offset: 0x4068, ..lock }), "passthrough");
    assert_eq!(chosen(&policy, &Site { lock_module: Some("/lib/libc.so.6"), ..lock }), "passthrough");
    // The code that takes it is another place.
    let code = Site { module: lock.lock_module, offset: 0x4040, ..site(Kind::Normal) };
    assert_eq!(chosen(&policy, &code), "passthrough");
}

#[test]
fn what_the_library_need_not_look_up() {
    let policy = Policy::parse(EXAMPLE).unwrap();
    assert!(policy.needs_function() && policy.needs_location() && policy.needs_lock_symbol());
    let policy = Policy::parse("default = \"ttas\"").unwrap();
    assert!(!policy.needs_function() && !policy.needs_location() && !policy.needs_lock_symbol());
}

#[test]
fn without_a_default_nothing_changes() {
    assert_eq!(Policy::parse("").unwrap().default, Choice::Passthrough);
}

/// By itself it leaves other locks to glibc, which a rule may do for those that it happens to match.
#[test]
fn a_reader_writer_lock_by_itself_is_for_reader_writer_locks() {
    for condition in ["kind = \"rwlock\"", "init = \"main\"", "symbol = \"table\""] {
        let policy = Policy::parse(&format!("[[rule]]\n{condition}\nlock = \"c-rw-np\"")).unwrap();
        assert_eq!(
            (policy.rules[0].lock.mutex(), policy.rules[0].lock.to_string()),
            (None, "c-rw-np".into())
        );
    }
    let policy = Policy::parse("[[rule]]\nkind = \"mutex\"\nlock = \"pthread+c-rw-np\"").unwrap();
    assert_eq!(policy.rules[0].lock.mutex(), None);
}

#[test]
fn errors_have_a_place_and_a_mend() {
    for (text, expected) in [
        ("default = \"mcs-stpp\"", "line 1, column 12: unknown lock `mcs-stpp`: did you mean `mcs-stp`?"),
        (
            "default = \"gcr(mcs-stp, activ=3)\"",
            "line 1, column 25: `gcr` has no knob `activ`: did you mean `active`?",
        ),
        ("default = 'gcr('", "line 1, column 16: "),
        ("default = 3", "line 1, column 11: expected a lock such as \"mcs-stp\" in quotes, found integer"),
        ("defualt = \"ttas\"", "line 1, column 1: a policy has no key `defualt`: did you mean `default`?"),
        ("rule = 3", "line 1, column 8: rules are written as tables headed [[rule]]"),
        ("[rule]\nlock = \"ttas\"", "rules are written as tables headed [[rule]]"),
        ("[[rule]]\nlock = \"ttas\"", "line 1, column 1: the rule has no condition"),
        ("\n[[rule]]\nkind = \"spin\"", "line 2, column 1: the rule has no lock"),
        ("[[rule]]\nkid = \"spin\"", "line 2, column 1: a rule has no key `kid`: did you mean `kind`?"),
        (
            "[[rule]]\nwhatever = 1",
            "a rule has no key `whatever`: it has `init`, `symbol`, `kind` and `lock`",
        ),
        (
            "[[rule]]\nkind = \"recursiv\"",
            "line 2, column 8: unknown kind `recursiv`: did you mean `recursive`?",
        ),
        (
            "[[rule]]\nkind = \"mutex\"\nlock = \"c-rw-np\"",
            "line 3, column 9: `c-rw-np` is a reader-writer lock, and the rule's kind is `mutex`: name another lock such as \
             `mcs-stp`, or write kind = \"rwlock\"",
        ),
        (
            "[[rule]]\nlock = ' bravo(rw-ttas)'\nkind = \"spin\"",
            "line 2, column 10: `bravo(rw-ttas)` is a reader-writer lock, and the rule's kind is `spin`: ",
        ),
        ("[[rule]]\ninit = \"libfoo.so+0xzz\"", "line 2, column 8: `0xzz` is no offset"),
        ("[[rule]]\ninit = \"+0x12\"", "line 2, column 8: the module is missing"),
        ("[[rule]]\ninit = \"a::\"", "line 2, column 8: `a::` is no symbol: a part of the name is empty"),
        ("[[rule]]\nsymbol = \"libfoo.so+0xzz\"", "line 2, column 10: `0xzz` is no offset"),
        ("[[rule]]\nsymbol = \"\"", "line 2, column 10: `` is no symbol"),
        ("default = \"ttas\"\ndefault = \"tas\"", "line 2, column 1: duplicate key"),
        ("default = ", "line 1, column 11: "),
        ("'ä' = 'ö' x", "line 1, column 11: "),
    ] {
        let error = Policy::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,80}") {
        let _ = Policy::parse(&text);
    }

    #[test]
    fn near_misses_are_parsed_or_refused(
        cut in 0..EXAMPLE.len(),
        length in 0_usize..12,
        inserted in "[\\[\\]\"'=#.,(){}\n a-z0-9+]{0,6}",
    ) {
        let mut text = EXAMPLE.to_owned();
        text.replace_range(cut..(cut + length).min(EXAMPLE.len()), &inserted);
        if let Err(error) = Policy::parse(&text) {
            let lines = text.split('\n').count();
            prop_assert!((1..=lines).contains(&error.line), "{error} in {text:?}");
        }
    }

    #[test]
    fn any_symbol_can_be_asked_about(symbol in "_Z[NZSIELXJTADCUKB_a-z0-9]{0,24}|\\PC{0,24}") {
        let policy = Policy::parse(EXAMPLE).unwrap();
        let _ = policy.choose(&Site { symbol: Some(&symbol), lock_symbol: Some(&symbol), ..site(Kind::Normal) });
    }
}
