//! Patterns for element names, as in Click and in shells.

/// True if a name matches a pattern: `*` matches any text, `?` any character, `[a-z]` a character of a set, `[^a-z]`
/// a character that is not in it.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to continue after the last star if the text behind it does not match.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match (pattern.get(p), name.get(n)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                retry = Some((p + 1, n + 1));
                p += 1;
                continue;
            }
            (Some(b'?'), Some(_)) => Some(1),
            (Some(b'['), Some(&byte)) => set(pattern.get(p..).unwrap_or_default(), byte),
            (Some(wanted), Some(byte)) if wanted == byte => Some(1),
            _ => None,
        };
        match (step, retry) {
            (Some(length), _) => {
                p += length;
                n += 1;
            }
            (None, Some((after_star, from))) if from <= name.len() => {
                (p, n) = (after_star, from);
                retry = Some((after_star, from + 1));
            }
            (None, _) => return false,
        }
    }
}

/// The length of the set at the start of `pattern`, if `byte` is in the set. A bracket without an end is an ordinary
/// character.
fn set(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = pattern.get(1) == Some(&b'^');
    let start = if negated { 2 } else { 1 };
    // A closing bracket in the first place is a member of the set.
    let end = pattern.iter().skip(start + 1).position(|&b| b == b']');
    let Some(end) = end.map(|at| at + start + 1) else {
        return (byte == b'[').then_some(1);
    };
    let mut members = pattern.get(start..end).unwrap_or_default();
    let mut found = false;
    while let Some((&first, rest)) = members.split_first() {
        match rest {
            [b'-', last, rest @ ..] => {
                found |= (first..=*last).contains(&byte);
                members = rest;
            }
            _ => {
                found |= first == byte;
                members = rest;
            }
        }
    }
    (found != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        let cases = [
            ("*", "", true),
            ("*", "a/b@1", true),
            ("a*", "abc", true),
            ("a*c", "abcbc", true),
            ("a*b*c", "aXbYbc", true),
            ("a*d", "abc", false),
            ("?", "a", true),
            ("?", "", false),
            ("q[0-9]", "q7", true),
            ("q[^0-9]", "q7", false),
            ("q[^0-9]x", "qax", true),
            ("[]x]", "]", true),
            ("[ab", "[ab", true),
            ("[a-]", "-", true),
            ("a", "b", false),
            ("*a", "aaaaab", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
