//! Elements for the tests of programs.

use std::cell::RefCell;

use crate::element::{Class, Element, Failed, Init, Refused, Setup};
use crate::engine::Context;
use crate::memory::{Batch, Packet, View};
use crate::moment::Moment;
use crate::schedule::Task;
use crate::{ClassInfo, PerPacket, Reason, Way};

thread_local! {
    /// What arrived at the sinks: which sink, the trail, the number.
    pub(super) static CAME: RefCell<Vec<(String, Vec<u8>, u32)>> = const { RefCell::new(Vec::new()) };
    /// Batches at whose end elements were called, with the number of packets that these had had until then.
    pub(super) static ENDS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// The packet's number, in its last four bytes.
fn number(data: &[u8]) -> u32 {
    data.last_chunk().copied().map_or(0, u32::from_be_bytes)
}

/// What a thread keeps for a [`Feed`].
#[derive(Default)]
struct Rounds {
    done: u32,
    /// The number of the next packet.
    next: u32,
    /// They hold packets that are shared.
    shared: Vec<Packet>,
}

/// Sends this many packets in each of three rounds.
struct Feed {
    task: Task,
    count: u32,
}

impl Element for Feed {
    const CLASS: Class = Class::new("Feed", "0/1", "h/h");
    type Local = Rounds;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let count = setup.args.mandatory("COUNT");
        setup.args.complete()?;
        Ok(Self { task: setup.task(), count })
    }

    fn initialize(&self, _: &mut Init<'_>) -> Result<(), Refused> {
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, Rounds { done, next, shared }: &mut Rounds) -> bool {
        shared.clear();
        if *done == 3 {
            return false;
        }
        *done += 1;
        for _ in 0..self.count {
            // Some have no headroom, some are shared, some large.
            let headroom = if *next % 3 == 0 { 0 } else { 100 };
            let tailroom = if *next % 97 == 5 { 70_000 } else { 0 };
            let mut packet = Packet::with_room(headroom, 4, tailroom).unwrap();
            packet.data_mut().copy_from_slice(&next.to_be_bytes());
            if *next % 5 == 1 {
                shared.extend(packet.share());
            }
            *next += 1;
            cx.created(1);
            cx.push(0, packet);
        }
        self.task.schedule();
        true
    }
}

/// Records the packets that arrive.
struct Sink(String);

impl Element for Sink {
    const CLASS: Class = Class::new("Sink", "1/0", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self(setup.name().to_owned()))
    }

    fn push(&self, cx: &mut Context, (): &mut (), _: usize, batch: &mut Batch) {
        CAME.with_borrow_mut(|came| {
            for packet in batch.iter() {
                let (trail, _) = packet.data().split_last_chunk::<4>().unwrap();
                came.push((self.0.clone(), trail.to_vec(), number(packet.data())));
            }
        });
        cx.consumed(batch.len());
        batch.clear();
    }
}

macro_rules! treats {
    ($name:ident, $code:literal, |$own:ident, $packet:ident, $at:ident| $treat:expr, { $($rest:item)* }) => {
        struct $name(u32);

        impl Element for $name {
            const CLASS: Class = Class::new(stringify!($name), $code, "h/h");
            type Local = u32;

            fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
                let n = setup.args.mandatory("N");
                setup.args.complete()?;
                Ok(Self(n))
            }
        }

        impl PerPacket for $name {
            fn treat(&self, _: &mut u32, $packet: &mut View, $at: &mut Moment) -> Way {
                let $own = self;
                $treat
            }
            $($rest)*
        }
    };
}

// Adds to the trail.
treats!(
    Mark,
    "1/-",
    |own, packet, _at| {
        packet.push_front(&[own.0 as u8]);
        Way::ON
    },
    {
        const PREPENDS: usize = 1;
    }
);

// Adds more to the trail than it says.
treats!(
    Marks,
    "1/1",
    |own, packet, _at| {
        packet.push_front(&[own.0 as u8; 3]);
        packet.push_front(&[own.0 as u8; 2]);
        Way::ON
    },
    {
        const PREPENDS: usize = 2;
    }
);

// Distributes packets over N ways, some of which may not be connected.
treats!(
    Split,
    "1/-",
    |own, packet, _at| {
        match number(packet.data()) % own.0 {
            0 => Way::output_or_drop(0, Reason::Filtered),
            n => Way::output(n as u16),
        }
    },
    {
        const ROUTES: bool = true;
    }
);

// Goes round until the trail is long enough; every Nth packet is treated aside before.
treats!(
    Until,
    "1/2",
    |own, packet, _at| {
        let long = packet.len() >= own.0 as usize + number(packet.data()) as usize % 3;
        Way::output(u16::from(long))
    },
    {
        const ROUTES: bool = true;
    }
);

// Sends every Nth packet aside, which comes back to where it would have gone.
treats!(
    Late,
    "1/1",
    |own, packet, _at| {
        match number(packet.data()) % own.0 {
            0 => Way::aside(7),
            _ => Way::ON,
        }
    },
    {
        fn aside(&self, cx: &mut Context, _: &mut u32, packet: Packet, way: Way) -> Option<Packet> {
            assert_eq!(way.note(), Some(7));
            cx.push(0, packet);
            None
        }
    }
);

// Sends a second packet of every Nth ahead, by output 1; goes on with the first.
treats!(
    Twice,
    "1/2",
    |own, packet, _at| {
        match number(packet.data()) % own.0 {
            0 => Way::aside(0),
            _ => Way::ON,
        }
    },
    {
        fn aside(&self, cx: &mut Context, _: &mut u32, packet: Packet, _: Way) -> Option<Packet> {
            let second = packet.copy()?;
            cx.created(1);
            cx.push(1, second);
            Some(packet)
        }
    }
);

// Looks more closely at every Nth packet, and drops every fourth of these.
treats!(
    Look,
    "1/1-2",
    |own, packet, _at| {
        match number(packet.data()) % own.0 {
            0 => Way::MORE,
            _ => Way::ON,
        }
    },
    {
        fn treat_more(&self, _: &mut u32, packet: &mut View, _: &mut Moment) -> Way {
            packet.push_front(b"m");
            match number(packet.data()) / self.0 % 4 {
                0 => Way::drop(Reason::Truncated),
                1 => Way::output_or_drop(1, Reason::Filtered),
                _ => Way::ON,
            }
        }
    }
);

// Counts packets until the end of a batch.
struct Ender;

impl Element for Ender {
    const CLASS: Class = Class::new("Ender", "1/1", "h/h");
    type Local = u32;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for Ender {
    const ENDS: bool = true;

    fn treat(&self, count: &mut u32, _: &mut View, _: &mut Moment) -> Way {
        *count += 1;
        Way::ON
    }

    fn end(&self, _: &mut Context, count: &mut u32) {
        ENDS.with_borrow_mut(|ends| ends.push(std::mem::take(count)));
    }
}

// Sends packets by output 1; every Nth is treated aside, and goes by output 0 while a copy goes by output 1.
treats!(
    Flood,
    "1/2",
    |own, packet, _at| {
        match number(packet.data()) % own.0 + 2 == own.0 {
            true => Way::aside(0),
            false => Way::output(1),
        }
    },
    {
        const ROUTES: bool = true;

        fn aside(&self, cx: &mut Context, _: &mut u32, packet: Packet, _: Way) -> Option<Packet> {
            let second = packet.copy()?;
            cx.created(1);
            cx.push(1, second);
            cx.push(0, packet);
            None
        }
    }
);

// Chooses among two ways; every Nth packet is treated aside first, and goes by the first one.
treats!(
    Detour,
    "1/2",
    |own, packet, _at| {
        match number(packet.data()) % own.0 {
            0 => Way::aside(u8::MAX),
            n => Way::output(n as u16 % 2),
        }
    },
    {
        const ROUTES: bool = true;

        fn aside(&self, _: &mut Context, _: &mut u32, packet: Packet, way: Way) -> Option<Packet> {
            assert_eq!(way.note(), Some(u8::MAX));
            Some(packet)
        }
    }
);

/// Pulls from itself, around a loop, when it processes a packet aside and after each batch. `0` counts how
/// often it found itself running.
struct Ouroboros;

impl Element for Ouroboros {
    const CLASS: Class = Class::new("Ouroboros", "2/2", "hl/hl");
    type Local = bool;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn pull(&self, _: &mut Context, runs: &mut bool, _: usize, _: usize, _: &mut Batch) {
        assert!(!*runs, "who keeps this is at work on it");
    }
}

impl Ouroboros {
    fn bite(cx: &mut Context, runs: &mut bool) {
        *runs = true;
        let mut batch = cx.take_batch();
        cx.pull(1, 1, &mut batch);
        cx.give_batch(batch);
        *runs = false;
    }
}

impl PerPacket for Ouroboros {
    const ENDS: bool = true;

    fn treat(&self, _: &mut bool, packet: &mut View, _: &mut Moment) -> Way {
        if number(packet.data()).is_multiple_of(7) { Way::aside(0) } else { Way::ON }
    }

    fn aside(&self, cx: &mut Context, runs: &mut bool, packet: Packet, _: Way) -> Option<Packet> {
        Self::bite(cx, runs);
        Some(packet)
    }

    fn end(&self, cx: &mut Context, runs: &mut bool) {
        Self::bite(cx, runs);
    }
}

/// Sends a packet with the number of the last one after each batch.
struct Trailer;

impl Element for Trailer {
    const CLASS: Class = Class::new("Trailer", "1/1", "h/h");
    type Local = Vec<u8>;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for Trailer {
    const ENDS: bool = true;

    fn treat(&self, last: &mut Vec<u8>, packet: &mut View, _: &mut Moment) -> Way {
        packet.data().clone_into(last);
        Way::ON
    }

    fn end(&self, cx: &mut Context, last: &mut Vec<u8>) {
        if !last.is_empty() {
            cx.created(1);
            cx.push(0, Packet::from_bytes(last).unwrap());
        }
        last.clear();
    }
}

/// Sends one packet in each of this many rounds.
struct Drip {
    task: Task,
    rounds: u32,
}

impl Element for Drip {
    const CLASS: Class = Class::new("Drip", "0/1", "h/h");
    type Local = u32;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let rounds = setup.args.mandatory("ROUNDS");
        setup.args.complete()?;
        Ok(Self { task: setup.task(), rounds })
    }

    fn initialize(&self, _: &mut Init<'_>) -> Result<(), Refused> {
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, next: &mut u32) -> bool {
        if *next == self.rounds {
            return false;
        }
        let mut packet = Packet::with_room(100, 4, 0).unwrap();
        packet.data_mut().copy_from_slice(&next.to_be_bytes());
        *next += 1;
        cx.created(1);
        cx.push(0, packet);
        self.task.schedule();
        true
    }
}

// Takes so many microseconds for a packet.
treats!(
    Toil,
    "1/1",
    |own, _packet, _at| {
        let end = std::time::Instant::now() + std::time::Duration::from_micros(own.0.into());
        while std::time::Instant::now() < end {}
        Way::ON
    },
    {}
);

/// Records how many batches have ended at an Ender when a packet arrives; its class makes packets go their
/// whole way one by one.
struct Clerk;

impl Element for Clerk {
    const CLASS: Class = Class::new("Clerk", "1/1", "h/h").ordered();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for Clerk {
    fn treat(&self, _: &mut (), _: &mut View, _: &mut Moment) -> Way {
        Way::aside(0)
    }

    fn aside(&self, _: &mut Context, _: &mut (), packet: Packet, _: Way) -> Option<Packet> {
        let ends = ENDS.with_borrow(Vec::len) as u32;
        CAME.with_borrow_mut(|came| came.push(("Clerk".to_owned(), Vec::new(), ends)));
        Some(packet)
    }
}

pub(super) const CLASSES: &[ClassInfo] = &[
    crate::class_info!(Feed, ""),
    crate::class_info!(Sink, ""),
    crate::class_info!(Mark, ""),
    crate::class_info!(Marks, ""),
    crate::class_info!(Split, ""),
    crate::class_info!(Until, ""),
    crate::class_info!(Late, ""),
    crate::class_info!(Twice, ""),
    crate::class_info!(Look, ""),
    crate::class_info!(Ender, ""),
    crate::class_info!(Flood, ""),
    crate::class_info!(Detour, ""),
    crate::class_info!(Ouroboros, ""),
    crate::class_info!(Drip, ""),
    crate::class_info!(Clerk, ""),
    crate::class_info!(Trailer, ""),
    crate::class_info!(Toil, ""),
];
