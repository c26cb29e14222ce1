//! Which buckets of a hash table to give to which threads, so that loads become even with few moves.

/// A bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// The thread that it has, as a number from 0.
    pub(super) target: usize,
    /// The part of that thread's load that it causes.
    pub(super) load: f64,
}

/// The moves, as a bucket and its new target, given the load of each target in use. Loads become what they should be
/// after the moves. Buckets of targets that are not in use go to others in any case; those without load, which may get
/// some soon, to the targets with the fewest buckets.
///
/// Finding the best moves is a variant of bin packing; this takes the bucket that brings the busiest and the least busy
/// target closest together, again and again, which is within a bucket of the optimum. Differences from the mean up to
/// `threshold` stay.
pub(super) fn moves(buckets: &[Bucket], loads: &mut [f64], threshold: f64) -> Vec<(usize, usize)> {
    let mut moves = Vec::new();
    let mut targets: Vec<usize> = buckets.iter().map(|bucket| bucket.target).collect();
    // Those with most load first: smaller ones then fill the differences.
    let mut order: Vec<usize> = (0..buckets.len()).collect();
    order.sort_by(|a, b| buckets[*b].load.total_cmp(&buckets[*a].load));
    let used = loads.len();
    let mut counts = vec![0usize; used];
    for bucket in buckets.iter().filter(|bucket| bucket.target < used) {
        counts[bucket.target] += 1;
    }
    for &at in order.iter().filter(|&&at| buckets[at].target >= used) {
        let is_idle = buckets[at].load == 0.0;
        let to = match is_idle {
            true => (0..used).min_by_key(|&target| counts[target]),
            false => extremes(loads).map(|(least, _)| least),
        };
        let Some(to) = to else { return moves };
        loads[to] += buckets[at].load;
        counts[to] += 1;
        targets[at] = to;
    }
    // Each move makes the loads more even; so many are enough for any table.
    for _ in 0..4 * buckets.len() {
        let Some((least, most)) = extremes(loads) else { break };
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        if loads[most] - mean <= threshold {
            break;
        }
        // More than this would only exchange the two.
        let gap = loads[most] - loads[least];
        let fits = |at: &&usize| {
            targets[**at] == most && buckets[**at].load > 0.0 && buckets[**at].load < gap
        };
        let distance = |at: usize| (gap / 2.0 - buckets[at].load).abs();
        let best = order.iter().filter(fits).min_by(|a, b| distance(**a).total_cmp(&distance(**b)));
        let Some(&best) = best else { break };
        loads[most] -= buckets[best].load;
        loads[least] += buckets[best].load;
        targets[best] = least;
    }
    for (at, (bucket, target)) in buckets.iter().zip(&targets).enumerate() {
        if bucket.target != *target {
            moves.push((at, *target));
        }
    }
    moves
}

/// The least busy and the busiest target.
fn extremes(loads: &[f64]) -> Option<(usize, usize)> {
    let by_load = |a: &usize, b: &usize| loads[*a].total_cmp(&loads[*b]);
    let least = (0..loads.len()).min_by(by_load)?;
    Some((least, (0..loads.len()).max_by(by_load)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn buckets(of: &[(usize, f64)]) -> Vec<Bucket> {
        of.iter().map(|&(target, load)| Bucket { target, load }).collect()
    }

    fn loads(buckets: &[Bucket], targets: usize) -> Vec<f64> {
        let mut loads = vec![0.0; targets];
        for bucket in buckets.iter().filter(|bucket| bucket.target < targets) {
            loads[bucket.target] += bucket.load;
        }
        loads
    }

    #[test]
    fn one_move_is_enough_where_one_bucket_is_the_difference() {
        let all = buckets(&[(0, 0.5), (0, 0.2), (0, 0.1), (1, 0.4)]);
        assert_eq!(moves(&all, &mut loads(&all, 2), 0.02), [(1, 1)]);
    }

    #[test]
    fn what_is_even_stays_and_so_does_a_bucket_that_is_too_large() {
        let even = buckets(&[(0, 0.5), (1, 0.49)]);
        assert!(moves(&even, &mut loads(&even, 2), 0.02).is_empty());
        let elephant = buckets(&[(0, 0.9), (1, 0.0)]);
        assert!(moves(&elephant, &mut loads(&elephant, 2), 0.02).is_empty());
    }

    #[test]
    fn a_target_that_is_given_up_loses_all_buckets() {
        let all = buckets(&[(0, 0.2), (1, 0.1), (2, 0.3), (2, 0.0)]);
        let moved = moves(&all, &mut loads(&all, 2), 0.5);
        assert_eq!(moved.iter().map(|one| one.0).collect::<Vec<_>>(), [2, 3]);
        assert!(moved.iter().all(|one| one.1 < 2));
    }

    #[test]
    fn buckets_without_load_are_spread() {
        let mut of = vec![(2, 0.0); 60];
        of.extend([(0, 0.3), (1, 0.1), (2, 0.2)]);
        let all = buckets(&of);
        let moved = moves(&all, &mut loads(&all, 2), 0.02);
        let idle = |target| moved.iter().filter(|one| one.0 < 60 && one.1 == target).count();
        assert_eq!((idle(0), idle(1)), (31, 29));
        // Where all targets are in use, they stay.
        let all = buckets(&of[..61]);
        assert!(moves(&all, &mut loads(&all, 3), 0.02).is_empty());
    }

    proptest! {
        #[test]
        fn the_busiest_target_never_gets_busier(
            of in prop::collection::vec((0usize..4, 0.0f64..0.1), 0..300),
        ) {
            let before = buckets(&of);
            let mut expected = loads(&before, 4);
            let worst = expected.iter().copied().fold(0.0, f64::max);
            let moved = moves(&before, &mut expected, 0.01);
            let mut after = before.clone();
            for &(at, target) in &moved {
                after[at].target = target;
            }
            let now = loads(&after, 4);
            for (now, expected) in now.iter().zip(&expected) {
                prop_assert!((now - expected).abs() < 1e-9);
                prop_assert!(*now <= worst + 1e-9);
            }
            // Within a bucket of even.
            let mean = now.iter().sum::<f64>() / 4.0;
            let largest = of.iter().map(|one| one.1).fold(0.0, f64::max);
            prop_assert!(now.iter().copied().fold(0.0, f64::max) - mean <= largest + 0.01 + 1e-9);
        }
    }
}
