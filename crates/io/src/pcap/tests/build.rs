//! Captures built by hand, in either byte order.

use super::super::fields::ByteOrder;

/// Bytes of a capture under construction.
pub(super) struct Bytes {
    pub(super) order: ByteOrder,
    pub(super) bytes: Vec<u8>,
}

impl Bytes {
    pub(super) fn new(order: ByteOrder) -> Bytes {
        Bytes { order, bytes: Vec::new() }
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes.extend(match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend(match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// The header of a classic file.
    pub(super) fn classic(&mut self, magic: u32, minor: u16, link_type: u32) -> &mut Self {
        self.u32(magic).u16(2).u16(minor).u32(0).u32(0).u32(65535).u32(link_type)
    }

    /// A record of a classic file.
    pub(super) fn record(
        &mut self,
        time: (u32, u32),
        lengths: (u32, u32),
        data: &[u8],
    ) -> &mut Self {
        self.u32(time.0).u32(time.1).u32(lengths.0).u32(lengths.1).raw(data)
    }

    /// A block of a pcapng file around a body that `fill` writes.
    pub(super) fn block(&mut self, kind: u32, fill: impl FnOnce(&mut Bytes)) -> &mut Self {
        let mut body = Bytes::new(self.order);
        fill(&mut body);
        body.bytes.resize(body.bytes.len().next_multiple_of(4), 0);
        let length = body.bytes.len() as u32 + 12;
        self.u32(kind).u32(length).raw(&body.bytes).u32(length)
    }

    pub(super) fn section(&mut self) -> &mut Self {
        self.block(0x0a0d_0d0a, |body| {
            body.u32(0x1a2b_3c4d).u16(1).u16(0).u32(u32::MAX).u32(u32::MAX);
        })
    }

    pub(super) fn interface(&mut self, link_type: u16, snap_len: u32, options: &[u8]) -> &mut Self {
        self.block(1, |body| {
            body.u16(link_type).u16(0).u32(snap_len).raw(options);
        })
    }

    pub(super) fn enhanced(
        &mut self,
        interface: u32,
        units: u64,
        original: u32,
        data: &[u8],
    ) -> &mut Self {
        self.block(6, |body| {
            body.u32(interface).u32((units >> 32) as u32).u32(units as u32);
            body.u32(data.len() as u32).u32(original).raw(data);
        })
    }

    pub(super) fn simple(&mut self, original: u32, data: &[u8]) -> &mut Self {
        self.block(3, |body| {
            body.u32(original).raw(data);
        })
    }

    pub(super) fn obsolete(
        &mut self,
        interface: u16,
        units: u64,
        original: u32,
        data: &[u8],
    ) -> &mut Self {
        self.block(2, |body| {
            body.u16(interface).u16(7).u32((units >> 32) as u32).u32(units as u32);
            body.u32(data.len() as u32).u32(original).raw(data);
        })
    }
}

/// A small file of each kind, with its contents.
pub(super) fn small_files() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut classic = Bytes::new(order);
        classic.classic(0xa1b2_c3d4, 4, 1);
        classic.record((1, 2), (3, 60), b"abc").record((2, 0), (0, 0), b"").record(
            (3, 9),
            (2, 2),
            b"de",
        );
        files.push(classic.bytes);

        let mut pcapng = Bytes::new(order);
        pcapng.section().interface(1, 0, &[]);
        pcapng.enhanced(0, 1_000_002, 60, b"abc").block(0xbad, |body| {
            body.raw(b"a block that nobody knows");
        });
        pcapng.simple(5, b"hello").interface(101, 0, &[]).obsolete(1, 3, 2, b"de");
        files.push(pcapng.bytes);
    }
    files
}
