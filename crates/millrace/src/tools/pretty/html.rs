//! Templates: text in which tags such as `<~config>` are replaced by parts of a configuration.

use std::collections::HashMap;

/// Attributes of a tag.
pub(super) type Attributes = HashMap<String, String>;

/// A tag, and the text before it.
pub(super) struct Tag {
    pub(super) before: String,
    pub(super) name: String,
    pub(super) attributes: Attributes,
}

/// Takes the next tag from a template, and returns the text after it. If there is no tag, the whole template is the
/// text before it, and there is no text after it.
pub(super) fn next_tag(template: &str, unquote_values: bool) -> (Tag, Option<&str>) {
    let Some((before, rest)) = template.split_once("<~") else {
        let before = template.to_owned();
        return (Tag { before, name: String::new(), attributes: Attributes::new() }, None);
    };
    let rest = rest.trim_start();
    let end = rest.find(|c: char| c == '>' || c.is_ascii_whitespace()).unwrap_or(rest.len());
    let (name, mut rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let mut attributes = Attributes::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        if let Some(after) = rest.strip_prefix('>').or_else(|| rest.strip_prefix("-->")) {
            rest = after;
            break;
        }
        if let Some(after) = rest.strip_prefix('/') {
            rest = after;
            continue;
        }
        let ends = |c: char| c == '>' || c == '=' || c.is_ascii_whitespace();
        let end = rest.find(ends).unwrap_or(rest.len());
        let (attribute, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let attribute = unquote(attribute).to_ascii_lowercase();
        let Some(after) = after.trim_start().strip_prefix('=') else {
            rest = after;
            attributes.insert(attribute.clone(), attribute);
            continue;
        };
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| ['\'', '"'].contains(c));
        let (value, after) = match quote {
            Some(quote) => {
                let inside = after.get(1..).unwrap_or("");
                inside.split_once(quote).unwrap_or((inside, ""))
            }
            None => {
                let ends = |c: char| c == '>' || c.is_ascii_whitespace();
                after
                    .split_at_checked(after.find(ends).unwrap_or(after.len()))
                    .unwrap_or((after, ""))
            }
        };
        let value = if unquote_values { unquote(value) } else { value.to_owned() };
        attributes.insert(attribute, value);
        rest = after;
    }
    let name = name.trim_end_matches('/').to_ascii_lowercase();
    (Tag { before: before.to_owned(), name, attributes }, Some(rest))
}

/// Escapes text for the value of an attribute.
pub(super) fn quote_attribute(text: &str) -> String {
    text.replace('&', "&#38;").replace('\'', "&#39;").replace('"', "&#34;")
}

/// Escapes text for the page.
pub(super) fn quote_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Replaces entities by their characters.
pub(super) fn unquote(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let (number, digits) = match after.strip_prefix('#') {
            Some(digits) => (true, digits),
            None => (false, after),
        };
        let end = digits.find(|c: char| match number {
            true => !c.is_ascii_digit(),
            false => !c.is_ascii_alphanumeric(),
        });
        let (word, after) =
            digits.split_at_checked(end.unwrap_or(digits.len())).unwrap_or((digits, ""));
        let known = match word {
            "amp" => Some('&'),
            "quot" => Some('"'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            word if number => word.parse().ok().and_then(char::from_u32),
            _ => None,
        };
        match known {
            Some(c) => {
                out.push(c);
                rest = after.strip_prefix(';').unwrap_or(after);
            }
            None => {
                out.push_str(if number { "&#" } else { "&" });
                out.push_str(word);
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_taken_off_one_by_one() {
        let (tag, rest) = next_tag("a <~Type link sep=', ' x=\"&lt;~n>\" /> b", true);
        assert_eq!((tag.before.as_str(), tag.name.as_str(), rest), ("a ", "type", Some(" b")));
        let value = |name: &str| tag.attributes.get(name).map(String::as_str);
        assert_eq!(
            [value("link"), value("sep"), value("x")],
            [Some("link"), Some(", "), Some("<~n>")]
        );
        let (tag, rest) = next_tag(" b", true);
        assert_eq!((tag.before.as_str(), tag.name.as_str(), rest), (" b", "", None));
        assert_eq!(next_tag("<~config>", true).0.name, "config");
    }

    #[test]
    fn entities_stand_for_characters() {
        assert_eq!(unquote("a &lt;b&gt; &#39;&amp; &copy; & x"), "a <b> '& &copy; & x");
        assert_eq!(quote_text("<a & b>"), "&lt;a &amp; b&gt;");
        assert_eq!(quote_attribute("'\"&"), "&#39;&#34;&#38;");
    }
}
