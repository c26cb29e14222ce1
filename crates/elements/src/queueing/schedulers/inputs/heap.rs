//! A binary heap in a vector that moves its items exactly as Click's does: the order of equal items is visible.

/// Moves the last item of `row` to its place in the heap formed by the items before it.
pub(crate) fn push<T>(row: &mut [T], before: impl Fn(&T, &T) -> bool) {
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

/// Removes the first item of a heap.
pub(crate) fn pop<T>(row: &mut Vec<T>, before: impl Fn(&T, &T) -> bool) -> Option<T> {
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
