//! Dispatcher - routes packets by the decisions of GPU elements
//!
//! # Synopsis
//! `Dispatcher([PREDICATE, ...] [, keywords ANNO])`
//!
//! # Description
//! Follows a Debatcher. Sends each packet to the output of the first PREDICATE that holds for it:
//!
//! - `element.output`: the GPU element of that name chose this output of its own for the packet;
//! - a number: this bit of the packet's predicate word is set, counted from the lowest, 0 to 31;
//! - `-`: always.
//!
//! A GPU element's decision does not split the batch: for example, a packet in which an IDS has found something stays
//! with the others up to here.
//!
//! Without arguments, output *n* gets the packets for which the section's only deciding element chose its output *n*.
//!
//! # Arguments
//! - PREDICATE: as above, one for each output.
//! - ANNO: the four-byte annotation that holds the predicate word. Default: ANNO of the upstream Debatcher, or 40.
//!
//! # Ports
//! One push input, as many push outputs as there are PREDICATEs.
//!
//! # Handlers
//! - `predicates` (read): one line for each output: its predicate, the mask of its bits, and their value.
//!
//! # Drops
//! - no match: no PREDICATE holds.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 1000)
//!     -> GetIPAddress(16)
//!     -> Batcher(256)
//!     -> HostToDeviceMemcpy
//!     -> rt :: GPUIPLookup(2.0.0.0/8 1.0.0.254 0, 3.0.0.0/8 1)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue
//!     -> Debatcher
//!     -> d :: Dispatcher(rt.1, -);
//! d [0] -> Discard;
//! d [1] -> Counter -> Discard;
//! ```
//!
//! # See also
//! Debatcher, GPUSDNClassifier, GPUIDSMatcher

use std::sync::{Arc, OnceLock};

use millrace_core::args::{Annotation, Arg, ArgError, ArgText, Scope};
use millrace_core::memory::Ports;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Inspection, Reason, Setup, register,
};
use millrace_gpu::kernel::Condition;
use millrace_gpu::plan::Decision;
use millrace_lang::{Diagnostic, Span};

use super::section::arguments::PREDICATE_ANNOTATION;
use super::section::book::Book;
use super::section::predicate::Predicate;
use super::section::unit::Unit;

/// The element; its manual is at the top of the file.
pub struct Dispatcher {
    book: Arc<Book>,
    outputs: usize,
    wishes: Vec<(Wish, ArgText)>,
    annotation: Option<usize>,
    /// The conditions to test, once the sections are known.
    conditions: OnceLock<Conditions>,
}

/// The packets that leave by an output.
#[derive(Clone, Debug)]
enum Wish {
    Decided(Predicate),
    Bit(u32),
    Rest,
}

/// The annotation that holds the predicate word, and for each output the value that it must have.
struct Conditions {
    annotation: usize,
    of_outputs: Vec<Condition>,
}

register!(Dispatcher, "dispatcher.rs");

impl Element for Dispatcher {
    const CLASS: Class = Class::new("Dispatcher", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        let args = &mut setup.args;
        let annotation: Option<Annotation<4>> = args.optional_keyword("ANNO");
        let mut wishes = Vec::new();
        for text in args.rest_positional() {
            if let Some(wish) = args.parse_as::<Wish>("PREDICATE", &text) {
                wishes.push((wish, text));
            }
        }
        if !wishes.is_empty() && wishes.len() != outputs && !args.has_errors() {
            let message = format!(
                "{} for {}",
                counted(wishes.len(), "predicate"),
                counted(outputs, "output")
            );
            args.error((), message);
        }
        args.complete()?;
        Ok(Self {
            book: setup.shared(),
            outputs,
            wishes,
            annotation: annotation.map(|Annotation(offset)| offset),
            conditions: OnceLock::new(),
        })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.book.inspect(inspection);
        match self.resolve(inspection) {
            Ok(conditions) => {
                // An element is inspected once.
                let _ = self.conditions.set(conditions);
            }
            Err(Some(finding)) => inspection.report(*finding),
            // Errors in the section itself have already been reported.
            Err(None) => {}
        }
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let Some(conditions) = self.conditions.get() else {
            return cx.drop_batch(batch, Reason::NoMatch);
        };
        let mut ports: Ports = [0; Batch::CAPACITY];
        batch.classify(&mut ports, |packet| {
            let predicate = packet.anno_u32(conditions.annotation);
            let found = conditions.of_outputs.iter().position(|one| one.holds(predicate));
            found.map_or(Context::port_to_drop(Reason::NoMatch), |output| output as u16)
        });
        let len = batch.len();
        cx.route_by(batch, &ports[..len]);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("predicates", |dispatcher, _| dispatcher.predicates());
    }
}

impl Dispatcher {
    /// The bits of each output's predicate; `None` as error when it has already been reported.
    fn resolve(&self, inspection: &Inspection<'_>) -> Result<Conditions, Option<Box<Diagnostic>>> {
        let here = inspection.span_of(inspection.id());
        let names = |wish: &(Wish, ArgText)| matches!(wish.0, Wish::Decided(_));
        let named = self.wishes.is_empty() || self.wishes.iter().any(names);
        let mut annotation = self.annotation.unwrap_or(PREDICATE_ANNOTATION);
        let mut unit = None;
        if named {
            let found = self.section(inspection)?;
            annotation = self.annotation.or(found.annotation).unwrap_or(annotation);
            unit = Some(found);
        }
        let of_outputs = match (self.wishes.as_slice(), unit) {
            ([], Some(unit)) => self.of_only_decider(unit, inspection, here)?,
            (wishes, unit) => {
                let condition = |(wish, _): &(Wish, ArgText)| match (wish, unit) {
                    (Wish::Decided(predicate), Some(unit)) => {
                        self.decided(predicate, unit, inspection)
                    }
                    (Wish::Bit(bit), _) => Ok(Condition { mask: 1 << bit, value: 1 << bit }),
                    _ => Ok(Condition { mask: 0, value: 0 }),
                };
                wishes.iter().map(condition).collect::<Result<_, _>>()?
            }
        };
        Ok(Conditions { annotation, of_outputs })
    }

    /// The section that packets come from.
    fn section(&self, inspection: &Inspection<'_>) -> Result<&Arc<Unit>, Option<Box<Diagnostic>>> {
        let here = inspection.span_of(inspection.id());
        let mut seen = vec![inspection.id()];
        let mut found: Vec<&Arc<Unit>> = Vec::new();
        let mut next = 0;
        while let Some(&at) = seen.get(next) {
            next += 1;
            let before: Vec<usize> = inspection.coming(at).map(|(_, (from, _), _)| from).collect();
            for from in before {
                let unit = self.book.units().iter().find(|unit| unit.layout.debatcher == from);
                match unit {
                    Some(unit) if !found.iter().any(|other| Arc::ptr_eq(other, unit)) => {
                        found.push(unit);
                    }
                    None if !seen.contains(&from) => seen.push(from),
                    _ => {}
                }
            }
        }
        match found.as_slice() {
            [unit] => Ok(unit),
            [] if inspection.has_errors() => Err(None),
            [] => {
                let message = "packets do not come from a GPU section, so no element has decided \
                               about them";
                let finding = Diagnostic::error(here, message);
                Err(Some(Box::new(finding.help("put the Dispatcher after a Debatcher"))))
            }
            _ => {
                let finding = Diagnostic::error(here, "packets come from several GPU sections");
                Err(Some(Box::new(finding.help("put a Dispatcher after each Debatcher"))))
            }
        }
    }

    fn decided(
        &self,
        predicate: &Predicate,
        unit: &Unit,
        inspection: &Inspection<'_>,
    ) -> Result<Condition, Option<Box<Diagnostic>>> {
        let user = inspection.id();
        let (place, output) = predicate.resolve(user, &unit.layout, inspection).map_err(Some)?;
        let field = unit.turns.get(place).and_then(|turn| turn.field).ok_or(None)?;
        Ok(field.is(Decision::Output(output)))
    }

    /// One output for each output of the only element that decides.
    fn of_only_decider(
        &self,
        unit: &Unit,
        inspection: &Inspection<'_>,
        here: Option<Span>,
    ) -> Result<Vec<Condition>, Option<Box<Diagnostic>>> {
        let deciders = unit.layout.stages.iter().zip(&unit.turns);
        let deciders: Vec<_> =
            deciders.filter_map(|(placed, turn)| Some((placed.element, turn.field?))).collect();
        let (element, field) = match deciders.as_slice() {
            [one] => *one,
            [] => {
                let message = "no element of the GPU section decides anything";
                return Err(Some(Box::new(Diagnostic::error(here, message))));
            }
            several => {
                let names: Vec<_> =
                    several.iter().map(|(element, _)| inspection.name_of(*element)).collect();
                let message = format!("several elements decide something: {}", names.join(", "));
                let help = format!("say which one is meant, as in ‘{}.0’", names[0]);
                return Err(Some(Box::new(Diagnostic::error(here, message).help(help))));
            }
        };
        if self.outputs > field.outputs as usize {
            let message = format!(
                "{}, but ‘{}’ decides between {}",
                counted(self.outputs, "output"),
                inspection.described(element),
                field.outputs
            );
            return Err(Some(Box::new(Diagnostic::error(here, message))));
        }
        Ok((0..self.outputs as u32).map(|output| field.is(Decision::Output(output))).collect())
    }

    fn predicates(&self) -> String {
        let Some(conditions) = self.conditions.get() else { return String::new() };
        let line = |(output, condition): (usize, &Condition)| {
            let written = self.wishes.get(output).map_or("", |(_, text)| text.as_str());
            format!("{written}\t{:#x}\t{:#x}\n", condition.mask, condition.value)
        };
        conditions.of_outputs.iter().enumerate().map(line).collect()
    }
}

/// A count with its noun.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

impl Arg for Wish {
    const EXPECTS: &'static str =
        "‘element.output’ of a GPU element, the number of a bit, or ‘-’ for the rest";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        if text.as_str() == "-" {
            return Ok(Self::Rest);
        }
        match u32::parse(text, scope) {
            Ok(bit @ 0..32) => Ok(Self::Bit(bit)),
            Ok(_) => Err(ArgError::new("a predicate word has bits 0 to 31")),
            Err(_) => {
                Predicate::parse(text, scope).map(Self::Decided).map_err(|_| ArgError::default())
            }
        }
    }

    fn placeholder() -> Self {
        Self::Rest
    }
}
