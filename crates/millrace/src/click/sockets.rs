//! The options `-p` and `-u`: control sockets, which are added to the configuration as elements.

use std::path::Path;

use millrace_lang::config::quote;
use millrace_lang::{ConfigText, ElementDecl, LineMark, Span};

use super::options::Options;
use crate::config::Loaded;
use crate::control::Address;

/// Adds an element for each control socket that the options ask for. `more` is appended to its arguments.
pub(super) fn add(options: &Options, loaded: &mut Loaded, more: &str) {
    let file = |path: &Path| {
        // Click quotes no file names. Here, names that would not be read back unchanged are quoted.
        let name = path.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "./_-+@=:".contains(c);
        match name.chars().all(plain) && !name.contains("//") {
            true => format!("UNIX, {name}"),
            false => format!("UNIX, {}", quote(path.as_os_str().as_encoded_bytes())),
        }
    };
    let ports = options.ports.iter().map(|address| match address {
        Address::Tcp { port, or_next, .. } => {
            format!("TCP, {port}{}", if *or_next { "+" } else { "" })
        }
        Address::Unix(path) => file(path),
    });
    let files = options.sockets.iter().map(|path| file(path));
    let source = loaded.map.add("click", "");
    // Messages name the program instead of a line of the configuration.
    loaded.map.set_marks(source, vec![LineMark { start: 0, end: 0, line: 0, file: None }]);
    let span = Span { source, start: 0, end: 0 };
    for (n, config) in ports.chain(files).enumerate() {
        let name = match n {
            0 => "click_driver@@ControlSocket".to_owned(),
            n => format!("click_driver@@ControlSocket@{n}"),
        };
        loaded.graph.elements.push(ElementDecl {
            name,
            class: "ControlSocket".to_owned(),
            config: ConfigText { text: config + more, span, verbatim: false },
            span,
            class_span: span,
            landmark: "click".to_owned(),
        });
    }
}
