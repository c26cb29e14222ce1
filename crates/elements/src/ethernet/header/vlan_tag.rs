//! The arguments of elements that add VLAN tags: the tag, and which packets get none.

use millrace_core::args::{Arg, ArgError, ArgText, Args, Kind, Scope};
use millrace_core::element::HandlerError;
use millrace_core::{Call, Element, Handlers};
use millrace_core::{Published, View};

/// The tag to add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VlanTag {
    /// Priority and number of the VLAN.
    tci: u16,
    /// Whether to use each packet's annotation instead.
    annotated: bool,
    /// The VLAN whose packets get no tag; none if negative.
    native: i32,
}

/// The bits of a tag with the VLAN's number.
const ID: u16 = 0x0fff;
const PRIORITY_SHIFT: u32 = 13;
const HIGHEST_PRIORITY: u8 = 7;

/// The argument VLAN_TCI.
#[derive(Clone, Copy)]
enum Tci {
    Fixed(u16),
    Annotated,
}

impl Arg for Tci {
    const EXPECTS: &'static str = "an integer between 0 and 65535, or ANNO";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        match text.as_str() {
            "ANNO" => Ok(Self::Annotated),
            _ => u16::parse(text, scope).map(Self::Fixed),
        }
    }

    fn placeholder() -> Self {
        Self::Fixed(0)
    }
}

impl VlanTag {
    /// Reads VLAN_TCI, VLAN_PCP, VLAN_ID and NATIVE_VLAN.
    pub(crate) fn configure(args: &mut Args<'_>) -> Self {
        let tci = args.optional("VLAN_TCI");
        let tag = Self::with_tci(args, tci);
        Self { native: args.in_range("NATIVE_VLAN", Kind::Keyword, -1..=0xfff).unwrap_or(0), ..tag }
    }

    /// Reads VLAN_TCI, which must be a number, VLAN_PCP and VLAN_ID.
    pub(crate) fn configure_fixed(args: &mut Args<'_>) -> Self {
        let tci = args.optional("VLAN_TCI").map(Tci::Fixed);
        Self::with_tci(args, tci)
    }

    fn with_tci(args: &mut Args<'_>, tci: Option<Tci>) -> Self {
        let priority = args.in_range("VLAN_PCP", Kind::Positional, 0..=HIGHEST_PRIORITY);
        let id = args.in_range("VLAN_ID", Kind::Keyword, 0..=ID).unwrap_or(0);
        let number = match tci {
            Some(Tci::Fixed(tci)) => tci,
            _ => id,
        };
        let tci_with_priority = number | u16::from(priority.unwrap_or(0)) << PRIORITY_SHIFT;
        let annotated = matches!(tci, Some(Tci::Annotated));
        Self { tci: tci_with_priority, annotated, native: 0 }
    }

    /// The tag for a packet; None if it belongs to the native VLAN.
    #[inline(always)]
    pub(crate) fn of(&self, packet: &View) -> Option<u16> {
        let tci = if self.annotated { packet.vlan_tci() } else { self.tci };
        (i32::from(tci & ID) != self.native).then_some(tci)
    }

    /// The tag given by the arguments.
    #[inline(always)]
    pub(crate) fn tci(&self) -> u16 {
        self.tci
    }

    fn priority(self) -> u16 {
        self.tci >> PRIORITY_SHIFT
    }

    /// The tag as arguments.
    fn config(self) -> String {
        let mut text = match self.annotated {
            true => "ANNO".to_owned(),
            false => format!("VLAN_ID {}, VLAN_PCP {}", self.tci & ID, self.priority()),
        };
        if self.native != 0 {
            text.push_str(&format!(", NATIVE_VLAN {}", self.native));
        }
        text
    }
}

/// An element that adds tags.
pub(crate) trait Tagging: Element {
    fn tag(&self) -> &Published<VlanTag>;

    /// The arguments before those of the tag, each followed by a comma.
    fn other_arguments(&self) -> String {
        String::new()
    }
}

fn change<E: Tagging>(element: &E, change: impl Fn(&mut VlanTag)) -> Result<(), HandlerError> {
    element.tag().update(|tag| {
        let mut tag = *tag;
        change(&mut tag);
        tag
    });
    Ok(())
}

/// Parses the written value as a number up to `highest`.
fn number_up_to(call: &Call<'_>, highest: u16) -> Result<u16, HandlerError> {
    let number = call.parse()?;
    match number <= highest {
        true => Ok(number),
        false => Err(format!("out of range, bound {highest}").into()),
    }
}

/// Registers the handlers `config`, `vlan_tci`, `vlan_id` and `vlan_pcp`.
pub(crate) fn handlers<E: Tagging>(handlers: &mut Handlers<E>) {
    fn load<E: Tagging>(element: &E) -> VlanTag {
        *element.tag().load()
    }
    handlers.read("config", |element: &E, _| {
        format!("{}{}", element.other_arguments(), load(element).config())
    });
    handlers.read("vlan_tci", |element: &E, _| match load(element) {
        VlanTag { annotated: true, .. } => "ANNO".to_owned(),
        VlanTag { tci, .. } => tci.to_string(),
    });
    handlers.write("vlan_tci", |element: &E, call| {
        let tci: Tci = call.parse()?;
        change(element, |tag| match tci {
            Tci::Annotated => tag.annotated = true,
            Tci::Fixed(tci) => {
                // VLAN_PCP still applies.
                *tag = VlanTag {
                    tci: tci | tag.priority() << PRIORITY_SHIFT,
                    annotated: false,
                    ..*tag
                }
            }
        })
    });
    handlers.read("vlan_id", |element: &E, _| match load(element) {
        VlanTag { annotated: true, .. } => String::new(),
        VlanTag { tci, .. } => (tci & ID).to_string(),
    });
    handlers.write("vlan_id", |element: &E, call| {
        let id = number_up_to(call, ID)?;
        change(element, |tag| tag.tci = tag.tci & !ID | id)
    });
    handlers.read("vlan_pcp", |element: &E, _| match load(element) {
        VlanTag { annotated: true, .. } => String::new(),
        tag => tag.priority().to_string(),
    });
    handlers.write("vlan_pcp", |element: &E, call| {
        let priority = number_up_to(call, HIGHEST_PRIORITY.into())?;
        change(element, |tag| {
            tag.tci = tag.tci & !(7 << PRIORITY_SHIFT) | priority << PRIORITY_SHIFT
        })
    });
}

/// Registers the handler `native_vlan`.
pub(crate) fn native_handlers<E: Tagging>(handlers: &mut Handlers<E>) {
    handlers.read("native_vlan", |element: &E, _| match element.tag().load().native {
        0 => String::new(),
        native => native.to_string(),
    });
    handlers.write("native_vlan", |element: &E, call| {
        let native: i32 = call.parse()?;
        if !(-1..=i32::from(ID)).contains(&native) {
            return Err(
                format!("out of range, bound {}", if native < 0 { -1 } else { 0xfff }).into()
            );
        }
        change(element, |tag| tag.native = native)
    });
}
