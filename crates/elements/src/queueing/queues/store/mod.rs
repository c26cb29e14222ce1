//! Code shared by the queues that several threads use: packets behind a lock, counts, and notifiers for both sides.

mod chunks;

use millrace_core::args::Args;
use millrace_core::{
    Batch, BiasedMutex, Context, Count, Element, Failed, Footprint, HandlerError, Handlers,
    Notifier, Packet, Reason, Setup,
};

use chunks::Chunks;

/// A sequence of packets with its notifiers. Any number of threads can insert and remove packets; if one thread does
/// both, locking costs it nothing.
pub struct Store {
    row: BiasedMutex<Row>,
    shown: Shown,
    /// Whether there are packets.
    full: Notifier,
    /// Whether there is room.
    room: Notifier,
    keeps: End,
    patience: u32,
}

/// An end of the sequence of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where packets are removed.
    Front,
    /// Where packets are added.
    Back,
}

struct Row {
    packets: Chunks,
    capacity: usize,
    /// The arguments, if a handler has changed the capacity.
    written: Option<String>,
    /// Packets that a handler discarded, not yet counted as drops by a thread of the graph.
    thrown_out: usize,
    /// Empty pulls since there were packets.
    in_vain: u32,
}

/// Figures of the row that can be read without its lock. Only the holder of the lock changes them.
#[derive(Default)]
struct Shown {
    len: Count,
    /// Packets that are stored, or were discarded and are not yet counted as dropped.
    held: Count,
    capacity: Count,
    highwater: Count,
    drops: Count,
}

impl Shown {
    fn show(&self, row: &Row) {
        let len = row.packets.len() as u64;
        self.len.set(len);
        self.held.set(len + row.thrown_out as u64);
    }

    fn show_growth(&self, row: &Row) {
        self.show(row);
        self.highwater.set(self.highwater.get().max(row.packets.len() as u64));
    }
}

/// How many empty pulls are allowed before the puller is put to sleep, as in Click; timed elements keep pulling for
/// that long.
pub const PATIENCE: u32 = 9;

/// The output for packets that do not fit; if it is not connected, they are dropped.
const OVERFLOW: usize = 1;

impl Store {
    /// Reads CAPACITY, which completes the arguments. When the capacity shrinks, the packets at the end `keeps` stay.
    /// The puller is put to sleep after `patience` empty pulls.
    pub(super) fn configure(
        setup: &mut Setup<'_>,
        keeps: End,
        patience: u32,
    ) -> Result<Self, Failed> {
        let capacity = Self::capacity_of(&mut setup.args);
        setup.args.complete()?;
        let store = Self {
            row: BiasedMutex::new(Row {
                packets: Chunks::default(),
                capacity: capacity as usize,
                written: None,
                thrown_out: 0,
                in_vain: 0,
            }),
            shown: Shown::default(),
            full: Notifier::default(),
            room: Notifier::default(),
            keeps,
            patience,
        };
        store.shown.capacity.set(capacity.into());
        // There have been no empty pulls yet.
        store.full.wake();
        if capacity > 0 {
            store.room.wake();
        }
        Ok(store)
    }

    /// What a full queue takes.
    pub(super) fn footprint(&self) -> Footprint {
        let capacity = self.row.visit().capacity;
        // A batch may be half empty.
        let bytes = capacity.saturating_mul(2 * size_of::<Packet>());
        Footprint::tables(bytes).and(Footprint::packets(capacity))
    }

    /// Adds packets at the end, as many as fit; the others are dropped.
    pub(super) fn append(&self, cx: &mut Context, batch: &mut Batch) {
        self.put(cx, batch, |row, batch| {
            let free = row.capacity.saturating_sub(row.packets.len());
            row.packets.append(batch, free);
        });
    }

    /// Adds packets at the end; if there is no room, packets at the front are dropped, the oldest first.
    pub(super) fn append_all(&self, cx: &mut Context, batch: &mut Batch) {
        self.put(cx, batch, |row, batch| {
            let all = row.packets.len() + batch.len();
            let excess = all.saturating_sub(row.capacity);
            let mut gone = Batch::new();
            // No more packets leave than arrive.
            row.packets.take(excess, &mut gone);
            // If the batch exceeds the capacity, the end of the batch stays.
            let newest = (excess - gone.len()).min(batch.len());
            batch.drain_front(newest).move_to(&mut gone);
            row.packets.append(batch, batch.len());
            std::mem::swap(batch, &mut gone);
        });
    }

    /// Adds packets at the front, the last one first; if there is no room, packets at the end are dropped.
    pub(super) fn prepend(&self, cx: &mut Context, batch: &mut Batch) {
        self.put(cx, batch, |row, batch| {
            let mut gone = Batch::new();
            for packet in batch.drain() {
                row.packets.push_front(packet);
                if row.packets.len() > row.capacity
                    && let Some(last) = row.packets.pop_back()
                {
                    // No more packets leave than arrive.
                    let _ = gone.push(last);
                }
            }
            std::mem::swap(batch, &mut gone);
        });
    }

    /// Calls `store` to put packets of a batch into the row; what is left in the batch is dropped.
    fn put(&self, cx: &mut Context, batch: &mut Batch, store: impl FnOnce(&mut Row, &mut Batch)) {
        let (first_overflow, thrown_out) = self.row.with(cx, |_, row| {
            store(row, batch);
            let refused = batch.len() as u64;
            let first_overflow = refused > 0 && self.shown.drops.get() == 0 && row.capacity > 0;
            self.shown.drops.add(refused);
            let thrown_out = std::mem::take(&mut row.thrown_out);
            self.shown.show_growth(row);
            self.tell(row);
            (first_overflow, thrown_out)
        });
        cx.dropped(thrown_out, Reason::Discarded);
        match cx.is_connected(OVERFLOW) {
            true => cx.push_batch(OVERFLOW, batch),
            false => cx.drop_batch(batch, Reason::QueueFull),
        }
        if first_overflow {
            let router = cx.router();
            let class = router.class_of(cx.element());
            router.chatter(&format!("{} :: {class}: overflow", router.name_of(cx.element())));
        }
    }

    /// Takes packets from the front, at most `max` and no more than the batch has room for.
    pub(super) fn take(&self, cx: &mut Context, max: usize, batch: &mut Batch) {
        let thrown_out = self.row.with(cx, |_, row| {
            let before = row.packets.len();
            row.packets.take(max, batch);
            let after = row.packets.len();
            if after < before {
                row.in_vain = 0;
            }
            if self.patience == 0 && after == 0 {
                self.full.sleep();
            } else if after == 0 && before - after < max {
                if row.in_vain >= self.patience {
                    self.full.sleep();
                } else {
                    row.in_vain += 1;
                }
            }
            if after < row.capacity {
                self.room.wake();
            }
            let thrown_out = std::mem::take(&mut row.thrown_out);
            self.shown.show(row);
            thrown_out
        });
        cx.dropped(thrown_out, Reason::Discarded);
    }

    /// Moves the packets of another store here, as many as fit, and its counts.
    pub(super) fn take_state(&self, old: &Self) {
        let (mut row, mut before) = (self.row.visit(), old.row.visit());
        let mut batch = Batch::new();
        if self.keeps == End::Back {
            let excess = before.packets.len().saturating_sub(row.capacity);
            before.packets.free_front(excess);
            row.thrown_out += excess;
            self.shown.drops.add(excess as u64);
        }
        while row.packets.len() < row.capacity && !before.packets.is_empty() {
            let free = row.capacity - row.packets.len();
            before.packets.take(free, &mut batch);
            row.packets.append(&mut batch, free);
        }
        self.shown.drops.add(old.shown.drops.get() + before.packets.len() as u64);
        row.thrown_out += before.packets.len();
        before.packets.truncate(0);
        old.shown.show(&before);
        self.shown.highwater.set(0);
        self.shown.show_growth(&row);
        self.tell(&row);
    }

    /// The notifier that is active while there are packets.
    pub(super) fn packets(&self) -> &Notifier {
        &self.full
    }

    /// The notifier that is active while there is room.
    pub(super) fn room(&self) -> &Notifier {
        &self.room
    }

    /// Packets that are stored.
    pub(crate) fn len(&self) -> usize {
        self.shown.len.get() as usize
    }

    /// The maximum number of packets.
    pub(crate) fn capacity(&self) -> usize {
        self.shown.capacity.get() as usize
    }

    /// Packets that are stored, or were discarded and are not yet counted as dropped.
    pub(super) fn held(&self) -> usize {
        self.shown.held.get() as usize
    }

    /// Discards packets until at most `keep` are left.
    fn throw_out(&self, row: &mut Row, keep: usize) {
        let excess = row.packets.len().saturating_sub(keep);
        row.thrown_out += excess;
        match self.keeps {
            End::Front => row.packets.truncate(keep),
            End::Back => row.packets.free_front(excess),
        }
        self.shown.show(row);
        self.tell(row);
    }

    fn capacity_of(args: &mut Args<'_>) -> u32 {
        args.positional("CAPACITY", 1000)
    }

    /// A handler changes the capacity. `written` are the arguments that say so.
    fn set_capacity(&self, capacity: u32, written: String) {
        let mut row = self.row.visit();
        row.capacity = capacity as usize;
        self.shown.capacity.set(capacity.into());
        row.written = Some(written);
        self.throw_out(&mut row, capacity as usize);
    }

    /// Updates both notifiers after packets were added, or removed by a handler.
    fn tell(&self, row: &Row) {
        if !row.packets.is_empty() {
            self.full.wake();
        }
        match row.packets.len() < row.capacity {
            true => self.room.wake(),
            false => self.room.sleep(),
        }
    }

    /// The handlers `length highwater_length capacity config drops reset_counts reset`.
    pub(super) fn handlers<E: Element>(handlers: &mut Handlers<E>, store: fn(&E) -> &Self) {
        handlers.read("length", move |e, _| store(e).shown.len.get());
        handlers.read("highwater_length", move |e, _| store(e).shown.highwater.get());
        handlers.read("capacity", move |e, _| store(e).shown.capacity.get());
        handlers.write("capacity", move |e, call| {
            let capacity: u32 = call.parse()?;
            store(e).set_capacity(capacity, format!("CAPACITY {capacity}"));
            Ok(())
        });
        handlers.read("config", move |e, call| {
            let written = store(e).row.visit().written.clone();
            let of_file = || call.router().elements().nth(call.element());
            written.or_else(|| Some(of_file()?.config.to_owned())).unwrap_or_default()
        });
        handlers.write("config", move |e, call| {
            let text = call.text();
            let mut args = Args::of_text(&text, call.scope());
            let capacity = Self::capacity_of(&mut args);
            if args.complete().is_err() {
                return Err(HandlerError::Refused(args.messages()));
            }
            store(e).set_capacity(capacity, text.clone().into_owned());
            Ok(())
        });
        handlers.read("drops", move |e, _| store(e).shown.drops.get());
        handlers.write("reset_counts", move |e, _| {
            let store = store(e);
            // Counts are changed only under the lock of the row.
            let _row = store.row.visit();
            store.shown.drops.set(0);
            store.shown.highwater.set(0);
            Ok(())
        });
        handlers.write("reset", move |e, _| {
            let store = store(e);
            store.throw_out(&mut store.row.visit(), 0);
            Ok(())
        });
    }
}
