//! A routing table: the routes, and the structure in which forwarding threads look them up.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, MutexGuard};

use foldhash::fast::RandomState;
use millrace_core::InRound;
use millrace_core::{Lock, Published};

use super::fib::{Change, Fib, FibWriter, Part, Readers, Routes};
use super::hops::{HopId, HopTable, Hops};
use super::rib::{Order, Rib};
use crate::ip::lookup::routes::address::Address;
use crate::ip::lookup::routes::command::Command;
use crate::ip::lookup::routes::error::Error;
use crate::ip::lookup::routes::route::{Hop, Prefix, Route};

/// Routes that threads can look up while handlers change them.
///
/// Packets are routed by [`hop_of`](RouteTable::hop_of), which never waits. Changes come in transactions,
/// [`apply`](RouteTable::apply), one at a time.
#[derive(Debug)]
pub struct RouteTable<W: FibWriter<A>, A: Address = Ipv4Addr> {
    view: Published<View<W::Fib, A>>,
    state: Lock<State<W, A>>,
}

/// The readers' side.
#[derive(Debug)]
struct View<F, A: Address> {
    hops: Arc<HopTable<A>>,
    fib: F,
}

/// The writers' side.
#[derive(Debug)]
struct State<W: FibWriter<A>, A: Address> {
    rib: Rib<A>,
    hops: Hops<A>,
    writer: W,
    /// Views that readers may still have, oldest first, each with the resources that it needed and the next one does
    /// not. They are kept here so that no forwarding thread ever frees them.
    older: Older<W::Fib, A>,
    /// Resources that new views do not need.
    leftovers: Leftovers,
}

/// Views, each with the resources that it needed and the next one does not.
type Older<F, A> = VecDeque<(Arc<View<F, A>>, Leftovers)>;

/// Computes an order of the routes from the table's order.
type Sorting<A> = fn(&Rib<A>) -> Vec<(Prefix<A>, HopId)>;

/// Numbers to reuse when no reader can hold them.
#[derive(Debug, Default)]
struct Leftovers {
    hops: Vec<HopId>,
    parts: Vec<Part>,
}

/// A routing table as it was when the snapshot was taken; for structures that change in place, as it is at each lookup.
/// Hold a snapshot for the duration of a batch: resources that a change leaves behind are reused only when no earlier
/// snapshot exists.
pub struct Snapshot<F, A: Address = Ipv4Addr> {
    view: Arc<View<F, A>>,
}

impl<F: Fib<A>, A: Address> Snapshot<F, A> {
    /// The hop of an address.
    pub fn lookup(&self, address: A::Bits) -> Option<Hop<A>> {
        self.hop(self.view.fib.lookup(address))
    }

    /// Looks up many addresses. Stops at the end of the shorter slice. The numbers are valid for this snapshot only.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[A::Bits], hops: &mut [HopId]) {
        self.view.fib.lookup_batch(addresses, hops);
    }

    /// The hop with this number.
    #[inline]
    pub fn hop(&self, id: HopId) -> Option<Hop<A>> {
        self.view.hops.get(id)
    }
}

impl<W: FibWriter<A>, A: Address> RouteTable<W, A> {
    /// A table without routes that lists its routes in the given order.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(order: Order) -> Result<Self, Error<A>> {
        let (hops, writer) = (Hops::new()?, W::new()?);
        let view = View { hops: hops.shared().clone(), fib: writer.fib() };
        let rib = Rib::new(order);
        let (older, leftovers) = (VecDeque::new(), Leftovers::default());
        Ok(Self {
            view: Published::new(view),
            state: Lock::new(State { rib, hops, writer, older, leftovers }),
        })
    }

    /// The hop of an address, for a packet of this round. Never waits.
    #[inline(always)]
    pub fn hop_of(&self, address: A::Bits, at: &impl InRound) -> Option<Hop<A>> {
        let view = self.view.get(at);
        view.hops.get(view.fib.lookup(address))
    }

    /// A view for lookups outside a round, or for longer than one round.
    pub fn snapshot(&self) -> Snapshot<W::Fib, A> {
        Snapshot { view: self.view.load() }
    }

    /// Applies all commands, or none.
    ///
    /// Packets that are routed meanwhile see, for each address, the hop from before all commands or the one from after
    /// them, and nothing in between.
    ///
    /// # Errors
    /// A command fails; nothing has changed.
    pub fn apply(&self, commands: &[Command<A>]) -> Result<(), Error<A>> {
        let mut state = self.state();
        state.check(commands)?;
        state.carry_out(&self.view, commands)
    }

    /// Whether [`apply`](Self::apply) would succeed, given enough memory.
    ///
    /// # Errors
    /// A command would fail.
    pub fn check(&self, commands: &[Command<A>]) -> Result<(), Error<A>> {
        self.state().check(commands)
    }

    /// Replaces all routes. If several routes have the same network, the first one is used; returns the indexes of the
    /// others.
    ///
    /// # Errors
    /// There is not enough memory, or there are too many different hops; nothing has changed.
    pub fn load(&self, routes: &[Route<A>]) -> Result<Vec<usize>, Error<A>> {
        let mut state = self.state();
        let mut wanted: HashSet<Prefix<A>, RandomState> =
            HashSet::with_capacity_and_hasher(routes.len(), RandomState::default());
        let mut commands = Vec::with_capacity(routes.len());
        let mut left_out = Vec::new();
        for (place, &route) in routes.iter().enumerate() {
            match wanted.insert(route.prefix) {
                true => commands.push(Command::Set(route)),
                false => left_out.push(place),
            }
        }
        let old = state.rib.list().into_iter().map(|(prefix, _)| prefix);
        commands.extend(
            old.filter(|prefix| !wanted.contains(prefix))
                .map(|prefix| Command::Remove(prefix, None)),
        );
        state.carry_out(&self.view, &commands)?;
        Ok(left_out)
    }

    /// Removes every route.
    ///
    /// # Errors
    /// There is not enough memory for an empty table beside the old one; nothing has changed.
    pub fn flush(&self) -> Result<(), Error<A>> {
        self.load(&[]).map(drop)
    }

    /// The hop of an address, as packets find it.
    pub fn lookup(&self, address: A::Bits) -> Option<Hop<A>> {
        self.snapshot().lookup(address)
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.state().rib.len()
    }

    /// Whether there are no routes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every route, in the table's order.
    pub fn routes(&self) -> Vec<Route<A>> {
        let state = self.state();
        let list = state.rib.list().into_iter().map(|(prefix, entry)| (prefix, entry.hop));
        state.routes(list)
    }

    /// Every route, in an order computed from the table's order.
    pub(crate) fn routes_by(&self, order: Sorting<A>) -> Vec<Route<A>> {
        let state = self.state();
        state.routes(order(&state.rib).into_iter())
    }

    /// Bytes of memory in use: by the routes, and by the structure and everything that belongs to it. Memory that is
    /// reserved but was never written does not count, except for the tables of DIR-24-8, which count in full.
    pub fn memory(&self) -> (usize, usize) {
        let state = self.state();
        (state.rib.memory(), state.hops.memory() + state.writer.memory())
    }

    fn state(&self) -> MutexGuard<'_, State<W, A>> {
        // No code here panics between two changes that belong together.
        self.state.lock()
    }
}

impl<W: FibWriter<A>, A: Address> State<W, A> {
    /// Checks that each command can be applied after those before it.
    fn check(&self, commands: &[Command<A>]) -> Result<(), Error<A>> {
        // What the commands so far do to each network's route.
        let mut changed: HashMap<Prefix<A>, Option<Hop<A>>, RandomState> = HashMap::default();
        for (index, command) in commands.iter().enumerate() {
            let prefix = command.prefix();
            let found = || self.rib.get(prefix).and_then(|entry| self.hops.get(entry.hop));
            let hop = changed.get(&prefix).copied().unwrap_or_else(found);
            match (*command, hop) {
                (Command::Add(_), Some(hop)) => return Err(Error::Exists(Route { prefix, hop })),
                (Command::Remove(_, wanted), hop)
                    if hop.is_none() || wanted.is_some_and(|wanted| hop != Some(wanted)) =>
                {
                    return Err(Error::NotFound { prefix, hop: wanted });
                }
                _ => {}
            }
            if index + 1 < commands.len() {
                changed.insert(prefix, command.hop());
            }
        }
        Ok(())
    }

    /// Applies commands that have been checked, as one transaction.
    fn carry_out(
        &mut self,
        view: &Published<View<W::Fib, A>>,
        commands: &[Command<A>],
    ) -> Result<(), Error<A>> {
        let mut transaction = Transaction::new();
        let result = transaction
            .change_routes(self, commands)
            .and_then(|()| self.change_fib(view, &transaction));
        match result {
            Ok(()) => {
                for hop in transaction.released {
                    if self.hops.release(hop) {
                        self.leftovers.hops.push(hop);
                    }
                }
                if !self.leftovers.is_empty() {
                    // New readers cannot hold the leftovers.
                    let fib = self.writer.fib();
                    self.readers(view).publish(fib);
                }
                self.collect();
                Ok(())
            }
            Err(error) => {
                transaction.undo(self);
                Err(error)
            }
        }
    }

    fn change_fib(
        &mut self,
        view: &Published<View<W::Fib, A>>,
        transaction: &Transaction<A>,
    ) -> Result<(), Error<A>> {
        let outgrown = self.hops.has_outgrown();
        if outgrown {
            self.hops.grow()?;
        }
        let count = transaction.steps.len();
        let routes = Routes { rib: &self.rib, hop_limit: self.hops.limit() };
        // A structure changed in place would show new hops to readers that cannot look them up. And if most routes
        // change, a rebuild is faster.
        if outgrown || (count > BULK && count > self.rib.len() / 2) {
            self.writer.rebuild(routes)?;
            let fib = self.writer.fib();
            self.readers(view).forget();
            self.readers(view).publish(fib);
            return Ok(());
        }
        let changes = transaction.changes();
        if changes.is_empty() {
            return Ok(());
        }
        let State { rib, hops, writer, older, leftovers } = self;
        let routes = Routes { rib, hop_limit: hops.limit() };
        writer.update(routes, &changes, &mut Publisher { view, hops, older, leftovers })
    }

    fn readers<'a>(&'a mut self, view: &'a Published<View<W::Fib, A>>) -> Publisher<'a, W::Fib, A> {
        let State { hops, older, leftovers, .. } = self;
        Publisher { view, hops, older, leftovers }
    }

    /// Frees everything that no reader can hold any more.
    fn collect(&mut self) {
        while let Some((view, _)) = self.older.front_mut()
            && Arc::get_mut(view).is_some()
            && let Some((_, leftovers)) = self.older.pop_front()
        {
            leftovers.hops.into_iter().for_each(|hop| self.hops.free(hop));
            self.writer.reuse(&leftovers.parts);
        }
    }

    fn routes(&self, list: impl Iterator<Item = (Prefix<A>, HopId)>) -> Vec<Route<A>> {
        let route = |(prefix, id)| Some(Route { prefix, hop: self.hops.get(id)? });
        list.filter_map(route).collect()
    }
}

/// A transaction with more commands than this may rebuild the structure.
const BULK: usize = 1000;

impl Leftovers {
    fn is_empty(&self) -> bool {
        self.hops.is_empty() && self.parts.is_empty()
    }
}

/// Publishes views to readers.
struct Publisher<'a, F, A: Address> {
    view: &'a Published<View<F, A>>,
    hops: &'a Hops<A>,
    older: &'a mut Older<F, A>,
    leftovers: &'a mut Leftovers,
}

impl<F: Send + Sync + 'static, A: Address> Readers<F> for Publisher<'_, F, A> {
    fn publish(&mut self, fib: F) {
        let view = View { hops: self.hops.shared().clone(), fib };
        let old = self.view.swap(Arc::new(view));
        self.older.push_back((old, std::mem::take(self.leftovers)));
    }

    fn retire(&mut self, part: Part) {
        self.leftovers.parts.push(part);
    }

    fn forget(&mut self) {
        self.leftovers.parts.clear();
        self.older.iter_mut().for_each(|(_, leftovers)| leftovers.parts.clear());
    }
}

impl<A: Address> Command<A> {
    fn prefix(&self) -> Prefix<A> {
        match self {
            Command::Add(route) | Command::Set(route) => route.prefix,
            Command::Remove(prefix, _) => *prefix,
        }
    }

    /// The hop of the network's route after the command.
    fn hop(&self) -> Option<Hop<A>> {
        match self {
            Command::Add(route) | Command::Set(route) => Some(route.hop),
            Command::Remove(..) => None,
        }
    }
}

/// The changes that a transaction has made to the routes.
#[derive(Debug)]
struct Transaction<A: Address> {
    /// One for each command.
    steps: Vec<Change<A>>,
    /// Hops that routes have acquired, once for each route.
    acquired: Vec<HopId>,
    /// Hops that routes have lost, once for each route.
    released: Vec<HopId>,
}

impl<A: Address> Transaction<A> {
    fn new() -> Self {
        Self { steps: Vec::new(), acquired: Vec::new(), released: Vec::new() }
    }

    fn change_routes<W: FibWriter<A>>(
        &mut self,
        state: &mut State<W, A>,
        commands: &[Command<A>],
    ) -> Result<(), Error<A>> {
        self.steps.reserve(commands.len());
        for command in commands {
            let prefix = command.prefix();
            let (old, new) = match command.hop() {
                Some(hop) => {
                    let new = state.hops.acquire(hop)?;
                    self.acquired.push(new);
                    (state.rib.set(prefix, new), new)
                }
                None => (state.rib.remove(prefix), HopId::NONE),
            };
            let old = old.map_or(HopId::NONE, |entry| entry.hop);
            if !old.is_none() {
                self.released.push(old);
            }
            self.steps.push(Change { prefix, old, new });
        }
        Ok(())
    }

    /// The resulting change of each network, in the order in which readers may see it.
    fn changes(&self) -> Vec<Change<A>> {
        let mut changes = self.steps.clone();
        // The sort is stable: the steps of a network stay in order and are merged into one.
        changes.sort_by_key(|change| change.prefix);
        changes.dedup_by(|next, first| {
            let same = next.prefix == first.prefix;
            if same {
                first.new = next.new;
            }
            same
        });
        changes.retain(|change| change.old != change.new);
        changes.sort_by_key(Change::rank);
        changes
    }

    /// Restores the routes. Readers have not seen the changes.
    fn undo<W: FibWriter<A>>(self, state: &mut State<W, A>) {
        for Change { prefix, old, .. } in self.steps.into_iter().rev() {
            match old.is_none() {
                true => drop(state.rib.remove(prefix)),
                false => drop(state.rib.set(prefix, old)),
            }
        }
        for hop in self.acquired {
            if state.hops.release(hop) {
                state.hops.free(hop);
            }
        }
    }
}
