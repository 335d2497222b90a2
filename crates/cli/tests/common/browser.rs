//! A headless Chromium, driven through the DevTools protocol over a pair of pipes: no port, no network.
#![allow(unreachable_pub, reason = "a module of a test")]

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use serde_json::{Value, json};

/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

const FLAGS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
    "about:blank",
];

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: PipeWriter,
    messages: Receiver<Value>,
    session: String,
    last_id: u64,
    /// Every event of the page since it was opened.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser with a new profile and opens an empty page.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let (browser_reads, to) = std::io::pipe().unwrap();
        let (from, browser_writes) = std::io::pipe().unwrap();
        let mut command = Command::new("chromium");
        command.arg(format!("--user-data-dir={}", profile.path().display())).args(FLAGS);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mapping = |fd: OwnedFd, child_fd| FdMapping { parent_fd: fd, child_fd };
        command
            .fd_mappings(vec![mapping(browser_reads.into(), 3), mapping(browser_writes.into(), 4)])
            .unwrap();
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("chromium cannot be started ({error}): run scripts/setup.sh"));
        // The command holds the browser's ends of the pipes.
        drop(command);
        let messages = receive(from);
        let mut browser = Browser {
            child,
            to,
            messages,
            session: String::new(),
            last_id: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol and waits for its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let answer = self.receive(method);
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn receive(&self, what: &str) -> Value {
        self.messages
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|error| panic!("{what}: the browser is silent: {error}"))
    }

    /// Opens a file and waits until it is loaded.
    pub fn open(&mut self, file: &Path) -> String {
        let url = format!("file://{}", file.canonicalize().unwrap().display());
        let seen = self.events.len();
        self.call("Page.navigate", json!({ "url": url }));
        while !self.events[seen..].iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive("the page");
            self.events.push(event);
        }
        url
    }

    /// The value of a JavaScript expression.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            self.call(
                "Input.dispatchKeyEvent",
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code }),
            );
        }
    }

    /// Prefers light or dark.
    pub fn scheme(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// A window of this width, in CSS pixels.
    pub fn width(&mut self, width: u32) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false }),
        );
    }

    /// The parameters of all events of this name so far.
    pub fn events_of<'a>(&'a self, method: &'a str) -> impl Iterator<Item = &'a Value> + 'a {
        self.events.iter().filter(move |event| event["method"] == method).map(|event| &event["params"])
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Splits what the browser says at its zero bytes.
fn receive(from: PipeReader) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for message in BufReader::new(from).split(0).map_while(Result::ok) {
            let Ok(message) = serde_json::from_slice(&message) else {
                return;
            };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    receiver
}
