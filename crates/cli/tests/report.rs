//! The report in a real browser: charts drawn, no console message, no request; keyboard, labels, light and dark.

#[path = "common/browser.rs"]
mod browser;
mod common;

use std::path::PathBuf;

use browser::Browser;
use common::{lockwork, output, script};
use serde_json::{Value, json};

const THREADS: usize = 3;
const LOCKS: usize = 5;

/// A report with everything in it: faster, slower, equal, collapsed and failed locks, two metrics, odd characters.
fn report(directory: &std::path::Path, threads: &str) -> PathBuf {
    let program = script(
        directory,
        "program",
        r#"#!/bin/sh
lock=${LOCKWORK_LOCK:-pthread}
case $lock-$1 in
ticket-32) sleep 1000 ;;
mcs-stp-8) kill -SEGV $$ ;;
ttas-*) score=250 ;;
ticket-*) score=40 ;;
*) score=100 ;;
esac
echo "score: $score ops/sec"
echo "<p99 & \"more\">: $((5000 / score)) us"
"#,
    );
    let out = directory.join("report");
    let mut command = lockwork();
    command.args(["compare", "--locks", "pthread,ttas,ticket,mcs-stp,gcr(mcs-stp, active=4)"]);
    command.args(["--threads", threads, "--timeout", "4", "--out"]).arg(&out);
    command.args(["--metric", r"+score=(\d+) ops/sec", "--metric", r#"<p99 & "more">: (\d+)"#]);
    let (status, _, stderr) = output(command.arg("--").arg(program).arg("{threads}"));
    assert_eq!(status, Some(0), "{stderr}");
    out.join("report.html")
}

/// Everything a page can complain about.
fn complaints(browser: &Browser) -> Vec<&Value> {
    ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"]
        .into_iter()
        .flat_map(|method| browser.events_of(method))
        .collect()
}

/// Only the page itself was asked for.
fn assert_no_request_leaves(browser: &Browser, url: &str) {
    let urls: Vec<&str> = browser
        .events_of("Network.requestWillBeSent")
        .filter_map(|event| event["request"]["url"].as_str())
        .collect();
    assert!(urls.contains(&url), "{urls:?}");
    assert!(urls.iter().all(|asked| *asked == url || asked.starts_with("data:")), "{urls:?}");
}

#[test]
fn the_report_in_a_browser() {
    let directory = tempfile::tempdir().unwrap();
    let report = report(directory.path(), "2,8,32");
    let text = std::fs::read_to_string(&report).unwrap();
    assert!(!text.contains("://"), "a self-contained page names no address");

    let mut browser = Browser::start();
    browser.width(1200);
    browser.scheme("light");
    let url = browser.open(&report);
    charts_are_drawn(&mut browser);
    everything_has_a_name(&mut browser);
    the_keyboard_reaches_the_points(&mut browser);
    the_legend_hides_and_shows(&mut browser);
    tables_have_the_same_figures(&mut browser);
    light_and_dark(&mut browser);
    narrow_screens(&mut browser);
    assert_eq!(complaints(&browser), Vec::<&Value>::new());
    assert_no_request_leaves(&browser, &url);
}

fn charts_are_drawn(browser: &mut Browser) {
    // Lines and ratios for each of two metrics.
    assert_eq!(browser.evaluate("document.querySelectorAll('svg.chart').length"), 4);
    let drawn = browser.evaluate(
        "[...document.querySelectorAll('svg.chart')].map((chart) => {
            const box = chart.getBoundingClientRect();
            const marks = [...chart.querySelectorAll('.mark, .cross')];
            const inside = marks.every((mark) => {
                const own = mark.getBoundingClientRect();
                return own.width > 3 && own.height > 3 && own.left >= box.left && own.right <= box.right
                    && own.top >= box.top && own.bottom <= box.bottom;
            });
            const colours = new Set(marks.map((mark) => getComputedStyle(mark).fill + getComputedStyle(mark).stroke));
            return { width: box.width, height: box.height, points: chart.querySelectorAll('.pt').length,
                crosses: chart.querySelectorAll('.cross').length, whiskers: chart.querySelectorAll('.whisker').length,
                marks: marks.length, inside, colours: colours.size, ticks: chart.querySelectorAll('.tick').length };
        })",
    );
    for (index, chart) in drawn.as_array().unwrap().iter().enumerate() {
        // A ratio chart leaves out the baseline.
        let rows = if index % 2 == 0 { LOCKS } else { LOCKS - 1 };
        assert_eq!(chart["points"], rows * THREADS, "{chart}");
        assert_eq!(chart["marks"], rows * THREADS, "{chart}");
        assert_eq!(chart["crosses"], 2, "one collapsed, one failed: {chart}");
        assert_eq!(chart["whiskers"], rows * THREADS - 2, "{chart}");
        assert_eq!(chart["inside"], true, "{chart}");
        assert!(
            chart["width"].as_f64().unwrap() > 600.0 && chart["height"].as_f64().unwrap() > 200.0,
            "{chart}"
        );
        assert!(chart["colours"].as_u64().unwrap() >= rows as u64, "{chart}");
        assert!(chart["ticks"].as_u64().unwrap() >= 3, "{chart}");
    }
    let bands = browser
        .evaluate("[...document.querySelectorAll('#lines-0-title ~ g .tick.bad')].map((t) => t.textContent)");
    assert_eq!(bands, json!(["collapsed", "failed"]));
}

fn everything_has_a_name(browser: &mut Browser) {
    let names = browser.evaluate(
        "[...document.querySelectorAll('svg.chart')].every((chart) =>
            chart.getAttribute('aria-labelledby').split(' ').every((id) => document.getElementById(id).textContent.length > 10))",
    );
    assert_eq!(names, true);
    // What a screen reader gets, computed by the browser.
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().unwrap();
    let named = |role: &str| -> Vec<&str> {
        nodes
            .iter()
            .filter(|node| node["role"]["value"] == role && node["ignored"] == false)
            .filter_map(|node| node["name"]["value"].as_str())
            .collect()
    };
    let images = named("image");
    assert_eq!(images.len(), 2 * THREADS * (LOCKS + LOCKS - 1), "{images:?}");
    for expected in [
        "ticket, 32 threads: collapsed (1/1 timed out, gave up)",
        "mcs-stp, 8 threads: failed (7/7 runs)",
        "ttas, 2 threads: score 250.0 (95% interval 250.0 – 250.0); 2.50× the baseline's (2.50× – 2.50×); faster",
    ] {
        assert!(images.contains(&expected), "{expected}: {images:#?}");
    }
    assert!(named("heading").contains(&"At a glance"));
    assert!(named("button").contains(&"gcr(mcs-stp, active=4)"));
}

fn the_keyboard_reaches_the_points(browser: &mut Browser) {
    browser.evaluate("document.querySelector('.legend li:last-child button').focus()");
    browser.press("Tab", 9);
    let focused = "({ label: document.activeElement.getAttribute('aria-label'),
        ring: getComputedStyle(document.activeElement.querySelector('.hit') ?? document.activeElement).stroke,
        tip: document.querySelector('.tip').hidden ? null : document.querySelector('.tip').textContent })";
    let first = browser.evaluate(focused);
    assert!(first["label"].as_str().is_some_and(|label| label.starts_with("pthread, 2 threads")), "{first}");
    assert_ne!(first["ring"], "none", "the focus is visible");
    assert_eq!(first["tip"], first["label"], "focus shows what hovering shows");
    browser.press("ArrowRight", 39);
    let second = browser.evaluate(focused);
    assert!(
        second["label"].as_str().is_some_and(|label| label.starts_with("pthread, 8 threads")),
        "{second}"
    );
    browser.press("End", 35);
    let last = browser.evaluate(focused);
    assert!(
        last["label"].as_str().is_some_and(|label| label.starts_with("gcr(mcs-stp, active=4), 32")),
        "{last}"
    );
    browser.press("Escape", 27);
    assert_eq!(browser.evaluate("document.querySelector('.tip').hidden"), true);
    browser.press("Tab", 9);
    assert_eq!(
        browser.evaluate("document.activeElement.closest('#lines-0-title ~ *')"),
        Value::Null,
        "no trap"
    );
}

fn the_legend_hides_and_shows(browser: &mut Browser) {
    let visible = "[...document.querySelectorAll('.chart .pt')].filter((p) => getComputedStyle(p).display !== 'none').length";
    let all = browser.evaluate(visible).as_u64().unwrap();
    browser.evaluate("document.querySelector('.legend [data-series=\"1\"] button').click()");
    // Gone from all four charts, and said so in both legends.
    assert_eq!(browser.evaluate(visible), all - 4 * THREADS as u64);
    assert_eq!(browser.evaluate("document.querySelectorAll('.legend [aria-pressed=\"false\"]').length"), 2);
    browser.evaluate("document.querySelector('.legend [data-series=\"1\"] button').click()");
    assert_eq!(browser.evaluate(visible), all);
}

fn tables_have_the_same_figures(browser: &mut Browser) {
    let rows = browser.evaluate(
        "[...document.querySelectorAll('section[aria-labelledby=\"metric-0\"] table tbody tr')].map((row) =>
            [...row.cells].map((cell) => cell.textContent.trim()))",
    );
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), LOCKS * THREADS);
    let row = |threads: &str, lock: &str| {
        rows.iter().find(|row| row[0] == threads && row[1] == lock).unwrap_or_else(|| panic!("{rows:?}"))
    };
    // Seven rounds that all say the same: 2 in 2^7, five times that by Holm's correction for five comparisons.
    let ttas = [
        "2",
        "ttas",
        "250.0",
        "250.0 – 250.0",
        "2.50×",
        "2.50× – 2.50×",
        "faster",
        "differs",
        "–",
        "0.078",
        "7",
    ];
    assert_eq!(*row("2", "ttas"), json!(ttas));
    let ticket =
        ["32", "ticket", "–", "–", "–", "–", "collapsed (1/1 timed out, gave up)", "–", "–", "–", "0 of 1"];
    assert_eq!(*row("32", "ticket"), json!(ticket));
    let reasons =
        browser.evaluate("document.querySelector('section[aria-labelledby=\"bad-runs\"]').textContent");
    let reasons = reasons.as_str().unwrap();
    assert!(
        reasons.contains("killed by SIGSEGV") && reasons.contains("still running after 4 s"),
        "{reasons}"
    );
}

/// Text and marks must stand out from their ground in both schemes: WCAG's 4.5 and 3.
fn light_and_dark(browser: &mut Browser) {
    let contrasts = "(() => {
        const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        const luminance = (colour) => {
            const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
            return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
        };
        const contrast = (a, b) => {
            const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
            return (high + 0.05) / (low + 0.05);
        };
        const ground = getComputedStyle(document.querySelector('section')).backgroundColor;
        const least = (selector, property) => Math.min(...[...document.querySelectorAll(selector)].map((element) => {
            const style = getComputedStyle(element);
            const own = style.backgroundColor;
            return contrast(style[property], own === 'rgba(0, 0, 0, 0)' ? ground : own);
        }));
        return { ground, text: least('section p, section td, section dd, .badge', 'color'),
            labels: least('svg .tick:not(.bad), svg .axis, svg .name, svg .said', 'fill'), marks: least('.chart .mark', 'fill'),
            crosses: least('.cross', 'stroke') };
    })()";
    let light = browser.evaluate(contrasts);
    browser.scheme("dark");
    let dark = browser.evaluate(contrasts);
    assert_ne!(light["ground"], dark["ground"]);
    for scheme in [&light, &dark] {
        for (what, least) in [("text", 4.5), ("labels", 4.5), ("marks", 3.0), ("crosses", 3.0)] {
            assert!(scheme[what].as_f64().unwrap() >= least, "{what}: {scheme}");
        }
    }
}

fn narrow_screens(browser: &mut Browser) {
    browser.width(360);
    // The second frame is drawn after the page was told of its new size.
    let overflow = browser.evaluate(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done({
            by: document.documentElement.scrollWidth - window.innerWidth,
            what: [...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll, [hidden], .skip')
                && e.getBoundingClientRect().right > window.innerWidth).map((e) => e.outerHTML.slice(0, 80)),
        }))))",
    );
    assert!(overflow["by"].as_i64().unwrap() <= 0, "the page scrolls sideways: {overflow}");
}

#[test]
fn without_javascript_nothing_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let report = report(directory.path(), "2");
    let mut browser = Browser::start();
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    let url = browser.open(&report);
    let document = browser.call("DOM.getDocument", json!({}));
    let mut count = |selector: &str| {
        let parameters = json!({ "nodeId": document["root"]["nodeId"], "selector": selector });
        let found = browser.call("DOM.querySelectorAll", parameters);
        found["nodeIds"].as_array().unwrap().len()
    };
    assert_eq!(count("button"), 0, "the scripts did not run");
    // With one thread count: values and ratios for each of two metrics.
    assert_eq!(count("svg.chart"), 4);
    assert_eq!(count(".pt[tabindex='0'] > title"), 2 * (LOCKS + LOCKS - 1));
    assert_eq!(count("#values-0-title ~ .pt .run"), 7 * LOCKS);
    assert_eq!(count(".legend li"), 2 * LOCKS);
    assert_eq!(complaints(&browser), Vec::<&Value>::new());
    assert_no_request_leaves(&browser, &url);
}
