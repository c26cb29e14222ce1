//! The elements of a section, and the connections between them.

/// The elements of a section, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) batcher: usize,
    pub(crate) balancer: Option<usize>,
    pub(crate) to_device: usize,
    /// Stages, each after those that lead to it.
    pub(crate) stages: Vec<Placed>,
    pub(crate) to_host: usize,
    pub(crate) queue: Option<usize>,
    pub(crate) debatcher: usize,
}

/// A stage in its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) element: usize,
    /// The number of outputs that it decides between; 0 if it decides nothing.
    pub(crate) outputs: u32,
    /// The connections to it: a stage's place in the section, and the output port of its element. Empty when it gets
    /// all packets.
    pub(crate) from: Vec<(usize, usize)>,
    /// The stage and the output that CHK_ANNO names.
    pub(crate) only: Option<(usize, u32)>,
}

impl Layout {
    /// The maximum number of stages, which is also a plan's limit on launches.
    pub(crate) const MOST: usize = 64;

    /// All elements of the section.
    pub(crate) fn elements(&self) -> impl Iterator<Item = usize> + '_ {
        let ends = [Some(self.batcher), self.balancer, Some(self.to_device), Some(self.to_host)];
        let frame = ends.into_iter().chain([self.queue, Some(self.debatcher)]).flatten();
        frame.chain(self.stages.iter().map(|placed| placed.element))
    }

    /// The place of a stage in the section.
    pub(crate) fn place_of(&self, element: usize) -> Option<usize> {
        self.stages.iter().position(|placed| placed.element == element)
    }

    /// Whether every path to stage `place` passes stage `before`.
    pub(crate) fn is_passed(&self, before: usize, place: usize) -> bool {
        // Stages come after those that lead to them.
        let mut after: Vec<bool> = Vec::with_capacity(self.stages.len());
        for placed in &self.stages {
            let passed = |&(from, _): &(usize, usize)| {
                from == before || after.get(from).copied().unwrap_or(false)
            };
            after.push(!placed.from.is_empty() && placed.from.iter().all(passed));
        }
        after.get(place).copied().unwrap_or(false)
    }

    /// The places of the stages on any path to the stage at `place`.
    pub(crate) fn ancestors(&self, place: usize) -> impl Iterator<Item = usize> + use<> {
        let mut before: Vec<u64> = Vec::with_capacity(self.stages.len());
        for placed in &self.stages {
            let joined = placed.from.iter().fold(0, |joined, &(from, _)| {
                joined
                    | before.get(from).copied().unwrap_or(0)
                    | 1u64.checked_shl(from as u32).unwrap_or(0)
            });
            before.push(joined);
        }
        let found = before.get(place).copied().unwrap_or(0);
        (0..Self::MOST).filter(move |from| found >> from & 1 == 1)
    }
}
