//! RadixIPsecLookup - routes IP packets by longest prefix match, into and out of IPsec tunnels
//!
//! # Synopsis
//! `RadixIPsecLookup(ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE], ...)`
//!
//! # Description
//! Looks up each packet's destination annotation, as RadixIPLookup does. The route with the longest matching prefix
//! wins. Sends the packet to the route's output, and sets the annotation to the route's gateway, if it has one. A route
//! with an SPI is a tunnel, a security association of ESP. Packets must start with their IP header.
//!
//! - Output 1 is for packets into tunnels: their annotations get the route's SPI and association, for IPsecESPEncap.
//! - Output 0 is for packets out of tunnels: an ESP packet's annotation gets the association with the packet's SPI, for
//!   IPsecESPUnencap. If no route has that SPI, a message is printed and the packet is dropped. Packets that are not
//!   ESP go to output 2 instead of 0.
//! - Other outputs work as in RadixIPLookup.
//!
//! # Arguments
//! - Routes, one per argument: a network, or a single address; an optional gateway, where `-` means none; an output;
//!   for a tunnel its index, two keys of 16 characters or 32 hexadecimal digits, the first sequence number, at least 1,
//!   and the size of the window of sequence numbers that are accepted, up to 128. If several routes have the same
//!   network, the last counts.
//!
//! Tunnels with the same index and keys are one association: they share one sequence, and it goes on when a route is
//! replaced or moved, and after a hot swap. The first sequence number counts if it is higher than the next one.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `table` (read): the routes, one per line, tunnels with index and keys.
//! - `lookup` (read): the output and the gateway, if there is one, for the given address; -1 if there is no route.
//! - `add` (write): adds a route, written as an argument. Fails if its network already has one.
//! - `set` (write): adds a route, or replaces its network's.
//! - `remove` (write): removes the route of a network, `ADDR/MASK`. Fails if there is none.
//! - `ctrl` (write): executes `add ...`, `set ...` and `remove ...` commands, one per line; if one fails, none takes
//!   effect.
//!
//! # Drops
//! - no route: no route's network contains the destination annotation, or a packet is not ESP and there is no output 2.
//! - no match: no route has the packet's SPI.
//! - truncated: a packet for output 0 has an incomplete IP header or SPI.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(10.0.0.1, 1234, 10.1.0.2, 53)
//!     -> r :: RadixIPsecLookup(192.0.2.1 0, 10.0.0.0/16 2,
//!                              10.1.0.0/16 192.0.2.2 1 234 ABCDEFFF001DEFD2 112233EE556677EE 300 64);
//! r[0] -> StripIPHeader -> IPsecAES(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap -> Discard;
//! r[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1) -> IPsecEncap(50) -> Discard;
//! r[2] -> Discard;
//! ```
//!
//! # See also
//! RadixIPLookup, IPsecESPEncap, IPsecESPUnencap, IPsecEncap

mod routes;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use arc_swap::ArcSwap;
use millrace_core::args::Ipv4Network;
use millrace_core::args::{ArgText, Scope};
use millrace_core::headers::{Header, Ipv4Header, protocol};
use millrace_core::{
    Arg, Batch, Class, Context, Element, Failed, HandlerError, Handlers, Init, Lock, Offers,
    Packet, Reason, Setup, register,
};

use crate::ip::lookup::{Hop, RouteLookup};
use routes::{Change, Route, Routes};

/// The element; its manual is at the top of the file.
pub struct RadixIpsecLookup {
    routes: ArcSwap<Routes>,
    /// Held while the routes change.
    changing: Lock<()>,
    outputs: usize,
    complaints: AtomicU32,
}

register!(RadixIpsecLookup, "radix_ipsec_lookup.rs");

/// Outputs with a special meaning.
const FROM_TUNNELS: usize = 0;
const INTO_TUNNELS: usize = 1;
const TO_HOST: usize = 2;
/// Maximum number of packets without a route that are reported.
const MOST_COMPLAINTS: u32 = 5;

impl Element for RadixIpsecLookup {
    const CLASS: Class = Class::new("RadixIPsecLookup", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        let args = &mut setup.args;
        let mut routes = Routes::default();
        for (number, text) in (1..).zip(&args.rest()) {
            match Route::read(text, args.scope(), outputs) {
                Some(route) => {
                    // It replaces an earlier route of the same network.
                    let _ = routes.apply(Change::Set(route));
                }
                None => args.error(
                    text,
                    format!("argument {number} should be ‘ADDR/MASK [GATEWAY] OUTPUT’"),
                ),
            }
        }
        args.complete()?;
        routes.go_on_from(&Routes::default());
        Ok(Self {
            routes: ArcSwap::from_pointee(routes),
            changing: Lock::new(()),
            outputs,
            complaints: AtomicU32::new(0),
        })
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let routes = self.routes.load();
        for mut packet in batch.drain() {
            match self.port_for(cx, &routes, &mut packet) {
                Ok(port) => cx.push_or_drop(port, packet, Reason::NoRoute),
                Err(reason) => drop(cx.drop(packet, reason)),
            }
        }
    }

    fn take_state(&self, old: &Self, _: &Init<'_>) {
        // Under one key no sequence number may be sent, or accepted, a second time.
        let mut routes = Routes::clone(&self.routes.load());
        routes.go_on_from(&old.routes.load());
        self.routes.store(Arc::new(routes));
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn RouteLookup>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("table", |element, _| element.routes.load().table());
        handlers.try_read("lookup", |element, call| {
            let address: Ipv4Addr = call.parse().map_err(|_| "expected IP address")?;
            Ok(match element.routes.load().find(address) {
                None => "-1".to_owned(),
                Some(route) if route.gateway.is_unspecified() => route.port.to_string(),
                Some(route) => format!("{} {}", route.port, route.gateway),
            })
        });
        for verb in ["add", "set", "remove"] {
            handlers.write(verb, move |element, call| {
                let text = ArgText::from(&*call.text());
                let change = element.change(verb, &text, &call.scope())?;
                element.apply(vec![change])
            });
        }
        handlers.write("ctrl", |element, call| {
            let mut changes = Vec::new();
            for line in call.text().lines() {
                let (verb, rest) = ArgText::from(line.trim_ascii()).split_first_word();
                if !verb.is_empty() {
                    changes.push(element.change(verb.as_str(), &rest, &call.scope())?);
                }
            }
            element.apply(changes)
        });
    }
}

impl RouteLookup for RadixIpsecLookup {
    fn hop(&self, address: Ipv4Addr) -> Option<Hop> {
        let routes = self.routes.load();
        let route = routes.find(address)?;
        Some(Hop { gateway: route.gateway, port: u32::try_from(route.port).ok()? })
    }
}

impl RadixIpsecLookup {
    /// Annotates a packet, and returns its output.
    fn port_for(
        &self,
        cx: &Context,
        routes: &Routes,
        packet: &mut Packet,
    ) -> Result<usize, Reason> {
        let address = packet.dst_ip();
        let Some(route) = routes.find(address) else {
            if self.complaints.fetch_add(1, Relaxed) < MOST_COMPLAINTS {
                cx.router().chatter(&format!("IPsecRouteTable: no route for {address}"));
            }
            return Err(Reason::NoRoute);
        };
        let mut port = route.port;
        match port {
            INTO_TUNNELS => match &route.association {
                Some(association) => {
                    packet.set_packet_number(association.spi);
                    association.annotate(packet);
                }
                None => cx
                    .router()
                    .chatter(&format!("No Ipsec tunnel for {address}. Wrong tunnel setup")),
            },
            FROM_TUNNELS => match index_of(packet.data())? {
                None => port = TO_HOST,
                Some(spi) => {
                    let Some(association) = routes.association(spi) else {
                        cx.router().chatter(&format!("Invalid SPI {spi}, Dropping packet"));
                        return Err(Reason::NoMatch);
                    };
                    association.annotate(packet);
                }
            },
            _ => {}
        }
        if !route.gateway.is_unspecified() {
            packet.set_dst_ip(route.gateway);
        }
        Ok(port)
    }

    fn change(
        &self,
        verb: &str,
        text: &ArgText,
        scope: &Scope<'_>,
    ) -> Result<Change, HandlerError> {
        let route = || {
            let route = Route::read(text, scope, self.outputs);
            route.ok_or_else(|| HandlerError::from("expected ‘ADDR/MASK [GATEWAY] OUTPUT’"))
        };
        match verb {
            "add" => route().map(Change::Add),
            "set" => route().map(Change::Set),
            "remove" => {
                let (network, _) = text.split_first_word();
                let Ipv4Network(prefix) = Ipv4Network::parse(&network, scope)
                    .map_err(|_| "expected ‘ADDR/MASK [GATEWAY OUTPUT]’")?;
                Ok(Change::Remove(prefix.truncated()))
            }
            other => Err(format!("bad command ‘{other}’").into()),
        }
    }

    /// Applies all changes or none.
    fn apply(&self, changes: Vec<Change>) -> Result<(), HandlerError> {
        let _turn = self.changing.lock();
        let mut routes = Routes::clone(&self.routes.load());
        for change in changes {
            routes.apply(change)?;
        }
        routes.go_on_from(&self.routes.load());
        self.routes.store(Arc::new(routes));
        Ok(())
    }
}

/// The security parameters index of an ESP packet; `None` for other IP packets.
fn index_of(bytes: &[u8]) -> Result<Option<u32>, Reason> {
    let (ip, _) = Ipv4Header::view(bytes).ok_or(Reason::Truncated)?;
    if ip.protocol != protocol::ESP {
        return Ok(None);
    }
    let index = bytes.get(ip.header_len()..).and_then(<[u8]>::first_chunk::<4>);
    index.map(|bytes| Some(u32::from_be_bytes(*bytes))).ok_or(Reason::Truncated)
}
