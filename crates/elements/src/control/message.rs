//! Message - prints a message during configuration
//!
//! # Synopsis
//! `Message(MESSAGE [, TYPE])`
//!
//! # Description
//! Prints MESSAGE on standard error while the configuration is read.
//!
//! # Arguments
//! - MESSAGE: the text. Mandatory.
//! - TYPE: `MESSAGE`, `WARNING`, or `ERROR`, which prevents the router from starting. Default: MESSAGE.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! Message("this is the configuration of the lab", WARNING);
//! Idle -> Discard;
//! ```
//!
//! # See also
//! Error

use millrace_core::args::Word;
use millrace_core::{Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct Message;

register!(Message, "message.rs");

impl Element for Message {
    const CLASS: Class = Class::new("Message", "0/0", "a/a").aliases(&["MessageElement"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let message: String = setup.args.mandatory("MESSAGE");
        let kind: Option<Word> = setup.args.optional("TYPE");
        setup.args.complete()?;
        match kind.as_ref().map_or("MESSAGE", |Word(kind)| kind.as_str()) {
            "MESSAGE" => setup.args.say((), message),
            "WARNING" => setup.args.warn((), message),
            kind => {
                let message = if kind == "ERROR" { &message } else { "unrecognized message type" };
                setup.args.error((), message);
                return Err(Failed);
            }
        }
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn only_errors_stop_the_router() {
        assert!(Rig::new("Message(hello)", 0, 0).is_ok());
        assert!(Rig::new("Message(hello, WARNING)", 0, 0).is_ok());
        assert!(Rig::new("Message(hello, ERROR)", 0, 0).is_err());
        assert!(Rig::new("Message(hello, SHOUT)", 0, 0).is_err());
        assert!(Rig::new("Message", 0, 0).is_err());
    }
}
