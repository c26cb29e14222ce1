//! A folder of the element library tells classes from parts: its files are all classes, or none is.

use std::collections::BTreeMap;

use super::text::Text;
use crate::manual::{ELEMENTS, ElementFile};
use crate::names;

/// What breaks the rule, a folder or a class each.
pub(super) fn findings(files: &[Text], elements: &[ElementFile]) -> Vec<String> {
    let mut folders: BTreeMap<&str, Contents> = BTreeMap::new();
    for file in files {
        let Some((folder, name)) = file.path.rsplit_once('/') else { continue };
        if folder.starts_with(ELEMENTS) && name.ends_with(".rs") && !is_beside(name) {
            let contents = folders.entry(folder).or_default();
            match elements.iter().any(|element| element.path == file.path) {
                true => contents.classes += 1,
                false => contents.parts.push(name),
            }
        }
    }
    let mixed = folders.iter().filter(|(_, contents)| contents.classes > 0);
    let mut findings: Vec<String> = mixed
        .flat_map(|(folder, contents)| contents.parts.iter().map(move |part| (folder, part)))
        .map(|(folder, part)| {
            format!(
                "{folder}/{part}: a file without a class in a folder of classes; put it in a \
                     folder that names it"
            )
        })
        .collect();
    findings.extend(elements.iter().flat_map(misnamed));
    findings
}

/// The files of a folder.
#[derive(Default)]
struct Contents<'a> {
    classes: usize,
    /// Files that register no class.
    parts: Vec<&'a str>,
}

/// Files that stand in folders of both kinds.
fn is_beside(name: &str) -> bool {
    matches!(name, "mod.rs" | "lib.rs" | "tests.rs") || name.ends_with("_tests.rs")
}

/// The classes of a file that has the name of none of them, or of another.
fn misnamed(element: &ElementFile) -> Vec<String> {
    let stem = element.path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs"));
    let elsewhere = |class: &&String| Some(names::snake_case(class).as_str()) != stem;
    let classes = element.classes.iter().filter(elsewhere);
    classes
        .map(|class| {
            let path = &element.path;
            format!("{path}: {class} belongs in a file {}.rs", names::snake_case(class))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> Text {
        Text { path: format!("{ELEMENTS}/{name}"), content: String::new() }
    }

    fn element(name: &str, class: &str) -> ElementFile {
        ElementFile {
            path: format!("{ELEMENTS}/{name}"),
            classes: vec![class.to_string()],
            topic: String::new(),
            manual: String::new(),
            source: String::new(),
        }
    }

    #[test]
    fn a_folder_holds_classes_or_parts() {
        let elements = [element("ip/strip.rs", "Strip"), element("ip/lookup/direct.rs", "Direct")];
        let cases = [
            (vec!["ip/mod.rs", "ip/strip.rs", "ip/tests.rs", "ip/more_tests.rs"], 0),
            (vec!["ip/strip.rs", "ip/header/mod.rs", "ip/header/outer.rs"], 0),
            (vec!["ip/strip.rs", "ip/lookup/direct.rs", "lib.rs", "rule_file.rs"], 0),
            (vec!["ip/strip.rs", "ip/outer.rs"], 1),
            (vec!["ip/strip.rs", "ip/lookup/direct.rs", "ip/lookup/a.rs", "ip/lookup/b.rs"], 2),
        ];
        for (names, expected) in cases {
            let files: Vec<Text> = names.iter().map(|name| text(name)).collect();
            assert_eq!(findings(&files, &elements).len(), expected, "{names:?}");
        }
        let other = [Text { path: "crates/core/src/strip.rs".into(), content: String::new() }];
        assert_eq!(findings(&other, &elements), [] as [String; 0]);
    }

    #[test]
    fn a_class_stands_in_the_file_of_its_name() {
        assert_eq!(misnamed(&element("ip/dec_ip_ttl.rs", "DecIPTTL")), [] as [String; 0]);
        let found = misnamed(&element("ip/decipttl.rs", "DecIPTTL"));
        assert_eq!(
            found,
            [format!("{ELEMENTS}/ip/decipttl.rs: DecIPTTL belongs in a file dec_ip_ttl.rs")]
        );
    }
}
