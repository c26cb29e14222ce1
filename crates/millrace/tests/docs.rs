//! Every configuration that the documentation shows is checked and run: the examples, the ```click blocks
//! of the README and of the book, and the example in every element's manual.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a file that cannot be read fails the test"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use millrace_core::{CLASSES, Reason};
use millrace_lang::{SourceMap, format};
// Names the crate so that its classes are linked.
use millrace_elements as _;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// A configuration and where it stands.
struct Shown {
    place: String,
    text: String,
}

#[test]
fn every_configuration_in_the_book_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    copy_files_of_examples(folder.path());
    let shown = shown();
    let mut check = Command::new(PROGRAM);
    check.arg("check").current_dir(&folder);
    for (number, Shown { place, text }) in shown.iter().enumerate() {
        // The place leads the reader of an error from the file to what it was copied from.
        let place = place.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let name = format!("{number}-{place}.click");
        fs::write(folder.path().join(&name), text).unwrap();
        check.arg(name);
    }
    let output = check.output().unwrap();
    let findings = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{findings}");
    assert!(shown.len() >= 80, "only {} configurations found", shown.len());
}

/// On virtual time, with the lab behind every device.
#[test]
fn every_configuration_in_the_book_runs() {
    let folder = tempfile::tempdir().unwrap();
    copy_files_of_examples(folder.path());
    // What examples that read a capture call it.
    for name in ["in.pcap", "trace.pcap"] {
        write_capture(folder.path(), name);
    }
    for (name, line) in [
        ("cap.txt", "SND 0\nSYN > 1 0 0 40 0"),
        ("flows.txt", "1.0.0.1|2.0.0.2|0.0.0.0|3|4|2|100|1000|1010|1234|80|0|18|6|8|0"),
        ("tcpdump.txt", "1.5 10.0.0.1.1000 > 10.0.0.2.80: S 7000:7000(0) win 5840 (DF)"),
    ] {
        fs::write(folder.path().join(name), format!("{line}\n")).unwrap();
    }
    for Shown { place, text } in shown() {
        let needs_root = text.contains("RawSocket(");
        let alone = if needs_root { millrace_testkit::privileged!() } else { None };
        if needs_root && alone.is_none() {
            continue;
        }
        if lacks_a_library(&place, &text) {
            continue;
        }
        let summary = run(folder.path(), &text);
        let whole = summary.contains("Every packet is accounted for.");
        assert!(whole, "{place} loses packets:\n{summary}");
    }
}

/// True, and said, if the configuration needs a library that is not installed here.
fn lacks_a_library(place: &str, configuration: &str) -> bool {
    if configuration.contains("DPDKRing(") {
        return !millrace_testkit::has_dpdk_plugin(Path::new(PROGRAM), place);
    }
    // tcpdump brings libpcap.
    let lacks_pcap =
        configuration.contains("BPF_FILTER") && millrace_testkit::find_program("tcpdump").is_none();
    if lacks_pcap {
        millrace_testkit::announce(place, &"needs libpcap0.8");
    }
    lacks_pcap
}

/// What examples read: rules and patterns, where they are from the root of the repository, and their library beside them.
fn copy_files_of_examples(folder: &Path) {
    let gpu = folder.join("examples/gpu");
    fs::create_dir_all(&gpu).unwrap();
    for file in files(&root().join("examples/gpu"), "rules") {
        fs::copy(&file, gpu.join(file.file_name().unwrap())).unwrap();
    }
    let library = "network.click";
    fs::copy(root().join("examples/gpu").join(library), folder.join(library)).unwrap();
}

/// The capture holds twenty questions to a name server, which the example's filter lets through.
#[test]
fn the_filter_for_captures_copies_what_it_lets_through() {
    let folder = tempfile::tempdir().unwrap();
    write_capture(folder.path(), "in.pcap");
    let filter = fs::read_to_string(root().join("examples/pcap-filter.click")).unwrap();
    run(folder.path(), &filter);
    let length = |name: &str| fs::metadata(folder.path().join(name)).unwrap().len();
    assert_eq!(length("out.pcap"), length("in.pcap"));
    assert!(length("out.pcap") > 20 * 82);
}

/// Twenty UDP packets to port 53, in a file of the folder.
fn write_capture(folder: &Path, name: &str) {
    let configuration = format!(
        "InfiniteSource(LENGTH 40, LIMIT 20, STOP true)
            -> UDPIPEncap(10.0.0.1, 1000, 10.0.0.2, 53)
            -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
            -> ToDump({name})"
    );
    run(folder, &configuration);
}

#[test]
fn the_router_of_the_click_paper_answers_all_that_the_lab_asks() {
    let router = fs::read_to_string(root().join("examples/ip-router.click")).unwrap();
    let summary = run(&root(), &router);
    let (_, lab) = summary.split_once("The lab\n").expect("the lab reports");
    let answered = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of = words.iter().position(|word| *word == "of")?;
        Some((words.get(of - 1)?.parse::<u64>().ok()?, words.get(of + 1)?.parse::<u64>().ok()?))
    };
    let answers: Vec<(u64, u64)> = lab.lines().filter_map(answered).collect();
    assert!(answers.len() >= 9, "{lab}");
    assert!(answers.iter().all(|(came, asked)| came == asked && *asked > 0), "{lab}");
}

/// Runs a configuration in a folder for a second of virtual time. Returns the summary, which is on standard error if an
/// element writes data to standard output.
fn run(folder: &Path, configuration: &str) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--simtime", "--for", "1s", "--no-table", "--buffers", "8192"]);
    if ["Device(", "KernelTap(", "KernelTun(", "FromHost(", "network.click"]
        .iter()
        .any(|word| configuration.contains(word))
    {
        command.arg("--lab=");
    }
    let output = command.args(["-e", configuration]).current_dir(folder).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{configuration}\n{complaints}");
    format!("{}{complaints}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn configurations_in_the_book_have_the_standard_layout() {
    for Shown { place, text } in examples().into_iter().chain(pages()) {
        let mut map = SourceMap::default();
        let source = map.add(place.as_str(), text.as_str());
        let laid_out = format(&mut map, source);
        assert_eq!(laid_out.as_ref(), Ok(&text), "`millrace fmt` would change {place}");
    }
}

/// The manual and the reader agree on the arguments that have no effect, and on the reason.
#[test]
fn manuals_tell_which_arguments_are_accepted_without_effect() {
    let mut wrong = Vec::new();
    for info in CLASSES {
        let class = info.class.name;
        let asked = info.arguments();
        let ignored =
            asked.iter().filter_map(|one| Some((&one.name, one.without_effect.as_ref()?)));
        let ignored: Vec<(&String, &String)> = ignored.collect();
        let manual = info.manual();
        let items = items(&manual);
        let items = items.iter().filter_map(|item| item.split_once(": "));
        let items: Vec<(Vec<&str>, &str)> =
            items.map(|(names, text)| (names.split(", ").collect(), text)).collect();
        for (name, reason) in &ignored {
            let words = format!("accepted without effect: {reason}.");
            let told = items.iter().find(|(names, _)| names.contains(&name.as_str()));
            // Classes that share arguments have their text in the manual of one.
            if !told.is_some_and(|(_, text)| text.starts_with(&words) || text.starts_with("as ")) {
                wrong.push(format!("the manual of {class} lacks ‘{name}: {words}’"));
            }
        }
        let told = items.iter().filter(|(_, text)| text.starts_with("accepted without effect"));
        for name in told.flat_map(|(names, _)| names) {
            if !ignored.iter().any(|(ignored, _)| ignored == name) {
                wrong.push(format!("{class} does not read {name} by `Args::ignored`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every argument that an element asks for stands in its manual.
#[test]
fn manuals_name_every_argument() {
    let mut wrong = Vec::new();
    for info in CLASSES {
        let manual = info.manual();
        let told: Vec<&str> = manual.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        let names = info.arguments().into_iter().map(|asked| asked.name);
        wrong.extend(
            names
                .filter(|name| !told.contains(&name.as_str()))
                .map(|name| format!("{} {name}", info.class.name)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The items of a manual's list of arguments, `NAME, NAME: text`, on one line each.
fn items(manual: &str) -> Vec<String> {
    let section = manual.split("\n# Arguments\n").nth(1).unwrap_or_default();
    let section = section.split("\n# ").next().unwrap_or_default();
    let items = section.split("\n- ").map(|item| item.strip_prefix("- ").unwrap_or(item));
    items.map(|item| item.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_book_explains_every_reason_for_a_drop() {
    let page = root().join("docs/src/drops.md");
    let text = fs::read_to_string(page).unwrap();
    let (_, reasons) = text.split_once("\n## The reasons\n").unwrap();
    let listed: Vec<&str> = reasons
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .map(|(reason, _)| reason)
        .filter(|reason| *reason != "reason")
        .collect();
    let reasons: Vec<&str> = Reason::BUILT_IN.iter().map(|reason| reason.name()).collect();
    assert_eq!(listed, reasons, "the table in docs/src/drops.md against `Reason`");
}

#[test]
fn the_book_says_which_of_clicks_classes_are_here() {
    let page = fs::read_to_string(root().join("docs/src/classes.md")).unwrap();
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let known = |class: &str| {
        CLASSES.iter().any(|info| info.class.name == class || info.class.aliases.contains(&class))
    };
    // The program itself has this one.
    let wrong: Vec<_> = rows
        .flat_map(|(classes, says)| classes.split(", ").map(move |class| (class, says)))
        .filter(|(class, _)| !["class", "ControlSocket"].contains(class))
        .filter(|(class, says)| known(class) != (*says == "here"))
        .collect();
    assert!(wrong.is_empty(), "docs/src/classes.md is wrong about {wrong:?}");
}

#[test]
fn the_book_has_every_command_and_option() {
    let page = root().join("docs/src/command-line.md");
    let page = fs::read_to_string(page).unwrap();
    let help = |args: &[&str]| {
        let output = Command::new(PROGRAM).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let listing = help(&["--help"]);
    let commands = listing.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"run"), "{listing}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        let heading = format!("\n## millrace {command}\n");
        assert!(page.contains(&heading), "the book has no section on `millrace {command}`");
        let options = help(&[command, "--help"]);
        for word in options.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
            let is_option = word.starts_with("--") && word.len() > 2 && word != "--help";
            assert!(!is_option || page.contains(word), "the book lacks {word} of {command}");
        }
    }
}

fn shown() -> Vec<Shown> {
    let manuals = CLASSES.iter().flat_map(|info| blocks(info.class.name, &info.manual()));
    examples().into_iter().chain(pages()).chain(manuals).collect()
}

fn examples() -> Vec<Shown> {
    let files = files(&root().join("examples"), "click").into_iter();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        Shown { place: path.display().to_string(), text }
    };
    files.map(read).collect()
}

fn pages() -> Vec<Shown> {
    let mut pages = files(&root().join("docs"), "md");
    pages.push(root().join("README.md"));
    let blocks_of = |page: PathBuf| {
        let text = fs::read_to_string(&page).unwrap();
        blocks(&page.display().to_string(), &text)
    };
    pages.into_iter().flat_map(blocks_of).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files under a folder whose name ends so.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, end));
        } else if path.extension().is_some_and(|extension| extension == end) {
            found.push(path);
        }
    }
    found
}

/// The ```click blocks of a Markdown text.
fn blocks(place: &str, markdown: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut open: Option<Shown> = None;
    for (number, line) in markdown.lines().enumerate() {
        match &mut open {
            Some(_) if line.trim() == "```" => found.extend(open.take()),
            Some(block) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            None if line.trim() == "```click" => {
                let place = format!("{place}:{}", number + 1);
                open = Some(Shown { place, text: String::new() });
            }
            None => {}
        }
    }
    found
}
