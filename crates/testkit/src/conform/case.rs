//! Parses the text of a file into cases.

use super::compare::{Expectation, Ignored};

/// One case: the script, its files, and the expected results.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The name; empty for the only case of a file without `%test`.
    pub name: String,
    pub(super) require: Vec<String>,
    pub(super) script: String,
    /// Files by name, in the order of the text.
    pub(super) files: Vec<(String, String)>,
    /// The expected contents of files. A name that occurs several times has alternatives.
    pub(super) expected: Vec<(String, Expectation)>,
    pub(super) ignored: Vec<(String, Ignored)>,
    pub(super) status: i32,
}

/// The name that stands for all files, in `%ignore` without a name.
pub(super) const EVERY_FILE: &str = "all";

/// An error in the text of a file, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The line, from 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

/// Parses the cases of a file. `%test` begins a case; without it, the file is one case.
///
/// # Errors
/// An unknown section, a missing name, a case without a script, or an invalid regular expression.
pub fn parse(text: &str) -> Result<Vec<Case>, Invalid> {
    let mut shared = Case::default();
    let mut cases: Vec<Case> = Vec::new();
    for section in sections(text) {
        if section.keyword == "test" {
            let name = section.arguments.join(" ");
            cases.push(Case { name, ..shared.clone() });
            continue;
        }
        let case = cases.last_mut().unwrap_or(&mut shared);
        section.add_to(case).map_err(|what| Invalid { line: section.line, what })?;
    }
    if cases.is_empty() {
        cases.push(shared);
    }
    match cases.iter().find(|case| case.script.trim().is_empty()) {
        Some(case) => {
            Err(Invalid { line: 1, what: format!("the case ‘{}’ has no %script", case.name) })
        }
        None => Ok(cases),
    }
}

/// A section: its first line, `%keyword arguments`, and the lines below.
struct Section<'a> {
    line: usize,
    keyword: &'a str,
    arguments: Vec<&'a str>,
    body: String,
}

/// The keywords that begin a section. Other lines that begin with `%` belong to the text.
const KEYWORDS: [&str; 18] = [
    "info", "desc", "test", "require", "script", "file", "expect", "expectx", "expectv", "ignore",
    "ignorex", "ignorev", "status", "stdin", "stdout", "stderr", "eof", "eot",
];

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if line.starts_with("%#") {
            continue;
        }
        let mut words = line.strip_prefix('%').unwrap_or_default().split_whitespace();
        match words.next().filter(|word| KEYWORDS.contains(word)) {
            Some("eof" | "eot") => break,
            Some(keyword) => sections.push(Section {
                line: index + 1,
                keyword,
                arguments: words.collect(),
                body: String::new(),
            }),
            None => {
                if let Some(section) = sections.last_mut() {
                    section.body.push_str(line);
                }
            }
        }
    }
    sections
}

impl Section<'_> {
    fn add_to(&self, case: &mut Case) -> Result<(), String> {
        match self.keyword {
            "info" | "desc" => {}
            "require" => case.require.push(self.body.clone()),
            "script" => case.script.push_str(&self.body),
            "status" => case.status = self.status()?,
            "file" => {
                for name in self.names()? {
                    case.files.push((name.to_owned(), self.body.clone()));
                }
            }
            "stdin" => case.files.push(("stdin".to_owned(), self.body.clone())),
            keyword @ ("stdout" | "stderr") => {
                let expected = Expectation::new("expect", &[], &self.body)?;
                case.expected.push((keyword.to_owned(), expected));
            }
            "expect" | "expectx" | "expectv" => {
                for name in self.names()? {
                    let expected = Expectation::new(self.keyword, &self.options(), &self.body)?;
                    case.expected.push((name.to_owned(), expected));
                }
            }
            // "ignore", "ignorex", "ignorev"
            _ => {
                for name in self.names()? {
                    case.ignored.push((name.to_owned(), Ignored::new(self.keyword, &self.body)?));
                }
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<&str>, String> {
        let named: Vec<_> =
            self.arguments.iter().copied().filter(|word| !word.starts_with(['-', '+'])).collect();
        if !named.is_empty() {
            return Ok(named);
        }
        match self.keyword {
            "file" => Err("%file needs the name of a file".to_owned()),
            keyword if keyword.starts_with("ignore") => Ok(vec![EVERY_FILE]),
            // As in testie: the text that is printed.
            _ => Ok(vec!["stdout"]),
        }
    }

    fn options(&self) -> Vec<char> {
        let dashed = self.arguments.iter().filter_map(|word| word.strip_prefix('-'));
        dashed.flat_map(str::chars).collect()
    }

    fn status(&self) -> Result<i32, String> {
        let [status] = self.arguments[..] else {
            return Err("%status needs a number".to_owned());
        };
        status.parse().map_err(|_| format!("‘{status}’ is no exit status"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_test_is_one_case() {
        let cases = parse("%info\nx\n%script\ntrue\n%file A B\ntext\n%status 3\n").unwrap();
        let [case] = &cases[..] else { panic!("{cases:?}") };
        assert_eq!(case.script, "true\n");
        assert_eq!(case.files.len(), 2);
        assert_eq!(case.status, 3);
    }

    #[test]
    fn sections_before_the_first_test_apply_to_all_cases() {
        let text =
            "%file A\nall\n%test one\n%script\n1\n%test two words\n%script\n2\n%eof\n%test x\n";
        let cases = parse(text).unwrap();
        assert_eq!(cases.iter().map(|case| &*case.name).collect::<Vec<_>>(), ["one", "two words"]);
        assert!(cases.iter().all(|case| case.files.len() == 1));
    }

    #[test]
    fn lines_with_a_percent_sign_that_are_no_section_belong_to_the_text() {
        let cases = parse("%script\nprintf %s\n%s\n%# comment\n").unwrap();
        assert_eq!(cases[0].script, "printf %s\n%s\n");
    }

    #[test]
    fn errors_name_their_line() {
        assert_eq!(parse("%info\n").unwrap_err().what, "the case ‘’ has no %script");
        assert_eq!(parse("%script\nx\n%file\n").unwrap_err().line, 3);
        assert_eq!(parse("%script\nx\n%expectx stdout\n(\n").unwrap_err().line, 3);
        assert!(parse("%script\nx\n%status x\n").is_err());
    }
}
