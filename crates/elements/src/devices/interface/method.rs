//! METHOD: how a device is accessed.

use millrace_core::args::Word;
use millrace_core::{Args, Setup};
use millrace_io::{DefaultMethod, Method, XdpOptions};

/// Reads METHOD.
pub(crate) fn configure(args: &mut Args<'_>, keyword: &str) -> Option<Method> {
    let word: Word = args.optional_keyword(keyword)?;
    let method = Method::named(&word.as_str().to_uppercase());
    if method.is_none() {
        let names = Method::NAMES.join(", ");
        args.error(keyword, format!("bad METHOD ‘{}’, expected one of {names}", word.as_str()));
    }
    method
}

/// The method for elements without METHOD: the program's choice, or packet sockets.
pub(crate) fn default(setup: &Setup<'_>) -> Method {
    setup.service::<DefaultMethod>().map_or_else(Method::default, |chosen| chosen.0.clone())
}

/// The method; `named` tells whether the user chose the queues to receive from.
pub(crate) fn with_queues(method: Method, named: bool) -> Method {
    match method {
        Method::Xdp(xdp) => Method::Xdp(XdpOptions { every_queue: !named, ..xdp }),
        Method::Best(xdp) => Method::Best(XdpOptions { every_queue: !named, ..xdp }),
        method => method,
    }
}
