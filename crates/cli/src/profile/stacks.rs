//! Formats that are made of stacks: folded lines, pprof, Firefox's.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::ValueEnum;
use prost::Message;
use serde_json::{Value, json};

use super::symbols::Frame;
use super::view::View;

/// Whose stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// Those that waited
    Waiters,
    /// Those that made others wait: where they released the lock
    Holders,
}

/// A stack with what was waited there, or because of it.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) lock: String,
    /// The innermost first.
    pub(crate) frames: Vec<Frame>,
    pub(crate) ns: u64,
    pub(crate) count: u64,
}

/// The time waited, by the stacks of one side.
pub(crate) fn samples(view: &View, side: Side) -> Vec<Sample> {
    let mut sums: BTreeMap<(String, u32), (u64, u64)> = BTreeMap::new();
    for edge in &view.profile.edges {
        let Some(row) = view.row_of(edge.lock) else { continue };
        let stack = match side {
            Side::Waiters => edge.waiter,
            Side::Holders if edge.released != 0 => edge.released,
            Side::Holders => edge.acquired,
        };
        let sum = sums.entry((row.name.clone(), stack)).or_default();
        sum.0 += edge.ns;
        sum.1 += edge.count;
    }
    let unknown = || Frame { function: "unknown".to_owned(), ..Frame::default() };
    let sample = |((lock, stack), (ns, count)): ((String, u32), (u64, u64))| {
        let mut frames = view.stack(stack);
        if frames.is_empty() {
            frames.push(unknown());
        }
        Sample { lock, frames, ns, count }
    };
    sums.into_iter().map(sample).collect()
}

/// One line a stack, the outermost function first, with nanoseconds behind it: what flame graph tools read. The lock is the
/// last frame.
pub(crate) fn folded(view: &View, side: Side) -> String {
    let clean = |name: &str| name.replace(';', ":").replace('\n', " ");
    let mut text = String::new();
    for sample in samples(view, side) {
        for frame in sample.frames.iter().rev() {
            let _ = write!(text, "{};", clean(&frame.function));
        }
        let _ = writeln!(text, "[{}] {}", clean(&sample.lock), sample.ns);
    }
    text
}

/// The messages of pprof's `profile.proto`, as far as they are needed.
mod proto {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(super) kind: i64,
        #[prost(int64, tag = "2")]
        pub(super) unit: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Label {
        #[prost(int64, tag = "1")]
        pub(super) key: i64,
        #[prost(int64, tag = "2")]
        pub(super) text: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(super) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(super) value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub(super) label: Vec<Label>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Line {
        #[prost(uint64, tag = "1")]
        pub(super) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(super) line: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Location {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(message, repeated, tag = "4")]
        pub(super) line: Vec<Line>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Function {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "2")]
        pub(super) name: i64,
        #[prost(int64, tag = "3")]
        pub(super) system_name: i64,
        #[prost(int64, tag = "4")]
        pub(super) filename: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(super) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(super) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "4")]
        pub(super) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(super) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(super) string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(super) time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub(super) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(super) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(super) period: i64,
        #[prost(int64, tag = "14")]
        pub(super) default_sample_type: i64,
    }
}

/// Strings by number.
#[derive(Default)]
struct Strings(Vec<String>);

impl Strings {
    fn number(&mut self, text: &str) -> i64 {
        let place = self.0.iter().position(|there| there == text).unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        i64::try_from(place).unwrap_or(0)
    }
}

fn line_number(frame: &Frame) -> i64 {
    let line = frame.line.as_deref().and_then(|line| line.rsplit(':').next()?.parse().ok());
    line.unwrap_or(0)
}

/// For `pprof`: sample types as Go's mutex profile has them, the lock as a label.
pub(crate) fn pprof(view: &View, side: Side) -> Vec<u8> {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut strings = Strings::default();
    strings.number("");
    let mut profile = proto::Profile::default();
    let [contentions, count, delay, nanoseconds, lock] =
        ["contentions", "count", "delay", "nanoseconds", "lock"].map(|text| strings.number(text));
    profile.sample_type = vec![
        proto::ValueType { kind: contentions, unit: count },
        proto::ValueType { kind: delay, unit: nanoseconds },
    ];
    profile.default_sample_type = delay;
    profile.period_type = Some(proto::ValueType { kind: delay, unit: nanoseconds });
    profile.period = signed(view.profile.wait_period_ns);
    profile.time_nanos = signed(view.profile.date_ns);
    profile.duration_nanos = signed(view.profile.wall_ns);
    let mut known: BTreeMap<(String, Option<String>), u64> = BTreeMap::new();
    for sample in samples(view, side) {
        let mut location_id = Vec::new();
        for frame in &sample.frames {
            let next = known.len() as u64 + 1;
            let id = *known.entry((frame.function.clone(), frame.line.clone())).or_insert(next);
            if id == next {
                let name = strings.number(&frame.function);
                let file =
                    frame.line.as_deref().and_then(|line| line.rsplit_once(':')).map_or("", |(file, _)| file);
                let filename = strings.number(if file.is_empty() { &frame.module } else { file });
                profile.function.push(proto::Function { id, name, system_name: name, filename });
                let line = proto::Line { function_id: id, line: line_number(frame) };
                profile.location.push(proto::Location { id, line: vec![line] });
            }
            location_id.push(id);
        }
        let label = vec![proto::Label { key: lock, text: strings.number(&sample.lock) }];
        profile.sample.push(proto::Sample {
            location_id,
            value: vec![signed(sample.count), signed(sample.ns)],
            label,
        });
    }
    profile.string_table = strings.0;
    profile.encode_to_vec()
}

/// For the Firefox profiler: a "thread" for each side, with times waited as weights.
pub(crate) fn firefox(view: &View) -> Value {
    let profile = &view.profile;
    let threads: Vec<Value> = [(Side::Waiters, "waiters"), (Side::Holders, "holders")]
        .into_iter()
        .enumerate()
        .map(|(number, (side, name))| firefox_thread(view, side, name, number))
        .collect();
    json!({
        "meta": {
            "interval": 1,
            "startTime": profile.date_ns as f64 / 1e6,
            "processType": 0,
            "product": profile.name,
            "stackwalk": 1,
            "version": 27,
            "preprocessedProfileVersion": 48,
            "debug": false,
            "symbolicated": true,
            "importedFrom": "lockwork",
            "categories": [{ "name": "Waiting", "color": "orange", "subcategories": ["Other"] }],
            "markerSchema": [],
        },
        "libs": [],
        "pages": [],
        "threads": threads,
    })
}

fn firefox_thread(view: &View, side: Side, name: &str, number: usize) -> Value {
    let mut strings = Strings::default();
    let mut functions: Vec<i64> = Vec::new();
    let mut stacks: Vec<(Option<usize>, usize)> = Vec::new();
    let mut of_samples = Vec::new();
    let samples = samples(view, side);
    for sample in &samples {
        let mut prefix = None;
        let names = sample.frames.iter().rev().map(|frame| frame.function.clone());
        for function in names.chain([format!("[{}]", sample.lock)]) {
            let text = strings.number(&function);
            let frame = functions.iter().position(|there| *there == text).unwrap_or_else(|| {
                functions.push(text);
                functions.len() - 1
            });
            let place = stacks.iter().position(|there| *there == (prefix, frame)).unwrap_or_else(|| {
                stacks.push((prefix, frame));
                stacks.len() - 1
            });
            prefix = Some(place);
        }
        of_samples.push(prefix);
    }
    let same = |value: Value, length: usize| vec![value; length];
    let frames = functions.len();
    json!({
        "name": name,
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": Value::Null,
        "registerTime": 0,
        "unregisterTime": Value::Null,
        "pausedRanges": [],
        "isMainThread": number == 0,
        "pid": view.profile.pid.to_string(),
        "tid": number,
        "samples": {
            "weightType": "tracing-ms",
            "weight": samples.iter().map(|sample| sample.ns as f64 / 1e6).collect::<Vec<f64>>(),
            "stack": of_samples,
            "time": (0..samples.len()).collect::<Vec<usize>>(),
            "length": samples.len(),
        },
        "markers": { "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [], "length": 0 },
        "stackTable": {
            "frame": stacks.iter().map(|stack| stack.1).collect::<Vec<usize>>(),
            "prefix": stacks.iter().map(|stack| stack.0).collect::<Vec<Option<usize>>>(),
            "category": same(json!(0), stacks.len()),
            "subcategory": same(json!(0), stacks.len()),
            "length": stacks.len(),
        },
        "frameTable": {
            "address": same(json!(-1), frames),
            "inlineDepth": same(json!(0), frames),
            "category": same(json!(0), frames),
            "subcategory": same(json!(0), frames),
            "func": (0..frames).collect::<Vec<usize>>(),
            "nativeSymbol": same(Value::Null, frames),
            "innerWindowID": same(json!(0), frames),
            "implementation": same(Value::Null, frames),
            "line": same(Value::Null, frames),
            "column": same(Value::Null, frames),
            "length": frames,
        },
        "funcTable": {
            "name": functions,
            "isJS": same(json!(false), frames),
            "relevantForJS": same(json!(false), frames),
            "resource": same(json!(-1), frames),
            "fileName": same(Value::Null, frames),
            "lineNumber": same(Value::Null, frames),
            "columnNumber": same(Value::Null, frames),
            "length": frames,
        },
        "resourceTable": { "lib": [], "name": [], "host": [], "type": [], "length": 0 },
        "nativeSymbols": { "libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0 },
        "stringArray": strings.0,
    })
}
