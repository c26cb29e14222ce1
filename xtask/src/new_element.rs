//! `cargo xtask new-element`: creates the skeleton of an element, with its manual and its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::manual::ELEMENTS;
use crate::{names, shell};

/// An element that compiles and passes its tests; `crates/elements/tests/skeleton.rs` checks that.
const TEMPLATE: &str = include_str!("../template/skeleton_element.rs");

/// The name of its class and its type.
const PLACEHOLDER: &str = "SkeletonElement";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The name of the class in configurations, such as DecIPTTL
    class: String,
    /// The folder of crates/elements/src that it belongs to
    #[arg(long, default_value = "standard")]
    topic: String,
}

/// Writes the element's file, and adds it to its topic.
///
/// # Errors
/// The name is not valid, the topic does not exist, or the file exists already.
pub(crate) fn run(options: &Options) -> Result<()> {
    let path = write(&shell::root(), &options.class, &options.topic)?;
    // Long names would change the line breaks; without rustfmt the file is still correct.
    shell::succeeds(Command::new("rustfmt").args(["--edition", "2024"]).arg(&path));
    let file = names::snake_case(&options.class);
    println!("{}", path.display());
    println!("its tests: cargo test -p millrace-elements {file}");
    Ok(())
}

fn write(root: &Path, class: &str, topic: &str) -> Result<PathBuf> {
    names::check(class).map_err(anyhow::Error::msg)?;
    let folder = root.join(ELEMENTS).join(topic);
    let module = folder.join("mod.rs");
    if !module.is_file() {
        bail!("there is no topic `{topic}`; there are: {}", topics(root)?.join(" "));
    }
    let name = names::snake_case(class);
    let path = folder.join(format!("{name}.rs"));
    if path.exists() {
        bail!("{} exists", path.display());
    }
    let text = fs::read_to_string(&module).with_context(|| module.display().to_string())?;
    fs::write(&path, render(class)).with_context(|| path.display().to_string())?;
    fs::write(&module, names::add_mod(&text, &name))
        .with_context(|| module.display().to_string())?;
    Ok(path)
}

fn topics(root: &Path) -> Result<Vec<String>> {
    let mut topics = Vec::new();
    for entry in fs::read_dir(root.join(ELEMENTS))? {
        let entry = entry?;
        if entry.path().join("mod.rs").is_file() {
            topics.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    topics.sort();
    Ok(topics)
}

/// The template for another class. Its class name is used in configurations and in the manual, and its type's name
/// elsewhere.
pub(crate) fn render(class: &str) -> String {
    let type_name = names::type_name(class);
    let file = format!("\"{}.rs\"", names::snake_case(class));
    let mut text = String::new();
    for line in TEMPLATE.lines() {
        let line = line.replace("\"skeleton_element.rs\"", &file);
        let line = match line.starts_with("//!") {
            true => line.replace(PLACEHOLDER, class),
            false => line
                .replace(&format!("\"{PLACEHOLDER}"), &format!("\"{class}"))
                .replace(PLACEHOLDER, &type_name),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manual;

    /// A repository with one topic, which is deleted when dropped.
    struct Repository(PathBuf);

    impl Repository {
        fn new(test: &str) -> Self {
            let root = std::env::temp_dir().join(format!("millrace-{test}-{}", std::process::id()));
            let topic = root.join(ELEMENTS).join("ip");
            fs::create_dir_all(&topic).unwrap();
            fs::write(topic.join("mod.rs"), "//! IPv4.\n\npub mod strip;\n").unwrap();
            Self(root)
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_new_element_is_complete_and_belongs_to_its_topic() {
        let repository = Repository::new("new-element");
        let path = write(&repository.0, "DecIPTTL", "ip").unwrap();
        assert!(path.ends_with("crates/elements/src/ip/dec_ip_ttl.rs"));

        let module = fs::read_to_string(path.with_file_name("mod.rs")).unwrap();
        assert_eq!(module, "//! IPv4.\n\npub mod dec_ip_ttl;\npub mod strip;\n");

        let elements = manual::elements(&repository.0).unwrap();
        assert_eq!(elements.len(), 1);
        assert_eq!(elements[0].classes, ["DecIPTTL"]);
        assert_eq!(elements[0].findings(), [] as [String; 0]);
    }

    #[test]
    fn the_skeleton_uses_the_class_and_its_type() {
        let text = render("DecIPTTL");
        for expected in [
            "//! `DecIPTTL(LENGTH)`",
            "pub struct DecIpTtl {",
            "register!(DecIpTtl, \"dec_ip_ttl.rs\");",
            "Class::new(\"DecIPTTL\"",
            "Rig::new(\"DecIPTTL(3)\", 1, 1)",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        assert!(!text.to_lowercase().contains("skeleton"), "{text}");
    }

    /// The book states the number of lines of an element without its manual.
    #[test]
    fn the_skeleton_has_at_most_40_lines_of_code() {
        let code = TEMPLATE.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
        let lines = code.count();
        assert!(lines <= 40, "{lines}");
        let book = include_str!("../../docs/src/writing-an-element.md");
        assert!(book.contains(&format!("a manual and {lines} lines of code")), "{lines}");
    }

    #[test]
    fn invalid_names_are_rejected_and_change_nothing() {
        let repository = Repository::new("refused");
        let module = repository.0.join(ELEMENTS).join("ip/mod.rs");
        let before = fs::read_to_string(&module).unwrap();
        fs::write(module.with_file_name("tee.rs"), "").unwrap();
        for (class, topic, reason) in [
            ("Tee", "ip", "exists"),
            ("tee", "ip", "not a valid class name"),
            ("Tap", "ipx", "are: ip"),
        ] {
            let error = write(&repository.0, class, topic).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert_eq!(fs::read_to_string(&module).unwrap(), before);
    }
}
