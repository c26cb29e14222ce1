//! Splitting a rule into words.

use std::ops::Range;

/// A word of a rule and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// The word.
    pub(super) text: &'a str,
    /// Its byte range in the rule.
    pub(super) range: Range<usize>,
}

/// The words of a rule. A word is a run of letters, digits and `-./@_:`; every other character is a word by itself,
/// except that `&&`, `||`, `==`, `!=`, `<=` and `>=` are one word each.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut start = 0;
    while let Some(rest) = text.get(start..)
        && let Some(first) = rest.chars().next()
    {
        let length = word_length(rest, first);
        if !first.is_ascii_whitespace() {
            let range = start..start + length;
            words.push(Word { text: text.get(range.clone()).unwrap_or_default(), range });
        }
        start += length;
    }
    words
}

fn word_length(rest: &str, first: char) -> usize {
    let second = rest.as_bytes().get(1);
    match first {
        '&' | '|' if second == Some(&(first as u8)) => 2,
        '<' | '>' | '!' | '=' if second == Some(&b'=') => 2,
        _ if is_word_character(first) => {
            rest.find(|next| !is_word_character(next)).unwrap_or(rest.len())
        }
        _ => first.len_utf8(),
    }
}

fn is_word_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-./@_:".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_split_into_words() {
        for (rule, expected) in [
            ("", vec![]),
            (" \t\n", vec![]),
            ("src  port 80", vec!["src", "port", "80"]),
            ("10.0.0.0/8&&!(tcp)", vec!["10.0.0.0/8", "&&", "!", "(", "tcp", ")"]),
            ("a|b||c&d", vec!["a", "|", "b", "||", "c", "&", "d"]),
            ("x!=1 y<=2 z>=3 w==4 v=5", "x != 1 y <= 2 z >= 3 w == 4 v = 5".split(' ').collect()),
            ("tcp[2:2]>1", vec!["tcp", "[", "2:2", "]", ">", "1"]),
            ("a ? b : c", vec!["a", "?", "b", ":", "c"]),
            ("1:2:3:4:5:6", vec!["1:2:3:4:5:6"]),
            ("é%", vec!["é", "%"]),
        ] {
            let found: Vec<&str> = words(rule).iter().map(|word| word.text).collect();
            assert_eq!(found, expected, "{rule}");
            assert!(words(rule).iter().all(|word| rule[word.range.clone()] == *word.text));
        }
    }
}
