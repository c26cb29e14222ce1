//! Which threads receive from which device: the cores of a NUMA node are divided among the devices of that
//! node (Barbette et al., ANCS'15, section 5.6).

use std::ops::Range;

use super::receiving::Receiving;
use super::seats::Seat;

/// An element that requests to receive, and what the configuration specifies about its thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applicant<'a> {
    pub(super) wish: &'a Receiving,
    /// The node of its device.
    pub(super) node: Option<usize>,
    /// The thread that StaticThreadSched names.
    pub(super) pin: Option<usize>,
}

/// The result for an element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Grant {
    /// The threads that receive; at least one.
    pub(super) threads: Vec<usize>,
    /// The device's queues that they receive from.
    pub(super) queues: Range<usize>,
    pub(super) why: String,
}

impl Applicant<'_> {
    /// The number of queues to receive from, if it is known.
    fn available(&self) -> Option<usize> {
        let left = self.wish.has_queues.map(|has| has.saturating_sub(self.wish.first_queue));
        self.wish.queues.or(left)
    }

    /// The maximum number of threads that it can use: by default as many as queues, because threads that
    /// share a queue reorder its packets. `None` for any number.
    pub(super) fn most(&self) -> Option<usize> {
        match self.pin {
            Some(_) => Some(1),
            None => self.wish.max_threads.or(self.available()).map(|most| most.max(1)),
        }
    }

    /// Whether the configuration specifies which threads, or how many.
    fn is_fixed(&self) -> bool {
        self.pin.is_some() || self.wish.max_threads.is_some() || self.wish.thread_offset.is_some()
    }

    /// Its queues when `threads` threads receive.
    fn queues(&self, threads: usize) -> Range<usize> {
        let first = self.wish.first_queue;
        let count = self.wish.queues.unwrap_or(threads.min(self.available().unwrap_or(threads)));
        first..first.saturating_add(count.max(1))
    }

    fn grant(&self, threads: Vec<usize>, why: String) -> Grant {
        let why = match self.available() {
            Some(queues) if queues < threads.len() => {
                format!("{why}; they share its queues by lock, which mixes the order of packets")
            }
            Some(queues) if queues == threads.len() && !self.is_fixed() => {
                match (queues, self.wish.queues) {
                    (1, None) => format!("{why}; it has one queue"),
                    (1, Some(_)) => format!("{why}; one queue is asked for"),
                    (_, None) => format!("{why}; it has {queues} queues"),
                    (_, Some(_)) => format!("{why}; {queues} queues are asked for"),
                }
            }
            _ => why,
        };
        Grant { queues: self.queues(threads.len()), threads, why }
    }
}

/// Divides the threads in `seats` among the applicants. Threads that the configuration assigns to other
/// elements (`taken`, one bit each) receive only if no others are left.
pub(super) fn assign(applicants: &[Applicant<'_>], seats: &[Seat], taken: u64) -> Vec<Grant> {
    let all: Vec<usize> = (0..seats.len()).collect();
    let free = all.iter().copied().filter(|thread| taken >> thread & 1 == 0).collect();
    let free = if_any(free, &all);
    let mut grants: Vec<Grant> = applicants.iter().map(|_| Grant::default()).collect();
    for node in nodes_of(applicants) {
        let here: Vec<usize> =
            (0..applicants.len()).filter(|&n| place_of(&applicants[n]) == node).collect();
        let on_node = |&thread: &usize| node.is_none_or(|node| seats[thread].node == node);
        let near: Vec<usize> = all.iter().copied().filter(on_node).collect();
        let near_and_free: Vec<usize> = free.iter().copied().filter(on_node).collect();
        let group = Group {
            far: near.is_empty(),
            // A thread that has other work is better than one on another node.
            threads: if_any(near_and_free, &if_any(near, &free)),
            node: node.filter(|_| seats.iter().any(|seat| seat.node != seats[0].node)),
            all: all.len(),
        };
        group.serve(applicants, &here, &mut grants);
    }
    grants
}

/// The first list, or if it is empty the second.
fn if_any(list: Vec<usize>, otherwise: &[usize]) -> Vec<usize> {
    if list.is_empty() { otherwise.to_vec() } else { list }
}

/// The node for an applicant's threads; `None` for any.
fn place_of(applicant: &Applicant<'_>) -> Option<usize> {
    applicant.node.filter(|_| !applicant.wish.any_node)
}

/// The nodes in order, and last the devices on no node.
fn nodes_of(applicants: &[Applicant<'_>]) -> Vec<Option<usize>> {
    let mut nodes: Vec<Option<usize>> = applicants.iter().map(place_of).collect();
    nodes.sort_unstable_by_key(|node| (node.is_none(), *node));
    nodes.dedup();
    nodes
}

/// The threads for the devices of one node.
struct Group {
    threads: Vec<usize>,
    /// The node, if it is worth reporting.
    node: Option<usize>,
    /// The threads are on another one.
    far: bool,
    /// The number of all threads.
    all: usize,
}

impl Group {
    fn serve(&self, applicants: &[Applicant<'_>], here: &[usize], grants: &mut [Grant]) {
        let mut claimed = Vec::new();
        let mut next = 0;
        for &n in here.iter().filter(|&&n| applicants[n].is_fixed()) {
            grants[n] = self.fixed(&applicants[n], here.len(), &mut next);
            claimed.extend(&grants[n].threads);
        }
        let open: Vec<usize> =
            here.iter().copied().filter(|&n| !applicants[n].is_fixed()).collect();
        let left = self.threads.iter().copied().filter(|thread| !claimed.contains(thread));
        let left = if_any(left.collect(), &self.threads);
        self.share(applicants, &open, &left, grants);
    }

    /// What the configuration specifies for one of this many receivers.
    fn fixed(&self, applicant: &Applicant<'_>, receivers: usize, next: &mut usize) -> Grant {
        if let Some(thread) = applicant.pin {
            let why = "set by StaticThreadSched".to_owned();
            return applicant.grant(vec![thread % self.all], why);
        }
        let wanted = applicant.most().unwrap_or(self.threads.len());
        if let Some(offset) = applicant.wish.thread_offset {
            // Threads by number, wherever they are.
            let count = match applicant.wish.max_threads {
                Some(_) => wanted.min(self.all),
                None => wanted.min(self.threads.len() / receivers.max(1)),
            };
            let threads = (0..count.max(1)).map(|slot| (offset + slot) % self.all).collect();
            let why = match applicant.wish.max_threads {
                Some(most) => format!("THREADOFFSET {offset} and MAXTHREADS {most}"),
                None => format!("THREADOFFSET {offset}"),
            };
            return applicant.grant(threads, format!("{why} in the configuration"));
        }
        let count = wanted.clamp(1, self.threads.len());
        let turn = self.threads.iter().cycle().skip(*next).take(count);
        *next = (*next + count) % self.threads.len();
        let why = format!("MAXTHREADS {wanted} in the configuration");
        applicant.grant(turn.copied().collect(), why + &self.distance())
    }

    /// Divides `threads` evenly among those that leave the choice to the plan, but gives none more than it
    /// can use.
    fn share(
        &self,
        applicants: &[Applicant<'_>],
        open: &[usize],
        threads: &[usize],
        grants: &mut [Grant],
    ) {
        let devices = match (open.len(), self.node) {
            (1, None) => "the only device".to_owned(),
            (1, Some(node)) => format!("the only device of NUMA node {node}"),
            (k, None) => format!("{k} devices"),
            (k, Some(node)) => format!("the {k} devices of NUMA node {node}"),
        };
        let there_are = match threads.len() {
            1 => "one thread".to_owned(),
            n => format!("{n} threads"),
        };
        let why = format!("{there_are} for {devices}") + &self.distance();
        if open.len() >= threads.len() {
            for (at, &n) in open.iter().enumerate() {
                let thread = threads[at * threads.len() / open.len()];
                grants[n] = applicants[n].grant(vec![thread], why.clone());
            }
            return;
        }
        let mut counts = vec![1usize; open.len()];
        let mut left = threads.len() - open.len();
        while left > 0 {
            let roomy = |&at: &usize| applicants[open[at]].most().is_none_or(|m| counts[at] < m);
            let Some(at) = (0..open.len()).filter(roomy).min_by_key(|&at| counts[at]) else {
                break;
            };
            counts[at] += 1;
            left -= 1;
        }
        let mut from = 0;
        for (&n, count) in open.iter().zip(counts) {
            let own = threads.get(from..from + count).unwrap_or_default().to_vec();
            from += count;
            grants[n] = applicants[n].grant(own, why.clone());
        }
    }

    fn distance(&self) -> String {
        match self.node {
            Some(node) if self.far => format!(", none of them on node {node}: packets cross over"),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seats on nodes.
    fn seats(nodes: &[usize]) -> Vec<Seat> {
        nodes.iter().map(|&node| Seat { node, ..Seat::default() }).collect()
    }

    fn on(node: usize) -> (Receiving, Option<usize>, Option<usize>) {
        (Receiving::default(), Some(node), None)
    }

    fn queues(has: usize, node: usize) -> (Receiving, Option<usize>, Option<usize>) {
        (Receiving { has_queues: Some(has), ..Receiving::default() }, Some(node), None)
    }

    fn wish(
        max: Option<usize>,
        offset: Option<usize>,
    ) -> (Receiving, Option<usize>, Option<usize>) {
        let wish = Receiving { max_threads: max, thread_offset: offset, ..Receiving::default() };
        (wish, Some(0), None)
    }

    /// Threads and queues of each.
    fn plan(
        nodes: &[usize],
        taken: u64,
        wishes: &[(Receiving, Option<usize>, Option<usize>)],
    ) -> Vec<(Vec<usize>, Range<usize>)> {
        let applicants: Vec<Applicant<'_>> = wishes
            .iter()
            .map(|(wish, node, pin)| Applicant { wish, node: *node, pin: *pin })
            .collect();
        let grants = assign(&applicants, &seats(nodes), taken);
        grants.into_iter().map(|grant| (grant.threads, grant.queues)).collect()
    }

    #[test]
    fn threads_of_a_node_are_divided_among_its_devices() {
        const TWO: &[usize] = &[0, 0, 0, 0, 1, 1, 1, 1];
        type Case<'a> =
            (&'a [usize], Vec<(Receiving, Option<usize>, Option<usize>)>, &'a [&'a [usize]]);
        let cases: Vec<Case<'_>> = vec![
            (&[0], vec![on(0)], &[&[0]]),
            (&[0], vec![on(0), on(0)], &[&[0], &[0]]),
            (&[0; 4], vec![on(0)], &[&[0, 1, 2, 3]]),
            (&[0; 4], vec![on(0), on(0)], &[&[0, 1], &[2, 3]]),
            (&[0; 4], vec![on(0), on(0), on(0)], &[&[0, 1], &[2], &[3]]),
            (&[0; 2], vec![on(0), on(0), on(0), on(0)], &[&[0], &[0], &[1], &[1]]),
            (TWO, vec![on(0), on(1)], &[&[0, 1, 2, 3], &[4, 5, 6, 7]]),
            (TWO, vec![on(1), on(1)], &[&[4, 5], &[6, 7]]),
            // Unknown or no node: what is there.
            (TWO, vec![(Receiving::default(), None, None)], &[&[0, 1, 2, 3, 4, 5, 6, 7]]),
            // No thread on the node of the device.
            (&[0, 0], vec![on(1)], &[&[0, 1]]),
            // NUMA false.
            (
                &[0, 1],
                vec![(Receiving { any_node: true, ..Receiving::default() }, Some(1), None)],
                &[&[0, 1]],
            ),
            // Threads that a device cannot use go to the other one.
            (&[0; 4], vec![queues(1, 0), on(0)], &[&[0], &[1, 2, 3]]),
            (&[0; 4], vec![queues(1, 0)], &[&[0]]),
            (&[0; 4], vec![queues(2, 0), queues(1, 0)], &[&[0, 1], &[2]]),
        ];
        for (nodes, wishes, expected) in cases {
            let got: Vec<_> = plan(nodes, 0, &wishes).into_iter().map(|grant| grant.0).collect();
            assert_eq!(got, expected, "{nodes:?} {wishes:?}");
        }
    }

    #[test]
    fn the_configuration_has_the_last_word() {
        let pinned = (Receiving::default(), Some(0), Some(2));
        let got = plan(&[0; 4], 0, &[pinned, on(0)]);
        assert_eq!(got, [(vec![2], 0..1), (vec![0, 1, 3], 0..3)]);
        let got = plan(&[0; 4], 0, &[wish(Some(1), None), wish(Some(2), None), on(0)]);
        assert_eq!(got, [(vec![0], 0..1), (vec![1, 2], 0..2), (vec![3], 0..1)]);
        let got = plan(&[0; 4], 0, &[wish(Some(2), Some(3))]);
        assert_eq!(got, [(vec![3, 0], 0..2)]);
        let got = plan(&[0; 4], 0, &[wish(None, Some(1)), on(0)]);
        assert_eq!(got, [(vec![1, 2], 0..2), (vec![0, 3], 0..2)]);
        // Threads that others are pinned to, unless there are no others.
        assert_eq!(plan(&[0; 2], 0b10, &[on(0)]), [(vec![0], 0..1)]);
        assert_eq!(plan(&[0; 2], 0b11, &[on(0)]), [(vec![0, 1], 0..2)]);
        assert_eq!(plan(&[0, 0, 1], 0b100, &[on(1)]), [(vec![2], 0..1)]);
        assert_eq!(plan(&[0, 0], 0b10, &[on(1)]), [(vec![0], 0..1)]);
        // A number that is no thread.
        let pinned = (Receiving::default(), Some(0), Some(7));
        assert_eq!(plan(&[0; 4], 0, &[pinned]), [(vec![3], 0..1)]);
    }

    #[test]
    fn queues_follow_threads_unless_they_are_given() {
        let with = |change: fn(&mut Receiving)| {
            let mut receiving = Receiving::default();
            change(&mut receiving);
            vec![(receiving, Some(0), None)]
        };
        // More queues than threads: a thread looks across several.
        assert_eq!(plan(&[0], 0, &with(|w| w.queues = Some(4))), [(vec![0], 0..4)]);
        // Fewer: threads share by lock, when they are asked for.
        let shared = with(|w| {
            w.queues = Some(1);
            w.max_threads = Some(3);
        });
        assert_eq!(plan(&[0; 4], 0, &shared), [(vec![0, 1, 2], 0..1)]);
        let one = with(|w| w.first_queue = 5);
        assert_eq!(plan(&[0; 2], 0, &one), [(vec![0, 1], 5..7)]);
        let last = with(|w| {
            w.first_queue = 3;
            w.has_queues = Some(4);
        });
        assert_eq!(plan(&[0; 2], 0, &last), [(vec![0], 3..4)]);
        // The device does not have the queue: opening it will tell.
        let beyond = with(|w| {
            w.first_queue = 9;
            w.has_queues = Some(4);
        });
        assert_eq!(plan(&[0; 2], 0, &beyond), [(vec![0], 9..10)]);
    }

    #[test]
    fn reasons_are_told() {
        let why = |nodes: &[usize], wishes: &[(Receiving, Option<usize>, Option<usize>)]| {
            let applicants: Vec<Applicant<'_>> = wishes
                .iter()
                .map(|(wish, node, pin)| Applicant { wish, node: *node, pin: *pin })
                .collect();
            assign(&applicants, &seats(nodes), 0).remove(0).why
        };
        assert_eq!(why(&[0, 0], &[on(0)]), "2 threads for the only device");
        assert_eq!(
            why(&[0, 0], &[queues(1, 0)]),
            "2 threads for the only device; it has one queue"
        );
        assert_eq!(why(&[0, 1, 1], &[on(1), on(1)]), "2 threads for the 2 devices of NUMA node 1");
        assert_eq!(
            why(&[0, 0, 2], &[on(1)]),
            "3 threads for the only device of NUMA node 1, none of them on node 1: packets cross over"
        );
        assert_eq!(why(&[0], &[(Receiving::default(), None, Some(0))]), "set by StaticThreadSched");
        let shared =
            Receiving { max_threads: Some(2), has_queues: Some(1), ..Receiving::default() };
        assert_eq!(
            why(&[0, 0], &[(shared, None, None)]),
            "MAXTHREADS 2 in the configuration; they share its queues by lock, which mixes the order of \
             packets"
        );
    }
}
