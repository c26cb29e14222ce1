//! A binary heap in a vector that moves what it keeps as Click's does: in which order equals come out shows.

/// Puts the last of `row` into its place among the ones before, which are a heap.
pub(super) fn push<T>(row: &mut [T], before: impl Fn(&T, &T) -> bool) {
    let mut at = row.len().saturating_sub(1);
    while at > 0 {
        let parent = (at - 1) / 2;
        if !before(&row[at], &row[parent]) {
            break;
        }
        row.swap(at, parent);
        at = parent;
    }
}

/// Takes the first of a heap.
pub(super) fn pop<T>(row: &mut Vec<T>, before: impl Fn(&T, &T) -> bool) -> Option<T> {
    if row.is_empty() {
        return None;
    }
    let first = row.swap_remove(0);
    let mut at = 0;
    loop {
        let mut least = at;
        for child in [2 * at + 1, 2 * at + 2] {
            if child < row.len() && before(&row[child], &row[least]) {
                least = child;
            }
        }
        if least == at {
            return Some(first);
        }
        row.swap(at, least);
        at = least;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorts(numbers in prop::collection::vec(0u8..20, 0..40)) {
            let mut row = Vec::new();
            for &number in &numbers {
                row.push(number);
                super::push(&mut row, |a, b| a < b);
            }
            let out: Vec<u8> = std::iter::from_fn(|| super::pop(&mut row, |a, b| a < b)).collect();
            let mut sorted = numbers;
            sorted.sort_unstable();
            prop_assert_eq!(out, sorted);
        }
    }
}
