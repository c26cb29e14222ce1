//! `cargo xtask new-crate`: creates a crate for elements of one's own outside of this repository, which builds, passes
//! its tests and runs at once.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{names, new_element, shell};

/// The files of a crate with one element. `tests` makes one and runs its tests.
const FILES: [(&str, &str); 4] = [
    ("src/lib.rs", include_str!("../template/crate/lib.rs")),
    ("src/main.rs", include_str!("../template/crate/main.rs")),
    ("tests/program.rs", include_str!("../template/crate/program.rs")),
    ("README.md", include_str!("../template/crate/README.md")),
];

/// The versions of all dependencies, with which everything here is tested.
const LOCK: &str = include_str!("../../Cargo.lock");
const WORKSPACE: &str = include_str!("../../Cargo.toml");
const TOOLCHAIN: &str = include_str!("../../rust-toolchain.toml");

/// The crates of this repository that the new one uses, and those that its tests use.
const DEPENDENCIES: [(&str, &str); 3] =
    [("millrace", "millrace"), ("millrace-core", "core"), ("millrace-elements", "elements")];
const TEST_DEPENDENCIES: [(&str, &str); 1] = [("millrace-test-packets", "test-packets")];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The name of the crate and of its program, such as `my-elements`
    name: String,
    /// The class of its first element; by default the crate's name with capitals (MyElements)
    #[arg(long, value_name = "CLASS")]
    element: Option<String>,
    /// The folder in which the crate's own folder is created
    #[arg(long, value_name = "FOLDER", default_value = "..")]
    into: PathBuf,
    /// Depend on Millrace in this Git repository instead of this folder
    #[arg(long, value_name = "URL")]
    git: Option<String>,
}

/// Where the new crate finds Millrace.
#[derive(Clone, Debug)]
enum Source {
    /// In this folder, the root of the repository.
    Folder(PathBuf),
    Git(String),
}

/// Creates the crate.
///
/// # Errors
/// A name is not valid, or the crate's folder exists already.
pub(crate) fn run(options: &Options) -> Result<()> {
    let source = match &options.git {
        Some(url) => Source::Git(url.clone()),
        None => Source::Folder(shell::root().canonicalize()?),
    };
    let class = options.element.clone().unwrap_or_else(|| class_of(&options.name));
    let folder = write(&options.into, &options.name, &class, &source)?;
    println!("{}", folder.display());
    println!("its tests: cd {} && cargo test", folder.display());
    Ok(())
}

fn write(into: &Path, name: &str, class: &str, source: &Source) -> Result<PathBuf> {
    check(name)?;
    names::check(class).map_err(anyhow::Error::msg)?;
    let folder = into.join(name);
    if folder.exists() {
        bail!("{} exists", folder.display());
    }
    let element = names::snake_case(class);
    let mut files = vec![
        ("Cargo.toml".to_owned(), manifest(name, source)),
        ("Cargo.lock".to_owned(), LOCK.to_owned()),
        ("rust-toolchain.toml".to_owned(), TOOLCHAIN.to_owned()),
        (".gitignore".to_owned(), "/target\n".to_owned()),
        (format!("src/{element}.rs"), new_element::render(class)),
    ];
    for (path, text) in FILES {
        let text = text
            .replace("skeleton_element", &element)
            .replace("SkeletonElement", class)
            .replace("skeleton_crate", &name.replace('-', "_"))
            .replace("skeleton-crate", name);
        files.push((path.to_owned(), text));
    }
    for (path, text) in files {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(folder.canonicalize()?)
}

/// Cargo's rules for names, and ours: no program of this name may be here already.
fn check(name: &str) -> Result<()> {
    let is_word = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !is_word || !name.starts_with(|c: char| c.is_ascii_lowercase()) || name.ends_with('-') {
        bail!("`{name}` is not a good name for a crate: write it like my-elements");
    }
    if LOCK.contains(&format!("name = \"{name}\"\n")) {
        bail!("there is a crate `{name}` already, among those that Millrace consists of or uses");
    }
    Ok(())
}

/// `my-elements` has the class MyElements.
fn class_of(name: &str) -> String {
    name.split('-').map(capitalised).collect()
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn manifest(name: &str, source: &Source) -> String {
    let place = |folder: &str| match source {
        Source::Folder(root) => format!("path = {:?}", root.join("crates").join(folder)),
        Source::Git(url) => format!("git = {url:?}"),
    };
    let lines = |crates: &[(&str, &str)]| -> String {
        let line = |(name, folder): &(&str, &str)| format!("{name} = {{ {} }}\n", place(folder));
        crates.iter().map(line).collect()
    };
    format!(
        "[package]\nname = \"{name}\"\ndescription = \"Elements for Millrace, and the program with them linked in\"\n\
         version = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
         [dependencies]\n{}\n\
         [dev-dependencies]\n{}\n\
         # A workspace of its own, wherever the folder lies.\n[workspace]\nresolver = \"3\"\n\n\
         # As in Millrace itself: without these, the program is slower.\n{}",
        lines(&DEPENDENCIES),
        lines(&TEST_DEPENDENCIES),
        profiles()
    )
}

/// The profiles `release` and `dist` of this repository. Profiles of a dependency have no effect, so the new crate needs
/// them too.
fn profiles() -> String {
    let mut text = String::new();
    let mut is_wanted = false;
    for line in WORKSPACE.lines() {
        if line.starts_with('[') {
            is_wanted = ["[profile.release", "[profile.dist"].iter().any(|p| line.starts_with(p));
            if is_wanted && !text.is_empty() {
                text.push('\n');
            }
        }
        if is_wanted && !line.is_empty() && !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Source {
        Source::Folder(shell::root().canonicalize().unwrap())
    }

    /// Offline, with the versions of this repository, in its target folder: all but our own crates is built already.
    #[test]
    fn a_new_crate_builds_passes_its_tests_and_runs() {
        let folder = tempfile::tempdir().unwrap();
        let made = write(folder.path(), "thin-out", "ThinOut", &here()).unwrap();
        let mut cargo = shell::cargo();
        cargo.current_dir(&made).env("CARGO_TARGET_DIR", absolute(&shell::target()));
        let output = cargo.args(["test", "--offline"]).output().unwrap();
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success(), "{out}{err}");
        for passed in
            ["runs_a_configuration_with_elements_of_both ... ok", "withstands_anything ... ok"]
        {
            assert!(out.contains(passed), "{out}{err}");
        }
        assert!(!err.contains("warning: profile package spec"), "{err}");
    }

    fn absolute(path: &Path) -> PathBuf {
        shell::root().join(path)
    }

    #[test]
    fn its_profiles_are_those_of_the_repository() {
        let text = profiles();
        for line in [
            "[profile.release]",
            "codegen-units = 4",
            "millrace-core.codegen-units = 1",
            "[profile.dist]",
            "lto = \"fat\"",
            "[profile.dist.package.millrace]",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("loom") && !text.contains("profile.fuzz"), "{text}");
    }

    #[test]
    fn it_may_depend_on_a_repository() {
        let text = manifest("thin-out", &Source::Git("https://example.org/millrace".into()));
        assert!(
            text.contains("millrace-core = { git = \"https://example.org/millrace\" }"),
            "{text}"
        );
        assert!(!text.contains("path ="), "{text}");
    }

    #[test]
    fn what_cannot_be_is_refused_and_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("there")).unwrap();
        for (name, class, reason) in [
            ("My_Elements", "MyElements", "not a good name"),
            ("9lives", "Lives", "not a good name"),
            ("millrace", "Mill", "there is a crate"),
            ("thin-out", "thinOut", "not a valid class name"),
            ("there", "There", "exists"),
        ] {
            let error = write(folder.path(), name, class, &here()).unwrap_err().to_string();
            assert!(error.contains(reason), "{name}: {error}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(class_of("my-own-elements"), "MyOwnElements");
    }
}
