//! `click-align`: inserts Align elements where packets would have the wrong alignment, and adds an AlignmentInfo for
//! the elements that need to know the alignment.

mod aligner;
mod alignment;
mod flow;

use alignment::Alignment;
use flow::Flow;

use super::clp::{Choice, flag, switch, valued};
use super::router::{Port, Router};
use super::session::Common::{self, Expression, File, Help, Output, Own, Version};
use super::session::Session;
use super::tool::{Stop, Tool};
use super::traits::{Traits, wants_alignment};

pub(super) const TOOL: Tool = Tool {
    name: "click-align",
    about: "Adds Align elements for machines that can only read aligned words",
    options: "\
  -f, --file FILE             Read the configuration from FILE.
  -e, --expression EXPR       Take EXPR itself as the configuration.
  -o, --output FILE           Write to FILE.
      --assertions            Add CheckAlign elements instead of Align elements.
  -b, --bsdmodule             The configuration is for FreeBSD’s kernel.
  -l, --linuxmodule           The configuration is for Linux’ kernel.
  -u, --userlevel             The configuration is for a user-level driver.
  -V, --verbose               Print what is added.
",
    run,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choose {
    Assertions,
    Driver,
    Verbose,
}

const CHOICES: &[Choice<Common<Choose>>] = &[
    switch("assertions", None, Own(Choose::Assertions)),
    flag("bsdmodule", Some('b'), Own(Choose::Driver)),
    valued("expression", Some('e'), Expression),
    valued("file", Some('f'), File),
    flag("help", None, Help),
    flag("linuxmodule", Some('l'), Own(Choose::Driver)),
    valued("output", Some('o'), Output),
    flag("userlevel", Some('u'), Own(Choose::Driver)),
    flag("verbose", Some('V'), Own(Choose::Verbose)),
    flag("version", Some('v'), Version),
];

/// The origin of added elements, in the line marks of the output.
const LANDMARK: &str = "<click-align>";

fn run(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    let (mut assertions, mut verbose, mut driver) = (false, false, false);
    session.command_line(CHOICES, args, |session, option, _, negated| {
        match option {
            Choose::Assertions => assertions = !negated,
            Choose::Verbose => verbose = true,
            Choose::Driver if driver => return session.usage("driver specified twice"),
            Choose::Driver => driver = true,
        }
        Ok(())
    })?;
    let mut input = session.read()?;
    let traits = Traits::new();
    let mut work = Work {
        session,
        traits: &traits,
        originals: input.router.elements.len(),
        next: input.router.elements.len() + 1,
        added: 0,
        verbose,
        router: &mut input.router,
    };
    while work.router.find(&work.name("Align")).is_some() {
        work.next += 1;
    }
    if assertions {
        work.assert();
    } else {
        work.align();
    }
    session.write(&input.router, &input.archive)
}

struct Work<'a> {
    session: &'a Session,
    traits: &'a Traits,
    router: &'a mut Router,
    /// The number of elements at the start.
    originals: usize,
    /// The number in the name of the next added element.
    next: usize,
    /// The number of added Aligns.
    added: usize,
    verbose: bool,
}

impl Work<'_> {
    fn name(&self, class: &str) -> String {
        format!("{class}@click_align@{}", self.next)
    }

    fn current(&self) -> Flow {
        Flow::current(self.router, self.session, self.traits)
    }

    fn insert(&mut self, class: &str, config: &str, port: Port) {
        let element = self.router.get(&self.name(class), class, config, LANDMARK);
        self.router.insert_before((element, 0), port);
        self.next += 1;
    }

    /// Inserts a CheckAlign before every input that requires an alignment.
    fn assert(&mut self) {
        let wanted = Flow::wanted_alone(self.router, self.session, self.traits);
        for port in self.original_inputs(&wanted) {
            let want = Flow::at(&wanted.into, port);
            if want.modulus() > 1 {
                let config = format!("{}, {}, ASSERT true", want.modulus(), want.offset());
                self.insert("CheckAlign", &config, port);
            }
        }
    }

    fn original_inputs(&self, flow: &Flow) -> Vec<Port> {
        let elements = flow.into.iter().take(self.originals).enumerate();
        elements
            .flat_map(|(index, ports)| (0..ports.len()).map(move |port| (index, port)))
            .collect()
    }

    /// Inserts an Align before every input whose packets have the wrong alignment.
    fn add(&mut self, have: &Flow, wanted: &Flow) {
        for port in self.original_inputs(have) {
            let (have, want) = (Flow::at(&have.into, port), Flow::at(&wanted.into, port));
            if have.satisfies(want) || want == Alignment::Bad {
                continue;
            }
            if self.verbose
                && let Some(element) = self.router.live(port.0)
            {
                let (modulus, offset) = (want.modulus(), want.offset());
                self.session.say(format_args!(
                    "{} [{}]: adding Align({modulus}, {offset})",
                    element.name, port.1
                ));
            }
            self.insert("Align", &format!("{}, {}", want.modulus(), want.offset()), port);
            self.added += 1;
        }
    }

    fn align(&mut self) {
        let have = self.current();
        let wanted = Flow::wanted(self.router, self.session, self.traits);
        self.add(&have, &wanted);
        self.join_aligns();
        let have = self.current();
        let mut wanted = have.clone();
        for (aligner, into) in wanted.aligners.iter().zip(&mut wanted.into) {
            aligner.adjust(into);
        }
        self.add(&have, &wanted);
        while self.skip_redundant() {
            self.router.remove_duplicates();
        }
        self.remove_unused();
        self.inform();
        match self.added {
            0 => {}
            1 => self.session.warn("added 1 Align element"),
            n => self.session.warn(format_args!("added {n} Align elements")),
        }
    }

    fn is_align(&self, port: Port) -> bool {
        self.router.live(port.0).is_some_and(|element| element.is("Align"))
    }

    /// Of two successive Aligns, removes the first, unless the second does nothing.
    fn join_aligns(&mut self) {
        for number in self.router.connection_numbers() {
            let Some(connection) = self.router.connection(number) else { continue };
            let (from, to) = (connection.from, connection.to);
            if !(self.is_align(from) && self.is_align(to) && from.1 == 0 && to.1 == 0) {
                continue;
            }
            let made = |port: Port| {
                let element = self.router.live(port.0);
                element.and_then(|e| aligner::configured(&e.config)).unwrap_or(Alignment::Bad)
            };
            if made(from).satisfies(made(to)) {
                continue;
            }
            let before = self.router.numbers_to(from);
            match (
                &before[..],
                &self.router.numbers_to(to)[..],
                &self.router.numbers_from(from)[..],
            ) {
                (&[before], &[to], _) => {
                    if let Some(before) = self.router.connection(before) {
                        self.router.move_from(to, before.from);
                    }
                }
                (_, _, &[only]) => {
                    for before in before {
                        self.router.move_to(before, to);
                    }
                    self.router.erase(only);
                }
                _ => {}
            }
        }
    }

    /// Bypasses Aligns that change no packet. Returns true if there were any.
    fn skip_redundant(&mut self) -> bool {
        let flow = self.current();
        let mut changed = false;
        let mut next = 0;
        // Connections that were made just now are examined as well.
        while next < self.router.connections_end() {
            let number = next;
            next += 1;
            let Some(connection) = self.router.connection(number) else { continue };
            let have = Flow::at(&flow.out, connection.from);
            let made = Flow::at(&flow.out, (connection.to.0, 0));
            if !self.is_align(connection.to) || !have.satisfies(made) {
                continue;
            }
            changed = true;
            for target in self.router.ports_from(connection.to) {
                self.router.connect(connection.from, target);
            }
            self.router.erase(number);
        }
        changed
    }

    /// Removes Aligns that no packet passes, and old AlignmentInfos.
    fn remove_unused(&mut self) {
        for index in self.router.of_class("AlignmentInfo") {
            self.router.kill(index);
        }
        for index in self.router.of_class("Align") {
            let Some(element) = self.router.live(index) else { continue };
            if element.inputs == 0 || element.outputs == 0 {
                self.added -= usize::from(self.added > 0 && element.landmark == LANDMARK);
                self.router.kill(index);
            }
        }
        self.router.remove_dead();
    }

    /// Adds an AlignmentInfo.
    fn inform(&mut self) {
        let flow = self.current();
        let mut lines = Vec::new();
        for (index, element) in self.router.iter() {
            if element.inputs > 0 && wants_alignment(element.class()) {
                let into = flow.into.get(index).map_or(&[][..], Vec::as_slice);
                let ports = into.iter().map(|a| format!("  {} {}", a.modulus(), a.offset()));
                lines.push(element.name.clone() + &ports.collect::<String>());
            }
        }
        if !lines.is_empty() {
            let name = self.name("AlignmentInfo");
            self.router.get(&name, "AlignmentInfo", &lines.join(",\n  "), LANDMARK);
        }
    }
}
