//! The seeds of the fuzz target, and what it found.

use std::path::Path;

use millrace_lang::{Diagnostic, Options, SourceMap, compile, format, print_flat};

/// Flat text and messages.
fn flatten(text: &str) -> (String, Vec<Diagnostic>) {
    let mut map = SourceMap::default();
    let source = map.add("text", text);
    let (graph, diagnostics) = compile(&mut map, source, &Options::default());
    (print_flat(&graph), diagnostics)
}

fn pretty(text: &str) -> Option<String> {
    let mut map = SourceMap::default();
    let source = map.add("text", text);
    format(&mut map, source).ok()
}

/// What must hold for any text: laid out it means the same, and laying out again changes nothing.
#[track_caller]
fn check(text: &str) {
    let (flat, _) = flatten(text);
    if let Some(printed) = pretty(text) {
        assert_eq!(flatten(&printed).0, flat, "{text}\n----\n{printed}");
        assert_eq!(pretty(&printed).as_ref(), Some(&printed), "{text}");
    }
}

#[test]
fn seeds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/parse");
    let mut count = 0;
    for entry in std::fs::read_dir(seeds).unwrap() {
        let path = entry.unwrap().path();
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        check(&text);
        // Cut anywhere, it is still read.
        for (end, _) in text.char_indices().step_by(7) {
            check(&text[..end]);
        }
        // What fuzzing added has the name of its hash.
        if path.extension().is_none_or(|extension| extension != "click") {
            continue;
        }
        let (flat, diagnostics) = flatten(&text);
        let broken = path.ends_with("broken.click");
        assert_eq!(diagnostics.iter().any(Diagnostic::is_error), broken, "{diagnostics:#?}");
        assert!(broken || flat.contains(" :: "), "{}", path.display());
        count += 1;
    }
    assert!(count >= 7, "{count} seeds");
}
