//! Compares the output of a program with the expected output.

use regex::{Regex, RegexBuilder};

/// The expected contents of a file.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    form: Form,
    /// True if white space is ignored.
    loose: bool,
}

#[derive(Clone, Debug)]
enum Form {
    Bytes(String),
    /// The lines, without empty ones at the end.
    Lines(Vec<Line>),
}

/// A line to match: the text in the section, and the regular expression that it stands for.
#[derive(Clone, Debug)]
struct Line {
    text: String,
    pattern: Option<Regex>,
}

/// Lines that are ignored.
#[derive(Clone, Debug)]
pub(super) enum Ignored {
    /// The whole file.
    All,
    Lines(Vec<Regex>),
}

impl Expectation {
    /// The contents of a section with this keyword and these one-letter options.
    pub(super) fn new(keyword: &str, options: &[char], body: &str) -> Result<Self, String> {
        if keyword == "expectv" {
            return Ok(Self { form: Form::Bytes(body.to_owned()), loose: false });
        }
        let loose = options.contains(&'w');
        let any_case = options.contains(&'i');
        let lines = without_empty_end(body)
            .into_iter()
            .map(|line| {
                let line = if loose { squeezed(line) } else { line.to_owned() };
                let pattern = match keyword {
                    "expectx" => Some(line.clone()),
                    _ if line.contains("{{") || any_case => Some(braces(&line)),
                    _ => None,
                };
                let pattern = pattern.map(|pattern| whole_line(&pattern, any_case)).transpose()?;
                Ok(Line { text: line, pattern })
            })
            .collect::<Result<_, String>>()?;
        Ok(Self { form: Form::Lines(lines), loose })
    }

    /// Nothing.
    pub(super) fn empty() -> Self {
        Self { form: Form::Lines(Vec::new()), loose: false }
    }

    /// Describes where `written` differs, as text.
    pub(super) fn difference(&self, written: &str, ignored: &[&Ignored]) -> Option<String> {
        let lines = match &self.form {
            Form::Bytes(bytes) if bytes == written => return None,
            Form::Bytes(bytes) => {
                return Some(format!(
                    "  expected, byte for byte: {bytes:?}\n  written: {written:?}"
                ));
            }
            Form::Lines(lines) => lines,
        };
        let counts = |line: &&str| !ignored.iter().any(|ignored| ignored.holds(line));
        let written: Vec<String> = without_empty_end(written)
            .into_iter()
            .filter(counts)
            .map(|line| if self.loose { squeezed(line) } else { line.to_owned() })
            .collect();
        let same = |(wanted, line): (&Line, &String)| wanted.matches(line);
        if lines.len() == written.len() && lines.iter().zip(&written).all(same) {
            return None;
        }
        Some(side_by_side(lines, &written))
    }
}

impl Line {
    fn matches(&self, line: &str) -> bool {
        match &self.pattern {
            Some(pattern) => pattern.is_match(line),
            None => self.text == line,
        }
    }
}

impl Ignored {
    /// The contents of a section with this keyword.
    pub(super) fn new(keyword: &str, body: &str) -> Result<Self, String> {
        let lines = without_empty_end(body);
        if lines.is_empty() {
            return Ok(Self::All);
        }
        let patterns =
            lines.into_iter().filter(|line| !line.is_empty()).map(|line| match keyword {
                "ignorex" => regex(line, false),
                "ignorev" => whole_line(&regex::escape(line), false),
                _ => whole_line(&braces(line), false),
            });
        Ok(Self::Lines(patterns.collect::<Result<_, _>>()?))
    }

    fn holds(&self, line: &str) -> bool {
        match self {
            Self::All => true,
            Self::Lines(patterns) => patterns.iter().any(|pattern| pattern.is_match(line)),
        }
    }
}

/// The differing lines, between shortened common lines at the start and the end.
fn side_by_side(wanted: &[Line], written: &[String]) -> String {
    let pairs = || wanted.iter().zip(written);
    let head = pairs().take_while(|(wanted, line)| wanted.matches(line)).count();
    let most = wanted.len().min(written.len()) - head;
    let tail = wanted.iter().rev().zip(written.iter().rev()).take(most);
    let tail = tail.take_while(|(wanted, line)| wanted.matches(line)).count();
    let mut text = format!("  line {} differs ('-' expected, '+' written):\n", head + 1);
    let kept = head.saturating_sub(2);
    let mut add = |sign: char, line: &str| {
        text.push_str(&format!("  {sign} {line}\n"));
    };
    written[kept..head].iter().for_each(|line| add(' ', line));
    wanted[head..wanted.len() - tail].iter().for_each(|line| add('-', &line.text));
    written[head..written.len() - tail].iter().for_each(|line| add('+', line));
    written[written.len() - tail..].iter().take(2).for_each(|line| add(' ', line));
    text
}

/// Converts a line that contains `{{regular expressions}}` to one regular expression.
fn braces(line: &str) -> String {
    let mut pattern = String::new();
    let mut rest = line;
    while let Some((text, after)) = rest.split_once("{{") {
        let Some((expression, after)) = after.split_once("}}") else { break };
        pattern.push_str(&regex::escape(text));
        // ‘{{? a comment }}’
        if !expression.starts_with('?') {
            pattern.push_str(&format!("(?:{})", expression.trim()));
        }
        rest = after;
    }
    pattern + &regex::escape(rest)
}

fn whole_line(pattern: &str, any_case: bool) -> Result<Regex, String> {
    regex(&format!("^(?:{pattern})$"), any_case)
}

fn regex(pattern: &str, any_case: bool) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).case_insensitive(any_case).build();
    built.map_err(|error| format!("{error}"))
}

fn without_empty_end(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn matches(keyword: &str, options: &[char], body: &str, written: &str) -> bool {
        Expectation::new(keyword, options, body).unwrap().difference(written, &[]).is_none()
    }

    #[test]
    fn lines_are_compared_without_empty_ones_at_the_end() {
        assert!(matches("expect", &[], "a\nb\n\n\n", "a\nb\n"));
        assert!(!matches("expect", &[], "a\nb\n", "a\n\nb\n"));
        assert!(!matches("expect", &[], "a b\n", "a  b\n"));
        assert!(matches("expect", &['w'], "a b\n", "a  b \n"));
        assert!(
            matches("expect", &['i'], "A.\n", "a.\n") && !matches("expect", &['i'], "A.", "ab")
        );
    }

    #[test]
    fn expressions_stand_in_braces_or_are_the_whole_line() {
        assert!(matches("expect", &[], "x{{[0-9]+}}.\n", "x42.\n"));
        assert!(!matches("expect", &[], "x{{[0-9]+}}.\n", "x42!\n"));
        assert!(matches("expectx", &[], "x.*\n", "xyz\n") && !matches("expectx", &[], "x", "xyz"));
        assert!(
            matches("expectv", &[], "x\n\n", "x\n\n") && !matches("expectv", &[], "x\n\n", "x\n")
        );
    }

    #[test]
    fn lines_can_be_left_out() {
        let wanted = Expectation::new("expect", &[], "a\nc\n").unwrap();
        let ignored = Ignored::new("ignorex", "^b\n").unwrap();
        assert_eq!(wanted.difference("a\nbb\nc\n", &[&ignored]), None);
        assert!(wanted.difference("a\nxb\nc\n", &[&ignored]).is_some());
        assert_eq!(
            Expectation::empty().difference("x\n", &[&Ignored::new("ignore", "").unwrap()]),
            None
        );
    }

    #[test]
    fn a_difference_shows_what_is_missing_and_what_is_too_much() {
        let wanted = Expectation::new("expect", &[], "a\nb\nc\nd\n").unwrap();
        let text = wanted.difference("a\nx\nc\nd\n", &[]).unwrap();
        assert_eq!(text.lines().count(), 6, "{text}");
        assert!(
            text.contains("line 2 differs") && text.contains("- b\n") && text.contains("+ x\n")
        );
    }
}
