//! Rust as words: enough of it to find modules, imports and paths.

/// The words of a Rust text: names, `::`, and other characters one by one. Comments are left out, literals are `"`.
pub(super) fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (word, length) = match first {
            _ if first.is_whitespace() => (None, first.len_utf8()),
            '/' if rest.starts_with("//") => (None, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => (None, comment(rest)),
            '"' => (Some("\""), string(rest)),
            '\'' => (Some("\""), character(rest)),
            _ if first.is_alphanumeric() || first == '_' => {
                let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                let length = name.unwrap_or(rest.len());
                match (&rest[..length], raw_string(&rest[length..])) {
                    ("r" | "br" | "cr", Some(more)) => (Some("\""), length + more),
                    ("r", None) if rest[length..].starts_with('#') => (None, length + 1),
                    (name, _) => (Some(name), length),
                }
            }
            ':' if rest.starts_with("::") => (Some("::"), 2),
            _ => (Some(&rest[..first.len_utf8()]), first.len_utf8()),
        };
        words.extend(word);
        rest = &rest[length..];
    }
    words
}

/// The length of a comment in bars, which may contain others.
fn comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        match text.as_bytes().get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") if depth == 1 => return at + 2,
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

/// The length of a character, or 1 for the apostrophe of a lifetime.
fn character(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), _) => text[3..].find('\'').map_or(text.len(), |end| 3 + end + 1),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// The length of a raw string behind its letter, if it is one.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.bytes().take_while(|byte| *byte == b'#').count();
    text[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let from = hashes + 1;
    Some(text[from..].find(&end).map_or(text.len(), |at| from + at + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_words() {
        let text = r###"a::b /* x /* y */ z */ 'l '"' '\'' "c\"d" r#"e"f"# // g
            h[i]"###;
        let expected = ["a", "::", "b", "\"", "l", "\"", "\"", "\"", "\"", "h", "[", "i", "]"];
        assert_eq!(words(text), expected);
    }
}
