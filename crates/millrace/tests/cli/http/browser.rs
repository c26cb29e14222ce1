//! A Chromium without a window, and its DevTools protocol over a pipe.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use millrace_testkit::find_program;
use serde_json::{Value, json};

/// For what takes a moment on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page. It ends when this is dropped.
pub(super) struct Browser {
    child: Child,
    to: RefCell<ChildStdin>,
    from: Receiver<Value>,
    asked: Cell<u64>,
    session: RefCell<Option<String>>,
    /// Errors of scripts, of the console, of requests.
    pub(super) complaints: RefCell<Vec<String>>,
    /// The addresses of all requests.
    pub(super) requests: RefCell<Vec<String>>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// The path of a Chromium, or of what is built from it.
    pub(super) fn installed() -> Option<std::path::PathBuf> {
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(find_program)
    }

    pub(super) fn start(program: &std::path::Path, url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // It speaks on the descriptors 3 and 4. The page is ours, so no sandbox, which root cannot have, is needed.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#])
            .arg(program)
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = RefCell::new(child.stdin.take().unwrap());
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            for message in out.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap_or_default();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let browser = Self {
            child,
            to,
            from,
            asked: Cell::new(0),
            session: RefCell::new(None),
            complaints: RefCell::default(),
            requests: RefCell::default(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", target);
        *browser.session.borrow_mut() = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Runtime", "Log", "Network", "Page"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.call("Page.navigate", json!({ "url": url }));
        browser
    }

    /// Calls a method of the protocol.
    pub(super) fn call(&self, method: &str, params: Value) -> Value {
        let id = self.asked.get() + 1;
        self.asked.set(id);
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &*self.session.borrow() {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.to.borrow_mut().write_all(&bytes).unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            let message = self.from.recv_timeout(rest).unwrap_or_else(|e| panic!("{method}: {e}"));
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                self.requests.borrow_mut().push(url.to_owned());
            }
            "Runtime.exceptionThrown" | "Log.entryAdded" => {
                self.complaints.borrow_mut().push(params.to_string());
            }
            "Runtime.consoleAPICalled" if params["type"] == "error" => {
                self.complaints.borrow_mut().push(params.to_string());
            }
            _ => {}
        }
    }

    /// The value of an expression in the page.
    pub(super) fn value(&self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(super) fn wait_for(&self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.value(&format!("Boolean({expression})")) != true {
            let page = || self.value("document.body.innerText");
            assert!(Instant::now() < end, "{expression}: {} {:?}", page(), self.complaints);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Gives the page this size and this colour scheme.
    pub(super) fn look(&self, width: u32, height: u32, scheme: &str) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", scheme);
    }

    /// The page as PNG.
    pub(super) fn picture(&self) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        from_base64(answer["data"].as_str().unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The shell has become the browser, which ends its own processes.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0, |bits, &byte| bits << 6 | u32::from(digit(byte)));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

#[test]
fn base64_is_read() {
    for (text, bytes) in [("", ""), ("TQ==", "M"), ("TWE=", "Ma"), ("TWFu+/8=", "Man\u{fb}\u{ff}")]
    {
        let expected: Vec<u8> = bytes.chars().map(|c| c as u8).collect();
        assert_eq!(from_base64(text), expected, "{text}");
    }
}
