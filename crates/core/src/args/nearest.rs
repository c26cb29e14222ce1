//! Which name was meant.

/// The name that was probably meant: the nearest one by edits, if it is near at all. Letters
/// count alike in upper and lower case.
pub fn nearest<'n>(wrong: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let wrong: Vec<char> = wrong.to_lowercase().chars().collect();
    let far = wrong.len() / 3 + 1;
    let near = names.into_iter().filter_map(|name| {
        let right: Vec<char> = name.to_lowercase().chars().collect();
        // Each edit changes the length by one at most.
        let edits = (right.len().abs_diff(wrong.len()) <= far).then(|| edits(&wrong, &right))?;
        (edits <= far).then_some((edits, name))
    });
    near.min_by_key(|&(edits, _)| edits).map(|(_, name)| name)
}

/// Insertions, deletions, replacements and swaps of neighbours that make one text the other
/// (optimal string alignment).
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = above[j] + usize::from(x != y);
            let mut best = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name_is_found() {
        let names = ["CAPACITY", "ACTIVE", "LIMIT", "TO"];
        for (wrong, right) in [
            ("CAPACTIY", Some("CAPACITY")),
            ("capacity", Some("CAPACITY")),
            ("LIMITS", Some("LIMIT")),
            ("ACTVE", Some("ACTIVE")),
            ("OT", Some("TO")),
            ("BURST", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, names), right, "{wrong}");
        }
    }
}
