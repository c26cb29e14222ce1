//! How classes change the alignment of packets, and which alignment they require.

use millrace_lang::config::{keyword, split_args, split_words};

use super::alignment::Alignment;
use crate::tools::router::Element;
use crate::tools::session::Session;
use crate::tools::traits::Traits;

/// How an element treats alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aligner {
    /// It keeps the alignment.
    Keep,
    /// Its outputs do not depend on its inputs.
    Ignore,
    /// Packets leave with this alignment, whatever theirs was.
    Make(Alignment),
    /// Packets leave with this many bytes fewer in front of them.
    Shift(i64),
    /// It requires this alignment, and keeps it.
    Want(Alignment),
    /// It requires the alignment and shifts by the number of bytes.
    ShiftAndWant(i64, Alignment),
    /// It keeps the alignment, but requires the same one modulo 4 for all packets.
    Classify,
    /// ARPQuerier.
    Arp,
}

use Aligner::{Arp, Classify, Ignore, Keep, Make, Shift, ShiftAndWant, Want};

impl Aligner {
    /// How an element treats alignment. Errors in its arguments are printed.
    pub(super) fn of(element: &Element, session: &Session) -> Self {
        let at = |modulus, offset| Alignment::new(modulus, offset);
        match element.class() {
            "Align" => configured(&element.config).map_or_else(|| complain(element, session), Make),
            class @ ("Strip" | "Unstrip") => match number(&element.config, "LENGTH") {
                Some(bytes) => Shift(if class == "Strip" { bytes } else { -bytes }),
                None => complain(element, session),
            },
            "CheckIPHeader" | "CheckIPHeader2" | "MarkIPHeader" => {
                Want(at(4, 0).shifted(-ip_offset(&element.config)))
            }
            "Classifier" => Classify,
            "EtherEncap" => Shift(-14),
            "FromHost" | "FromDevice" | "PollDevice" => device(element, session).map_or(Keep, Make),
            "ToHost" => device(element, session).map_or(Keep, Want),
            "SR2SetChecksum" | "SR2CheckHeader" | "SetSRChecksum" | "CheckSRHeader" => {
                Make(at(4, 2))
            }
            "ICMPError" => match named(&element.config, "ETHER").as_deref() {
                Some("true" | "yes" | "1") => Keep,
                _ => Make(at(4, 0)),
            },
            "InfiniteSource" | "RatedSource" => Make(at(4, 0)),
            "Idle" => Make(Alignment::Universal),
            "IPEncap"
            | "UDPIPEncap"
            | "ICMPPingEncap"
            | "RandomUDPIPEncap"
            | "RoundRobinUDPIPEncap"
            | "RoundRobinTCPIPEncap"
            | "StoreUDPTimeSeqRecord" => Want(at(4, 0)),
            "ARPResponder" => Want(at(2, 0)),
            "ARPQuerier" => Arp,
            "IPInputCombo" => ShiftAndWant(14, at(4, 2)),
            "GridEncap" => ShiftAndWant(98, at(4, 0)),
            "Discard" => Ignore,
            _ => Keep,
        }
    }

    /// The alignment at the outputs, given the one at the inputs.
    pub(super) fn leave(
        self,
        class: &str,
        traits: &Traits,
        into: &[Alignment],
        out: &mut [Alignment],
    ) {
        match self {
            Ignore => {}
            Keep | Want(_) | Classify => {
                for (port, leaving) in out.iter_mut().enumerate() {
                    let ways = into.iter().enumerate();
                    let ways = ways.filter(|(input, _)| traits.connects(class, *input, port));
                    *leaving = ways.fold(Alignment::Empty, |all, (_, one)| all.either(*one));
                }
            }
            Make(alignment) => out.fill(alignment),
            Shift(bytes) | ShiftAndWant(bytes, _) => out.fill(common(into).shifted(bytes)),
            Arp => {
                if let Some(first) = into.first() {
                    out.fill(Alignment::new(4, 2));
                    if let Some(out) = out.first_mut() {
                        *out = first.shifted(-14);
                    }
                }
            }
        }
    }

    /// The alignment required at the inputs, given the one required at the outputs.
    pub(super) fn enter(
        self,
        class: &str,
        traits: &Traits,
        into: &mut [Alignment],
        out: &[Alignment],
    ) {
        match self {
            Ignore => {}
            Keep | Classify => {
                for (port, entering) in into.iter_mut().enumerate() {
                    let ways = out.iter().enumerate();
                    let ways = ways.filter(|(output, _)| traits.connects(class, port, *output));
                    *entering = ways.fold(Alignment::Empty, |all, (_, one)| all.both(*one));
                }
            }
            Make(_) => into.fill(Alignment::Empty),
            Shift(bytes) => {
                let all = out.iter().copied().reduce(Alignment::both);
                into.fill(all.unwrap_or(Alignment::new(1, 0)).shifted(-bytes));
            }
            Want(alignment) | ShiftAndWant(_, alignment) => into.fill(alignment),
            Arp => {
                into.fill(Alignment::new(2, 0));
                if let (Some(into), Some(out)) = (into.first_mut(), out.first()) {
                    *into = out.shifted(14);
                }
            }
        }
    }

    /// Adjusts the required alignments to the actual ones: any alignment, but the same for all packets.
    pub(super) fn adjust(self, into: &mut [Alignment]) {
        if self == Classify {
            let all = common(into);
            let enough = all.modulus() >= 4;
            into.fill(if enough { all } else { Alignment::new(4, all.offset().into()) });
        }
    }
}

fn common(into: &[Alignment]) -> Alignment {
    into.iter().copied().reduce(Alignment::either).unwrap_or(Alignment::new(1, 0))
}

fn complain(element: &Element, session: &Session) -> Aligner {
    session.error(format_args!(
        "While analyzing alignment for ‘{}’:\n  bad configuration ‘{}’",
        element.declaration(),
        element.config
    ));
    Keep
}

/// The alignment in the configuration string of an Align.
pub(super) fn configured(config: &str) -> Option<Alignment> {
    let args = split_args(config);
    alignment(&args.iter().map(|arg| &*arg.text).collect::<Vec<_>>())
}

/// `MODULUS` and `OFFSET`.
fn alignment(args: &[&str]) -> Option<Alignment> {
    let value = |index: usize, name: &str| {
        let arg = args.get(index)?;
        let value = keyword(arg).filter(|(word, value)| *word == name && !value.is_empty());
        value.map_or(*arg, |(_, value)| value).parse::<u32>().ok()
    };
    let (modulus, offset) = (value(0, "MODULUS")?, value(1, "OFFSET")?);
    (modulus > 0 && offset < modulus && args.len() == 2)
        .then(|| Alignment::new(modulus, offset.into()))
}

fn named(config: &str, name: &str) -> Option<String> {
    let args = split_args(config);
    let words = args.iter().filter_map(|arg| keyword(&arg.text));
    words
        .filter(|(word, value)| *word == name && !value.is_empty())
        .map(|(_, v)| v.to_owned())
        .next_back()
}

/// The alignment of a device's packets: from its arguments, or from the kind of packets.
fn device(element: &Element, session: &Session) -> Option<Alignment> {
    if let Some(text) = named(&element.config, "ALIGNMENT") {
        let words: Vec<&str> = split_words(&text).iter().map(|word| word.text).collect();
        let found = alignment(&words);
        if found.is_none() {
            complain(element, session);
        }
        return found;
    }
    let ip = named(&element.config, "TYPE").as_deref() == Some("IP");
    Some(if ip { Alignment::new(4, 0) } else { Alignment::new(4, 2) })
}

/// The value of a configuration string that is a single number.
fn number(config: &str, name: &str) -> Option<i64> {
    let args = split_args(config);
    let [arg] = &args[..] else { return None };
    let value = keyword(&arg.text).filter(|(word, value)| *word == name && !value.is_empty());
    unsigned(value.map_or(&arg.text, |(_, value)| value))
}

/// The offset of the IP header in the arguments. Old configurations have a list of bad addresses before it.
fn ip_offset(config: &str) -> i64 {
    if let Some(offset) = named(config, "OFFSET").as_deref().and_then(unsigned) {
        return offset;
    }
    let args = split_args(config);
    let is_keyword = |text: &str| keyword(text).is_some_and(|(_, value)| !value.is_empty());
    let positional: Vec<&str> =
        args.iter().map(|arg| &*arg.text).take_while(|text| !is_keyword(text)).collect();
    positional.iter().take(2).find_map(|text| unsigned(text)).unwrap_or(0)
}

fn unsigned(text: &str) -> Option<i64> {
    text.parse::<u32>().ok().map(i64::from)
}
