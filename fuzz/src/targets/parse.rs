//! Any bytes as a configuration: compile, show what is wrong, print, and compile what was printed.

use millrace_lang::{
    Diagnostic, Graph, Options, SourceId, SourceMap, Style, compile, format, print_flat, render_all,
};

pub(super) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Compiled { flat, configs, diagnostics, mut map, source } = compile_text(&text, None);
    render_all(&diagnostics, &map, Style::Snippet { color: false });
    render_all(&diagnostics, &map, Style::Click);

    // Laid out, it means the same, and stays as it is.
    if let Ok(printed) = format(&mut map, source) {
        let mut again = compile_text(&printed, None);
        assert_eq!(flat, again.flat, "{text}\n----\n{printed}");
        assert_eq!(format(&mut again.map, again.source).ok().as_ref(), Some(&printed), "{text}");
    }

    // A flat configuration that is right is its own flat configuration, unless the value of a
    // variable has broken a string.
    if !diagnostics.iter().any(Diagnostic::is_error) && configs.iter().all(|c| is_whole(c)) {
        assert_eq!(flat, compile_text(&flat, None).flat, "{text}");
    }

    let classes = ["Queue", "Idle", "Discard", "Counter"].map(str::to_owned);
    let Compiled { diagnostics, map, .. } = compile_text(&text, Some(&classes));
    render_all(&diagnostics, &map, Style::Snippet { color: true });
}

struct Compiled {
    flat: String,
    /// The configuration strings of the elements.
    configs: Vec<String>,
    diagnostics: Vec<Diagnostic>,
    map: SourceMap,
    source: SourceId,
}

fn compile_text(text: &str, classes: Option<&[String]>) -> Compiled {
    let mut map = SourceMap::default();
    let source = map.add("fuzz", text);
    let params = [("P".to_owned(), "value".to_owned())];
    let options = Options { classes, params: &params, ..Options::default() };
    let (graph, diagnostics) = compile(&mut map, source, &options);
    check(&graph);
    let flat = print_flat(&graph);
    let configs = graph.elements.into_iter().map(|element| element.config.text).collect();
    Compiled { flat, configs, diagnostics, map, source }
}

/// True when a configuration string is the same when it is read again.
fn is_whole(config: &str) -> bool {
    let mut map = SourceMap::default();
    let source = map.add("config", format!("X({config});"));
    let (graph, diagnostics) = compile(&mut map, source, &Options::default());
    diagnostics.is_empty() && graph.elements.len() == 1 && graph.elements[0].config.text == config
}

/// Connections join elements that exist.
fn check(graph: &Graph) {
    for connection in &graph.connections {
        assert!(connection.from.0 < graph.elements.len() && connection.to.0 < graph.elements.len());
    }
}
