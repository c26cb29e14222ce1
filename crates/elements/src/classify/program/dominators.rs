//! Skipping tests whose result is known from earlier tests.
//!
//! On the path `0: tcp? -yes-> 1: port 80? -no-> 2: tcp? -> ...` the first test decides the third: the `no` of 1 may
//! lead directly to where the `yes` of 2 leads. That holds if *every* path to 1 passes the `yes` of 0, but listing all
//! paths takes exponential time.
//!
//! Click's solution is used here so that the programs are the same: for every instruction, keep up to [`MAX_LISTS`]
//! lists of branches such that every path from the start to the instruction takes all the branches of at least one
//! list. A branch may skip a test when under each list some branch (or the branch itself) decides the test in the same
//! way. If there are more lists than that, the branches common to all of them form the one list that is kept.
//!
//! The order of lists and branches is also Click's: it affects the result wherever there is more than one way to skip a
//! test.

use std::cell::Cell;
use std::collections::HashMap;

use super::insn::{Form, Insn, Jump};
use super::layout::{KnownLength, Layout};

/// The maximum number of lists of branches kept for an instruction.
const MAX_LISTS: usize = 4;

/// The maximum number of branches looked at for a program. Programs of very many tests may need the square of their
/// number; beyond this the rest of the program keeps its tests, which is slower for packets, and equally correct.
const MAX_STEPS: usize = 10_000_000;

/// Makes branches skip tests that earlier branches decide, and marks unreachable instructions by leading both their
/// branches to [`Jump::Drop`].
pub(super) fn skip_decided(insns: &mut [Insn], layout: Layout, form: Form) {
    let mut dominators = Dominators::new(insns, layout, form);
    for state in 0..dominators.insns.len() {
        if dominators.is_exhausted() {
            break;
        }
        dominators.run(state);
    }
}

/// One of the two ways out of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Branch(u32);

impl Branch {
    fn new(state: usize, yes: bool) -> Self {
        // A program of 2^31 instructions does not fit in memory.
        Branch((state as u32) << 1 | u32::from(yes))
    }

    fn state(self) -> usize {
        (self.0 >> 1) as usize
    }

    fn yes(self) -> bool {
        self.0 & 1 == 1
    }

    fn opposite(self) -> Self {
        Branch(self.0 ^ 1)
    }
}

/// A list of branches: the last one, and the list before it. Lists share their beginnings, which keeps memory linear
/// for programs that are long chains.
#[derive(Clone, Copy, Debug)]
struct Link {
    branch: Branch,
    before: List,
}

/// A list of branches, by the number of its last link; 0 is the empty list.
type List = u32;

const EMPTY: List = 0;

struct Dominators<'a> {
    insns: &'a mut [Insn],
    form: Form,
    /// The minimum length of all packets that reach an instruction, for the section of the packet that the instruction
    /// tests. Lists name the first of equal instructions, so this is kept for the first of them.
    known: Vec<u32>,
    /// The first of the instructions with the same test as this one.
    same: Vec<usize>,
    /// The branches that lead to an instruction.
    incoming: Vec<Vec<Branch>>,
    links: Vec<Link>,
    /// The lists of the instructions seen so far. No list: no packet reaches the instruction.
    lists: Vec<Vec<List>>,
    /// The number of branches looked at.
    steps: Cell<usize>,
}

impl<'a> Dominators<'a> {
    fn new(insns: &'a mut [Insn], layout: Layout, form: Form) -> Self {
        let mut first = HashMap::new();
        let same: Vec<usize> = insns
            .iter()
            .enumerate()
            .map(|(at, insn)| *first.entry((insn.test, insn.short)).or_insert(at))
            .collect();
        let mut incoming: Vec<Vec<Branch>> = vec![Vec::new(); insns.len()];
        for (state, insn) in insns.iter().enumerate() {
            for yes in [false, true] {
                if let Some(into) = insn.branch(yes).step().and_then(|to| incoming.get_mut(to)) {
                    into.push(Branch::new(state, yes));
                }
            }
        }
        // Click puts each new one first.
        incoming.iter_mut().for_each(|branches| branches.reverse());
        let known = known_lengths(insns, &same, layout, form);
        Self {
            insns,
            form,
            known,
            same,
            incoming,
            links: Vec::new(),
            lists: Vec::new(),
            steps: Cell::new(0),
        }
    }

    fn is_exhausted(&self) -> bool {
        self.steps.get() > MAX_STEPS
    }

    fn run(&mut self, state: usize) {
        let lists = self.dominating_lists(state);
        if lists.is_empty() {
            self.lead(Branch::new(state, false), Jump::Drop);
            self.lead(Branch::new(state, true), Jump::Drop);
        }
        self.lists.push(lists);
        self.lead_on(Branch::new(state, true));
        self.lead_on(Branch::new(state, false));
    }

    /// The lists of an instruction, from those of its predecessors. None if no packet reaches it, which is also the
    /// case when all its predecessors now skip it.
    fn dominating_lists(&mut self, state: usize) -> Vec<List> {
        if state == 0 {
            return vec![EMPTY];
        }
        let incoming = self.incoming.get(state).cloned().unwrap_or_default();
        let paths = self.incoming_paths(&incoming);
        if paths.len() > MAX_LISTS {
            let common = self.common_branches(&paths);
            return vec![self.list_of(&common)];
        }
        if let Some(yes) = self.settled(state, &paths) {
            // Every path to this instruction has already taken this very test.
            let to = self.insns[state].branch(yes);
            for branch in incoming {
                self.lead(branch, to);
            }
            return Vec::new();
        }
        paths.into_iter().map(|path| self.list_of_path(path)).collect()
    }

    /// The lists under which packets arrive, each with the branch they arrive by.
    fn incoming_paths(&self, incoming: &[Branch]) -> Vec<(List, Option<Branch>)> {
        let mut paths = Vec::new();
        let mut start = 0;
        for (nth, branch) in incoming.iter().enumerate() {
            let from = branch.state();
            let lists = &self.lists[from];
            if nth > 0 && incoming[nth - 1].state() == from {
                // Both ways lead here, so neither gives information.
                paths.truncate(start);
                paths.extend(lists.iter().map(|&list| (list, None)));
                continue;
            }
            start = paths.len();
            let taken = Branch::new(self.same[from], branch.yes());
            for &list in lists {
                // A path cannot take both branches of one test.
                if !self.branches(list).any(|before| before == taken.opposite()) {
                    paths.push((list, Some(taken)));
                }
            }
        }
        paths
    }

    /// The result of the test of `state` if every list contains the same test with one result.
    fn settled(&self, state: usize, paths: &[(List, Option<Branch>)]) -> Option<bool> {
        let same = self.same[state];
        let mut answers = paths.iter().map(|&(list, last)| {
            last.into_iter()
                .chain(self.branches(list))
                .find(|branch| branch.state() == same)
                .map(Branch::yes)
        });
        let first = answers.next()??;
        answers.all(|answer| answer == Some(first)).then_some(first)
    }

    /// Makes a branch skip the tests that are decided under every list.
    fn lead_on(&mut self, branch: Branch) {
        let Some(first) = self.insns[branch.state()].branch(branch.yes()).step() else { return };
        let taken = Branch::new(self.same[branch.state()], branch.yes());
        let lists = &self.lists[branch.state()];
        let ways: Vec<Way> = lists.iter().map(|&list| self.way(first, taken, list)).collect();
        let Some(to) = Way::last_common(&ways) else { return };
        if to != Jump::to(first) {
            self.lead(branch, to);
        }
    }

    /// The instructions that packets pass from `first` on, having taken the branches of `list` and then `taken`, as far
    /// as these decide.
    fn way(&self, first: usize, taken: Branch, list: List) -> Way {
        let mut steps = vec![first];
        let mut at = first;
        loop {
            let decided = std::iter::once(taken)
                .chain(self.branches(list))
                .find_map(|branch| self.decides(branch, at));
            // A way may end early.
            let Some(yes) = decided.filter(|_| !self.is_exhausted()) else {
                return Way { steps, end: None };
            };
            let to = self.insns[at].branch(yes);
            let Some(next) = to.step() else { return Way { steps, end: Some(to) } };
            steps.push(next);
            at = next;
        }
    }

    fn decides(&self, branch: Branch, at: usize) -> Option<bool> {
        let from = branch.state();
        self.insns[from].decides(branch.yes(), &self.insns[at], self.known[from], self.form)
    }

    /// Redirects a branch.
    fn lead(&mut self, branch: Branch, to: Jump) {
        let jump = &mut self.insns[branch.state()].jump[usize::from(branch.yes())];
        let old = std::mem::replace(jump, to);
        if let Some(incoming) = old.step().and_then(|old| self.incoming.get_mut(old)) {
            incoming.retain(|&other| other != branch);
        }
        if let Some(incoming) = to.step().and_then(|to| self.incoming.get_mut(to)) {
            let place = incoming.iter().position(|&other| other >= branch);
            incoming.insert(place.unwrap_or(incoming.len()), branch);
        }
    }

    /// The branches of a list, starting with the last.
    fn branches(&self, list: List) -> impl Iterator<Item = Branch> {
        let mut next = list;
        std::iter::from_fn(move || {
            let link = self.links.get((next as usize).checked_sub(1)?)?;
            self.steps.set(self.steps.get() + 1);
            next = link.before;
            Some(link.branch)
        })
    }

    fn append(&mut self, before: List, branch: Branch) -> List {
        self.links.push(Link { branch, before });
        self.links.len() as List
    }

    fn list_of(&mut self, branches: &[Branch]) -> List {
        branches.iter().fold(EMPTY, |list, &branch| self.append(list, branch))
    }

    /// The list of a path; the branch that it ends with occurs in it once.
    fn list_of_path(&mut self, (list, last): (List, Option<Branch>)) -> List {
        let Some(last) = last else { return list };
        if !self.branches(list).any(|before| before == last) {
            return self.append(list, last);
        }
        let mut branches: Vec<Branch> = self.branches(list).filter(|&b| b != last).collect();
        branches.reverse();
        branches.push(last);
        self.list_of(&branches)
    }

    /// The branches that occur in every path.
    fn common_branches(&self, paths: &[(List, Option<Branch>)]) -> Vec<Branch> {
        let lists: Vec<Vec<Branch>> = paths
            .iter()
            .map(|&(list, last)| {
                let mut branches: Vec<Branch> =
                    last.into_iter().chain(self.branches(list)).collect();
                branches.reverse();
                branches
            })
            .collect();
        intersection(&lists)
    }
}

/// How far packets go on until a test is undecided.
struct Way {
    /// The instructions passed, in order; the last one is undecided, unless the way has an end.
    steps: Vec<usize>,
    /// The end of the way, if it reaches one.
    end: Option<Jump>,
}

impl Way {
    /// The last point that all ways reach.
    fn last_common(ways: &[Way]) -> Option<Jump> {
        let (first, others) = ways.split_first()?;
        if let Some(end) = first.end
            && others.iter().all(|way| way.end == Some(end))
        {
            return Some(end);
        }
        let common = |step: &&usize| others.iter().all(|way| way.steps.binary_search(step).is_ok());
        first.steps.iter().rev().find(common).map(|&step| Jump::to(step))
    }
}

/// The branches common to all lists, found by stepping through the lists in parallel.
///
/// The lists are assumed to be sorted. They mostly are; for one that is not, branches can be missed (never invented),
/// just as Click misses them.
fn intersection(lists: &[Vec<Branch>]) -> Vec<Branch> {
    let mut common = Vec::new();
    let mut rest: Vec<&[Branch]> = lists.iter().map(Vec::as_slice).collect();
    let mut wanted = Branch(0);
    loop {
        let mut agreed = 0;
        let mut nth = 0;
        while agreed < rest.len() {
            let Some(list) = rest.get_mut(nth) else { return common };
            while let [first, later @ ..] = list
                && *first < wanted
            {
                *list = later;
            }
            let Some(&first) = list.first() else { return common };
            if first > wanted {
                wanted = first;
                agreed = 0;
            }
            nth = (nth + 1) % lists.len();
            agreed += 1;
        }
        common.push(wanted);
        wanted = Branch(wanted.0 + 1);
    }
}

/// The minimum length of all packets that reach an instruction, for the first of equal ones.
fn known_lengths(insns: &[Insn], same: &[usize], layout: Layout, form: Form) -> Vec<u32> {
    // Click treats the sections of an IP packet as one sequence of bytes.
    let layout = if form == Form::Click { Layout::Flat } else { layout };
    let mut known = vec![KnownLength::ANY; insns.len()];
    if let Some(start) = known.first_mut() {
        *start = KnownLength::NONE;
    }
    let mut lengths = Vec::with_capacity(insns.len());
    for (state, insn) in insns.iter().enumerate() {
        let section = layout.section(insn.test.offset);
        let here = known[state];
        let tested = here.at_least(section, insn.test.required_length());
        for yes in [false, true] {
            let Some(to) = insn.branch(yes).step().and_then(|to| known.get_mut(to)) else {
                continue;
            };
            *to = to.both(if insn.short == yes { here } else { tested });
        }
        lengths.push(here.of(section));
    }
    if form == Form::Exact {
        for (state, &first) in same.iter().enumerate() {
            lengths[first] = lengths[first].min(lengths[state]);
        }
    }
    lengths
}
