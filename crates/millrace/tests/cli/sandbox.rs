//! The sandbox of `millrace run`, as far as it needs no privileges: what configurations name is reached, nothing else is.

use std::path::Path;

use crate::run::json;
use crate::{Done, millrace};

/// Runs a configuration in which `HERE` stands for a folder.
fn run(folder: &Path, config: &str, options: &[&str]) -> Done {
    let config = config.replace("HERE", &folder.display().to_string());
    let mut words = vec!["run", "--json"];
    words.extend(options);
    words.extend(["-e", &config]);
    millrace(&words)
}

/// What the program says of the sandbox.
fn line(done: &Done) -> &str {
    done.stderr.lines().find(|line| line.starts_with("sandbox:")).unwrap()
}

/// A source with these arguments, and an element that counts its packets.
fn counted(source: &str) -> String {
    format!(
        "InfiniteSource(DATA \\<450000140000000000000000 01020304 05060708>, LIMIT 10 {source})
         -> MarkIPHeader(0) -> AggregateIP(ip src) -> counts :: AggregateCounter"
    )
}

/// Configurations in which elements call a handler that writes a file.
fn calling(call: &str) -> [String; 4] {
    let stop = "Script(wait 0.1s, stop)";
    [
        format!("{} -> Counter(COUNT_CALL 5 {call}) -> Discard; {stop}", counted("")),
        format!("{} -> Discard; {stop}", counted(&format!(", END_CALL {call}"))),
        format!("{} -> Discard; PokeHandlers(0.05, write {call}, stop)", counted("")),
        format!("{} -> Discard; Script(wait 0.05s, write {call}, stop)", counted("")),
    ]
}

#[test]
fn files_of_handlers_that_arguments_call_are_reached() {
    for config in calling("counts.write_file HERE/counts") {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("beside"), "untouched").unwrap();
        let done = run(folder.path(), &config, &[]);
        assert_eq!(json(&done)["sandbox"]["holds"], true, "{config}: {}", done.stderr);
        assert!(!done.stderr.contains("Permission denied"), "{config}: {}", done.stderr);
        let counts = std::fs::read_to_string(folder.path().join("counts")).unwrap();
        assert!(counts.starts_with("!IPAggregate"), "{config}: {counts}\n{}", done.stderr);
        // For a file that is named, no folder is open.
        assert!(!line(&done).contains("files can be"), "{}", done.stderr);
    }
}

#[test]
fn a_name_that_is_put_together_is_not_reached_without_permission() {
    let config = "Script(set name other, print >HERE/$name \"text\", stop)";
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    let done = run(folder.path(), config, &[]);
    assert!(done.stderr.contains("Permission denied (in the sandbox"), "{}", done.stderr);
    assert!(!other.exists());
    let done = run(folder.path(), config, &["--allow-path", folder.path().to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "text\n");
    let opened = format!("all files in {} can be changed", folder.path().display());
    assert!(line(&done).contains(&opened), "{}", done.stderr);
}

#[test]
fn what_is_open_is_said() {
    let config = "FromDump(HERE/in.pcap, STOP true) -> ToIPFlowDumps(HERE/flows/%n, GZIP true)";
    let folder = tempfile::tempdir().unwrap();
    let made =
        run(folder.path(), "InfiniteSource(LIMIT 1, STOP true) -> ToDump(HERE/in.pcap)", &[]);
    assert!(!line(&made).contains("files can be"), "a file that is open opens nothing else");
    let done = run(folder.path(), config, &[]);
    let opened =
        format!("files can be made and removed in {}/flows, starts gzip", folder.path().display());
    assert!(line(&done).contains(&opened), "{}", done.stderr);
}

#[test]
fn a_path_to_allow_that_is_not_there_is_an_error() {
    let done = millrace(&["run", "--allow-path", "/no/such/path", "-e", "Idle -> Discard"]);
    assert_eq!(done.status, 1);
    let message = "millrace: --allow-path /no/such/path: No such file or directory\n";
    assert!(done.stderr.ends_with(message), "{}", done.stderr);
}

#[test]
fn a_router_that_is_held_by_nothing_does_not_say_that_it_is() {
    let done = millrace(&["run", "--json", "--no-sandbox", "-e", "Script(stop)"]);
    let summary = json(&done);
    assert_eq!(summary["sandbox"]["holds"], false);
    assert_eq!(summary["sandbox"]["line"], "sandbox: none (--no-sandbox)");
}

#[test]
fn a_compressed_file_is_left_before_its_end() {
    // Its helper gets no signal in the sandbox; whoever waited for it would wait for ever.
    let folder = tempfile::tempdir().unwrap();
    let many = "InfiniteSource(LIMIT 200000, STOP true) -> ToDump(HERE/in.pcap.gz)";
    assert_eq!(run(folder.path(), many, &[]).status, 0);
    let few = "FromDump(HERE/in.pcap.gz) -> c :: Counter(COUNT_CALL 5 stop) -> Discard";
    let done = run(folder.path(), few, &[]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(line(&done).contains("starts zcat"), "{}", done.stderr);
}
