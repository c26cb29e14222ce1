//! The program called as `click`.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{TempFile, click, click_command, command, with_input};

const SMALL: &str = "InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard";

#[test]
fn click_without_options_prints_nothing() {
    let done = click(&["-e", SMALL]);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str(), done.status), ("", "", 0));
}

#[test]
fn the_configuration_is_an_expression_a_file_or_standard_input() {
    let file = TempFile::new("a.click", SMALL);
    for done in [
        click(&["-e", SMALL, "-h", "c.count"]),
        click(&["-h", "c.count", &file.path()]),
        click(&["-f", &file.path(), "-hc.count"]),
        with_input(click_command().args(["-h", "c.count"]), SMALL),
        with_input(click_command().args(["-", "--handler=c.count"]), SMALL),
        click(&["-h", "c.count", "-e", &SMALL.replace('5', "$N"), "N=5"]),
    ] {
        assert_eq!((done.stdout.as_str(), done.stderr.as_str(), done.status), ("5\n", "", 0));
    }
}

#[test]
fn drops_are_listed_by_element_and_reason() {
    let done = click(&["-e", SMALL, "-h", "drops"]);
    assert_eq!(done.stdout, "Discard@3\tdiscarded\t5\n");
}

#[test]
fn several_handlers_have_headings() {
    let two = click(&["-e", SMALL, "-h", "c.count", "-h", "c.class"]);
    assert_eq!(two.stdout, "c.count:\n5\n\nc.class:\nCounter\n\n");
    let glob = click(&["-qe", "a :: Idle -> Discard", "-h", "*.class"]);
    assert_eq!(glob.stdout, "a.class:\nIdle\n\nDiscard@2.class:\nDiscard\n\n");
    let class = click(&["-qe", "a :: Idle -> Discard", "-h", "Idle.name"]);
    assert_eq!(class.stdout, "a.name:\na\n\n");
    let list = click(&["-qe", "a :: Idle -> Discard", "-h", "list"]);
    assert_eq!(list.stdout, "2\na\nDiscard@2\n");
    let config = click(&["-qe", "a :: Idle -> Discard", "-h", "config"]);
    assert_eq!(config.stdout, "a :: Idle -> Discard\n");
}

#[test]
fn handlers_that_are_not_there_are_an_error() {
    let done = click(&["-qe", "c :: Idle -> Discard", "-h", "c.x", "-h", "b.y", "-h", "z*.y"]);
    assert_eq!(done.status, 1);
    assert_eq!(done.stderr, "no ‘c.x’ handler\nno element ‘b’\nno element matching ‘z*’\n");
    let done = click(&["-qe", "count :: Idle -> Discard", "-h", "count.clas", "-h", "cuont.name"]);
    assert_eq!(
        done.stderr,
        "no ‘count.clas’ handler; did you mean ‘class’?\nno element ‘cuont’; did you mean ‘count’?\n"
    );
}

#[test]
fn the_flat_configuration_is_written() {
    let done = click(&["-qo-", "-e", "Idle -> Discard"]);
    assert_eq!(done.stdout, "Idle@1 :: Idle;\nDiscard@2 :: Discard;\n\nIdle@1 -> Discard@2;\n");
    let file = TempFile::new("out.click", "");
    assert_eq!(click(&["-q", "-o", &file.path(), "-e", "Idle -> Discard"]).status, 0);
    assert_eq!(file.read(), done.stdout);
    let done = click(&["-qo/no/such", "-e", "Idle -> Discard"]);
    assert_eq!(done.stderr, "/no/such: No such file or directory\n");
    assert_eq!(done.status, 1);
}

#[test]
fn after_syntax_errors_nothing_else_is_reported() {
    let done = click(&["-e", "Idle -> ;\nFoo(1) -> Discard"]);
    assert_eq!(done.status, 1);
    assert!(done.stderr.starts_with("config:1: "), "{}", done.stderr);
    assert!(done.stderr.contains("config:2: "), "{}", done.stderr);
    assert!(!done.stderr.contains("initialized"), "{}", done.stderr);
}

#[test]
fn the_last_line_says_that_the_router_could_not_be_initialized() {
    let done = click(&["-e", "Idle -> Queue(x) -> Discard"]);
    assert_eq!(done.status, 1);
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines[0], "config:1: While configuring ‘Queue@2 :: Queue’:");
    assert!(lines[1].starts_with("  "), "{lines:?}");
    assert_eq!(lines.last(), Some(&"Router could not be initialized!"));

    // Of a graph that does not hold together no element is configured.
    let done = click(&["-e", "Queue(x) -> Discard"]);
    assert_eq!(
        done.stderr,
        "config:1: ‘Queue@1 :: Queue’ input 0 unused\nRouter could not be initialized!\n"
    );
}

#[test]
fn quotation_marks_follow_the_locale() {
    let done =
        click_command().env("LC_ALL", "C").args(["-e", "Queue -> Discard"]).output().unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(stderr.starts_with("config:1: 'Queue@1 :: Queue' input 0 unused\n"), "{stderr}");
}

#[test]
fn the_exit_status_may_come_from_a_handler() {
    assert_eq!(click(&["-e", SMALL, "-x", "c.count"]).status, 5);
    let wrong = click(&["-e", SMALL, "-x", "c.class"]);
    assert_eq!(wrong.status, 255);
    assert_eq!(wrong.stderr, "exit handler value should be integer\n");
}

#[test]
fn time_is_reported() {
    let shape: String = click(&["-te", SMALL])
        .stdout
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!(shape, "0.000u 0.000s 0:00.00\n");
}

#[test]
fn an_empty_configuration_ends_at_once() {
    let done = click(&["-e", ""]);
    assert_eq!(done.status, 0);
    assert_eq!(done.stderr, "warning: config: configuration has no elements, exiting\n");
    assert_eq!(click(&["-we", ""]).stderr, "");
}

#[test]
fn nonsense_is_refused() {
    let done = click(&["a", "b"]);
    assert_eq!(done.status, 1);
    assert!(done.stderr.starts_with("click: router configuration specified twice\nUsage: click"));
    assert_eq!(click(&["/no/such.click"]).stderr, "/no/such.click: No such file or directory\n");
}

#[test]
fn a_port_in_use_is_an_error() {
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let done = click(&["-p", &port, "-e", SMALL]);
    assert_eq!(done.status, 1);
    assert_eq!(
        done.stderr,
        "click: While initializing ‘click_driver@@ControlSocket :: ControlSocket’:\n  \
         bind: Address already in use\nRouter could not be initialized!\n"
    );
    assert_eq!(click(&["-p", &format!("{port}+"), "-e", SMALL]).stderr, "");
}

#[test]
fn help_and_version_are_printed() {
    assert!(click(&["--help"]).stdout.contains("Usage: click [OPTION]..."));
    assert!(click(&["-v"]).stdout.starts_with("click (Millrace) "));
}

/// A folder with `click` in it, and that program as `millrace` beside it.
fn beside(program: Option<&str>) -> (tempfile::TempDir, Command) {
    // Where Cargo builds, for a hard link stays on one file system. A copy would be busy while another test's child is born.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let click = folder.path().join("click");
    std::fs::hard_link(env!("CARGO_BIN_EXE_click"), &click).unwrap();
    if let Some(program) = program {
        std::os::unix::fs::symlink(program, folder.path().join("millrace")).unwrap();
    }
    let command = command(click.to_str().unwrap());
    (folder, command)
}

#[test]
fn click_executes_the_program_in_its_directory() {
    let (folder, mut click) = beside(Some("/bin/sh"));
    let output = click.args(["-c", "echo $0 $$; exit 7"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let name = folder.path().join("click");
    assert!(text.starts_with(&format!("{} ", name.display())), "{text}");
    assert_eq!(output.status.code(), Some(7));

    let (_folder, mut click) = beside(Some("/bin/sh"));
    let mut child = click.args(["-c", "kill -TERM $$"]).spawn().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn symbolic_links_to_click_are_followed() {
    let (folder, _) = beside(Some(env!("CARGO_BIN_EXE_millrace")));
    let elsewhere = tempfile::tempdir().unwrap();
    for (name, said) in [("click", "Usage: click [OPTION]"), ("click-flatten", "click-flatten")] {
        let link = elsewhere.path().join(name);
        std::os::unix::fs::symlink(folder.path().join("click"), &link).unwrap();
        let output = command(link.to_str().unwrap()).arg("--help").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && help.contains(said), "{name}: {help}");
    }
}

#[test]
fn click_reports_a_missing_program() {
    let (folder, mut click) = beside(None);
    let output = click.arg("--version").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let missing = folder.path().join("millrace");
    let expected = format!(
        "click: cannot start {}, which must be in the same directory: No such file or directory \
         (os error 2)\n",
        missing.display()
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}

#[test]
fn the_process_has_the_name_of_the_program() {
    let mut child = click_command().args(["-e", "Script(wait 1h)"]).spawn().unwrap();
    let process = format!("/proc/{}", child.id());
    let is_known = || {
        let program = std::fs::read_link(format!("{process}/exe")).unwrap();
        let name = std::fs::read_to_string(format!("{process}/comm")).unwrap();
        program.ends_with("millrace") && name == "click\n"
    };
    let began = Instant::now();
    while !is_known() && began.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let known = is_known();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(known);
}
