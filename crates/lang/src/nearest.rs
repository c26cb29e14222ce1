//! Finds the name that was probably meant.

/// Longer words have no near names, because such words are not one typing error away from each other.
const MAX_LEN: usize = 64;

/// The candidate for which `word` is most probably a typing error, if any is near enough.
///
/// A candidate is near if a third of the word's letters, or fewer, are missing, added, changed or swapped
/// with their neighbour. A difference in case counts less, and almost nothing if it is the only difference.
/// Of equally near candidates the first wins.
///
/// ```
/// use millrace_lang::nearest;
/// let classes = ["Discard", "Queue", "ToDevice"];
/// assert_eq!(nearest("Qeueu", classes), Some("Queue"));
/// assert_eq!(nearest("TODEVICE", classes), Some("ToDevice"));
/// assert_eq!(nearest("Classifier", classes), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_LEN {
        return None;
    }
    let text = word;
    let word: Vec<char> = word.chars().collect();
    // Costs are in halves: a change of case costs one, any other slip two.
    let mut best = None;
    let mut most = 2 * word.len().div_ceil(3);
    for candidate in candidates {
        if candidate.len().abs_diff(word.len()) > 4 * MAX_LEN / 3 || candidate.is_empty() {
            continue;
        }
        let letters: Vec<char> = candidate.chars().take(2 * MAX_LEN).collect();
        if letters.len().abs_diff(word.len()) * 2 > most {
            continue;
        }
        let cost = match candidate.eq_ignore_ascii_case(text) {
            true => usize::from(candidate != text),
            false => distance(&word, &letters),
        };
        // A name that shares nothing is no slip, however short.
        if cost <= most && cost < 2 * word.len().max(letters.len()) {
            most = match cost {
                0 => return Some(candidate),
                cost => cost - 1,
            };
            best = Some(candidate);
        }
    }
    best
}

/// Finds [nearest] names for the mistakes of one file, up to a total effort: what many mistakes cost stays in
/// proportion to their number.
#[derive(Debug, Default)]
pub struct Suggestions {
    comparisons: usize,
}

impl Suggestions {
    /// The limit on comparisons; the mistakes after it get no suggestion.
    const MAX_COMPARISONS: usize = 100_000;

    /// Whether the limit is reached.
    pub fn is_exhausted(&self) -> bool {
        self.comparisons >= Self::MAX_COMPARISONS
    }

    /// The [nearest] candidate, or none after the limit.
    pub fn nearest<'a>(
        &mut self,
        word: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Option<&'a str> {
        if self.is_exhausted() {
            return None;
        }
        nearest(word, candidates.into_iter().inspect(|_| self.comparisons += 1))
    }
}

/// Optimal string alignment distance, in units of half an error.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).map(|j| 2 * j).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        let mut left = 2 * (i + 1);
        row.push(left);
        for (j, &y) in b.iter().enumerate() {
            let get = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let change = match () {
                () if x == y => 0,
                () if x.eq_ignore_ascii_case(&y) => 1,
                () => 2,
            };
            let mut cost = (get(&last, j) + change).min(get(&last, j + 1) + 2).min(left + 2);
            let swapped = |i: usize, j: usize| a.get(i) == Some(&y) && b.get(j) == Some(&x);
            if let (Some(i), Some(j)) = (i.checked_sub(1), j.checked_sub(1))
                && swapped(i, j)
            {
                cost = cost.min(get(&before, j) + 2);
            }
            row.push(cost);
            left = cost;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_nearest_name_is_found() {
        let names = ["CAPACITY", "ACTIVE", "LIMIT", "TO", "Limit"];
        for (wrong, right) in [
            ("CAPACTIY", Some("CAPACITY")),
            ("capacity", Some("CAPACITY")),
            ("limit", Some("LIMIT")),
            ("Limit", Some("Limit")),
            ("LIMITS", Some("LIMIT")),
            ("ACTVE", Some("ACTIVE")),
            ("OT", Some("TO")),
            ("BURST", None),
            ("XY", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, names), right, "{wrong}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), ["x".repeat(1_000_000).as_str()]), None);
    }

    #[test]
    fn slips_in_class_names_are_found() {
        let classes = ["Queue", "Unqueue", "Discard", "Idle", "FromDevice", "Tee", "c0"];
        let near = |word| nearest(word, classes);
        assert_eq!(near("Quue"), Some("Queue"));
        assert_eq!(near("UnQueue"), Some("Unqueue"));
        assert_eq!(near("Disacrd"), Some("Discard"));
        assert_eq!(near("FromDevices"), Some("FromDevice"));
        assert_eq!(near("Te"), Some("Tee"));
        for far in ["x", "Shaper", "Distribute", "Un"] {
            assert_eq!(near(far), None, "{far}");
        }
    }

    proptest! {
        /// The distance is symmetric, and obeys the triangle inequality for simple changes.
        #[test]
        fn distance_is_a_distance(a in "[abA]{0,6}", b in "[abA]{0,6}") {
            let chars = |s: &str| s.chars().collect::<Vec<char>>();
            let (a, b) = (chars(&a), chars(&b));
            let there = distance(&a, &b);
            prop_assert_eq!(there, distance(&b, &a));
            prop_assert_eq!(there == 0, a == b);
            prop_assert!(there <= 2 * a.len().max(b.len()));
            prop_assert!(there >= 2 * a.len().abs_diff(b.len()));
        }
    }
}
