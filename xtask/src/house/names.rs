//! Types are called in words: `StripEtherVlanHeader`, not `StripEtherVLANHeader`. Classes keep the names that Click gave them.

use super::text::Text;
use super::words::words;

/// Capitals that may follow each other.
const MOST_CAPITALS: usize = 2;

/// Types with more capitals in a row.
pub(super) fn capitals(file: &Text) -> Vec<String> {
    let named = |words: &[&str]| match words {
        ["struct" | "enum" | "union" | "trait" | "type", name] if is_shouted(name) => {
            Some((*name).to_owned())
        }
        _ => None,
    };
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let names = words(&file.content);
    let names = names.windows(2).filter_map(named);
    names
        .map(|name| {
            format!("{}: the type {name}: acronyms are words, as in `Ipv4Header`", file.path)
        })
        .collect()
}

/// Whether more than two capitals follow each other in a name that is not all capitals.
fn is_shouted(name: &str) -> bool {
    let capitals = |part: &str| part.len() > MOST_CAPITALS;
    name.split(|c: char| !c.is_ascii_uppercase()).any(capitals)
}

#[cfg(test)]
mod tests {
    use super::super::text::text;
    use super::*;

    #[test]
    fn acronyms_are_words() {
        let file = text(
            "a.rs",
            "struct MSQueue;\ntrait IpPrint {}\nenum A { STOP }\ntype Key = [u8; ETHERNET];\n",
        );
        let found = capitals(&file);
        assert_eq!(found, ["a.rs: the type MSQueue: acronyms are words, as in `Ipv4Header`"]);
    }
}
