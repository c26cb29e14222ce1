//! Common code of the packet generators: packet contents, limit, and the action after the last packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

use arc_swap::ArcSwap;
use millrace_core::args::Kind;
use millrace_core::element::HandlerCall;
use millrace_core::{
    Args, Batch, Context, Failed, HandlerError, Handlers, Init, Packet, Reason, Refused, Timestamp,
};

/// The default data of Click's sources; users' expected outputs contain it.
const DEFAULT_DATA: &[u8] =
    b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.";

/// Makes packets with given data, up to a limit.
pub(super) struct Supply {
    data: ArcSwap<Vec<u8>>,
    /// Packet length; negative for the length of the data.
    length: AtomicI64,
    /// A packet's contents: the data, truncated or repeated to the length.
    contents: ArcSwap<Vec<u8>>,
    /// Whether packets contain random bytes instead.
    random: bool,
    headroom: AtomicUsize,
    timestamp: bool,
    /// Maximum number of packets; negative for no limit.
    limit: AtomicI64,
    count: AtomicU64,
    active: AtomicBool,
    ended: AtomicBool,
    end: Option<HandlerCall>,
}

/// The arguments that each source reads itself, as positional or keyword; `None` for the default.
pub(super) struct Given {
    pub(super) data: Option<Vec<u8>>,
    pub(super) limit: Option<i64>,
    pub(super) active: Option<bool>,
}

impl Supply {
    /// Reads LENGTH (also as DATASIZE), HEADROOM, TIMESTAMP, STOP and END_CALL, and completes the arguments.
    /// Call it after the positional arguments have been read.
    pub(super) fn configure(args: &mut Args<'_>, given: Given) -> Result<Self, Failed> {
        let length: i64 = args.keyword("LENGTH", -1);
        let length: i64 = args.keyword("DATASIZE", length);
        if length > 65_535 {
            args.error("LENGTH", "LENGTH must be at most 65535");
        }
        Self::read(args, given, length, false)
    }

    /// Like [`configure`](Self::configure), but for packets of `length` random bytes; does not read LENGTH.
    pub(super) fn random(args: &mut Args<'_>, given: Given, length: i64) -> Result<Self, Failed> {
        Self::read(args, given, length, true)
    }

    fn read(args: &mut Args<'_>, given: Given, length: i64, random: bool) -> Result<Self, Failed> {
        let data = given.data.unwrap_or_else(|| DEFAULT_DATA.to_vec());
        let limit = given.limit.unwrap_or(-1);
        let active = given.active.unwrap_or(true);
        let headroom = args.in_range("HEADROOM", Kind::Keyword, 0..=60_000u32).unwrap_or(128);
        let timestamp = args.keyword("TIMESTAMP", true);
        let stop = args.keyword("STOP", false);
        let end_call: Option<HandlerCall> = args.optional_keyword("END_CALL");
        if stop && end_call.is_some() {
            args.error("END_CALL", "END_CALL and STOP are mutually exclusive");
        }
        args.complete()?;
        let supply = Self {
            data: ArcSwap::from_pointee(data),
            length: length.into(),
            contents: ArcSwap::default(),
            random,
            headroom: AtomicUsize::new(headroom as usize),
            timestamp,
            limit: limit.into(),
            count: 0.into(),
            active: active.into(),
            ended: false.into(),
            end: end_call.or_else(|| stop.then(|| HandlerCall::global("stop"))),
        };
        supply.make_contents();
        Ok(supply)
    }

    /// Checks that the END_CALL handler exists.
    pub(super) fn initialize(&self, init: &Init<'_>) -> Result<(), Refused> {
        match &self.end {
            Some(end) => end
                .check_write(init.router(), init.id())
                .map_err(|error| Refused(format!("END_CALL: {error}"))),
            None => Ok(()),
        }
    }

    /// Makes packets as another one would, from the first on.
    pub(super) fn adopt(&self, new: &Self) -> Result<(), HandlerError> {
        if (self.timestamp, &self.end) != (new.timestamp, &new.end) {
            return Err("TIMESTAMP, STOP and END_CALL cannot change while packets run".into());
        }
        self.data.store(new.data.load_full());
        self.length.store(new.length.load(Relaxed), Relaxed);
        self.contents.store(new.contents.load_full());
        self.headroom.store(new.headroom.load(Relaxed), Relaxed);
        self.limit.store(new.limit.load(Relaxed), Relaxed);
        self.restart();
        self.set_active(new.is_active());
        Ok(())
    }

    pub(super) fn set_active(&self, active: bool) {
        self.active.store(active, Relaxed);
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// The length of a packet, in bytes.
    pub(super) fn packet_length(&self) -> usize {
        self.contents.load().len()
    }

    /// The configured length, in bytes; `None` if it is that of the data.
    pub(super) fn given_length(&self) -> Option<u32> {
        u32::try_from(self.length.load(Relaxed)).ok()
    }

    /// True when the limit has been reached.
    pub(super) fn is_exhausted(&self) -> bool {
        let limit = self.limit.load(Relaxed);
        limit >= 0 && self.count.load(Relaxed) >= limit.unsigned_abs()
    }

    /// Adds up to `max` packets to a batch. Returns how many were made; fewer when the limit is
    /// reached or the arena is exhausted.
    pub(super) fn fill(&self, cx: &mut Context, max: usize, batch: &mut Batch) -> usize {
        let limit = self.limit.load(Relaxed);
        let count = self.count.load(Relaxed);
        let left = match limit {
            0.. => usize::try_from(limit.unsigned_abs().saturating_sub(count)).unwrap_or(max),
            _ => max,
        };
        let wanted = max.min(left).min(batch.room());
        let contents = self.contents.load();
        let headroom = self.headroom.load(Relaxed);
        let now = if self.timestamp { cx.now() } else { Timestamp::ZERO };
        let mut made = 0;
        while made < wanted {
            let Some(mut packet) = Packet::with_room(headroom, 0, contents.len()) else {
                break;
            };
            match self.random {
                true => cx.random().fill(packet.append(contents.len())),
                false => packet.push_back(&contents),
            }
            packet.set_timestamp(now);
            if batch.push(packet).is_err() {
                break;
            }
            made += 1;
        }
        // Packets that could not be allocated count as made and then dropped.
        let lost = wanted - made;
        if lost > 0 {
            cx.dropped(lost, Reason::NoBuffer);
        }
        self.count.fetch_add(wanted as u64, Relaxed);
        cx.created(wanted);
        made
    }

    /// Runs the action that follows the last packet, once.
    pub(super) fn end(&self, cx: &mut Context) {
        if !self.ended.swap(true, Relaxed)
            && let Some(end) = &self.end
        {
            let router = cx.router().clone();
            if let Err(error) = end.write(&router, cx.element()) {
                router.chatter(&format!("{}: {error}", router.name_of(cx.element())));
            }
        }
    }

    /// Restarts the count from 0.
    fn restart(&self) {
        self.count.store(0, Relaxed);
        self.ended.store(false, Relaxed);
    }

    fn make_contents(&self) {
        let data = self.data.load();
        let length = usize::try_from(self.length.load(Relaxed)).unwrap_or(data.len());
        let contents = if data.is_empty() {
            vec![0; length]
        } else {
            data.iter().copied().cycle().take(length).collect()
        };
        self.contents.store(Arc::new(contents));
    }

    /// The handler `data`.
    pub(super) fn data_handlers<E: 'static>(
        handlers: &mut Handlers<E>,
        supply: impl Fn(&E) -> &Self + Copy + Send + Sync + 'static,
    ) {
        handlers.read("data", move |e, _| supply(e).data.load().as_ref().clone());
        handlers.write("data", move |e, call| {
            let data: Vec<u8> = call.parse()?;
            supply(e).data.store(Arc::new(data));
            supply(e).make_contents();
            Ok(())
        });
    }

    /// The handler `headroom`.
    pub(super) fn headroom_handlers<E: 'static>(
        handlers: &mut Handlers<E>,
        supply: impl Fn(&E) -> &Self + Copy + Send + Sync + 'static,
    ) {
        handlers.read("headroom", move |e, _| supply(e).headroom.load(Relaxed));
        handlers.write("headroom", move |e, call| {
            match call.parse() {
                Ok(headroom @ 0..=60_000) => supply(e).headroom.store(headroom, Relaxed),
                _ => return Err("bad headroom".into()),
            }
            Ok(())
        });
    }

    /// The handlers `length limit active count reset`. Writes that may let the source send again call `wake`.
    pub(super) fn handlers<E: 'static>(
        handlers: &mut Handlers<E>,
        supply: impl Fn(&E) -> &Self + Copy + Send + Sync + 'static,
        wake: impl Fn(&E) + Copy + Send + Sync + 'static,
    ) {
        handlers.read("length", move |e, _| supply(e).length.load(Relaxed));
        handlers.write("length", move |e, call| {
            let length: i64 = call.parse().map_err(|_| "length must be integer")?;
            if length > 65_535 {
                return Err("length must be at most 65535".into());
            }
            supply(e).length.store(length, Relaxed);
            supply(e).make_contents();
            Ok(())
        });
        handlers.read("limit", move |e, _| supply(e).limit.load(Relaxed));
        handlers.write("limit", move |e, call| {
            let limit = call.parse().map_err(|_| "limit parameter must be integer")?;
            supply(e).limit.store(limit, Relaxed);
            supply(e).ended.store(false, Relaxed);
            wake(e);
            Ok(())
        });
        handlers.read("active", move |e, _| supply(e).active.load(Relaxed));
        handlers.write("active", move |e, call| {
            let active = call.parse().map_err(|_| "active parameter must be boolean")?;
            supply(e).set_active(active);
            wake(e);
            Ok(())
        });
        handlers.read("count", move |e, _| supply(e).count.load(Relaxed));
        handlers.write("reset", move |e, _| {
            supply(e).restart();
            wake(e);
            Ok(())
        });
    }
}
