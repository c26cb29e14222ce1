//! The arguments ETHERTYPE, SRC and DST of elements that prepend Ethernet headers, and the handlers
//! that read and change them.

use millrace_core::headers::{EthernetHeader, U16};
use millrace_core::{Args, Element, Handlers, Published};

/// Reads ETHERTYPE, SRC and DST.
pub(crate) fn configure(args: &mut Args<'_>) -> EthernetHeader {
    let ether_type = args.mandatory("ETHERTYPE");
    let src = args.mandatory("SRC");
    let dst = args.mandatory("DST");
    EthernetHeader { dst, src, ether_type: U16::new(ether_type) }
}

/// An element that has such a header.
pub(crate) trait WithHeader: Element {
    fn header(&self) -> &Published<EthernetHeader>;
}

fn change<E: WithHeader>(element: &E, change: impl Fn(&mut EthernetHeader)) {
    element.header().update(|header| {
        let mut header = *header;
        change(&mut header);
        header
    });
}

/// Registers the handlers `src` and `dst`, and one for the type under each of the names.
pub(crate) fn handlers<E: WithHeader>(handlers: &mut Handlers<E>, type_names: &[&str]) {
    handlers.read("src", |element: &E, _| element.header().load().src.to_string());
    handlers.write("src", |element: &E, call| {
        let src = call.parse()?;
        change(element, |header| header.src = src);
        Ok(())
    });
    handlers.read("dst", |element: &E, _| element.header().load().dst.to_string());
    handlers.write("dst", |element: &E, call| {
        let dst = call.parse()?;
        change(element, |header| header.dst = dst);
        Ok(())
    });
    for name in type_names {
        handlers.read(name, |element: &E, _| element.header().load().ether_type.get());
        handlers.write(name, |element: &E, call| {
            let ether_type = call.parse()?;
            change(element, |header| header.ether_type = U16::new(ether_type));
            Ok(())
        });
    }
}
