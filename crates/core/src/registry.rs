//! The registry of classes.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use linkme::distributed_slice;

use crate::args::{Args, Asked, Scope};
use crate::element::{AnyElement, Class, Element, Failed, Handler, Handlers, PerPacket, Setup};
use crate::names::NameTable;
use crate::plan::Draft;
use crate::program::Steps;
use crate::services::Services;

/// Every class that is linked into the program. Use [`register!`](crate::register) to add one.
#[distributed_slice]
pub static CLASSES: [ClassInfo];

/// A registered class.
#[derive(Clone, Copy)]
pub struct ClassInfo {
    /// The declaration of the class.
    pub class: Class,
    /// The text of the file that holds the class; its `//!` lines are the manual.
    pub source: &'static str,
    /// The module that holds the class: `millrace_elements::ip::dec_ip_ttl`.
    pub module: &'static str,
    pub(crate) steps: Option<Steps>,
    pub(crate) configure: fn(&mut Setup<'_>) -> Result<Arc<dyn AnyElement>, Failed>,
    pub(crate) handlers: fn() -> Vec<Handler>,
}

impl ClassInfo {
    /// The entry for `E`. Use [`class_info!`](crate::class_info), which finds `steps`.
    #[doc(hidden)]
    pub const fn of<E: Element>(
        steps: Option<Steps>,
        source: &'static str,
        module: &'static str,
    ) -> Self {
        Self {
            steps,
            class: E::CLASS,
            source,
            module,
            configure: |setup| Ok(Arc::new(E::configure(setup)?)),
            handlers: || {
                let mut handlers = Handlers::<E>::default();
                E::handlers(&mut handlers);
                handlers.into_vec()
            },
        }
    }

    /// Whether the class processes packets one by one.
    pub fn is_per_packet(&self) -> bool {
        self.steps.is_some()
    }

    /// The manual: the file's `//!` lines without their prefix, in Markdown.
    pub fn manual(&self) -> String {
        let mut manual = String::new();
        for line in self.source.lines().map_while(|line| line.strip_prefix("//!")) {
            manual.push_str(line.strip_prefix(' ').unwrap_or(line));
            manual.push('\n');
        }
        manual
    }

    /// The first line of the manual: what the class does, in a few words.
    pub fn summary(&self) -> &'static str {
        let first = self.source.lines().next().unwrap_or_default();
        first.trim_start_matches("//!").trim().trim_end_matches('.')
    }

    /// The topic: the folder of the class's file.
    pub fn topic(&self) -> &'static str {
        let mut parts = self.module.rsplit("::");
        let _file = parts.next();
        parts.next().unwrap_or(self.module)
    }

    /// The arguments that the class reads when none is given; not all of them, if it stops at the first that is
    /// missing.
    pub fn arguments(&self) -> Vec<Asked> {
        let mut setup = Setup {
            args: Args::of_text("", Scope::builtin()),
            id: 0,
            name: "",
            inputs: 1,
            outputs: 1,
            services: &Services::default(),
            draft: &mut Draft::default(),
            definitions: &mut NameTable::default(),
        };
        // What it says is wrong matters to nobody: there is no element.
        _ = (self.configure)(&mut setup);
        setup.args.into_asked()
    }

    /// The names of the handlers that the class declares, in order.
    pub fn handler_names(&self) -> Vec<(String, bool, bool)> {
        (self.handlers)().iter().map(|h| (h.name.clone(), h.readable(), h.writable())).collect()
    }
}

/// Finds out from the type of an element class whether it processes packets one by one: `Probe::<E>::STEPS`
/// is the constant of this type if the class does, and otherwise that of the trait [`AsABatch`], which must
/// be in scope.
#[doc(hidden)]
pub struct Probe<E>(PhantomData<E>);

impl<E: PerPacket> Probe<E> {
    /// How packets are processed one by one.
    pub const STEPS: Option<Steps> = Some(Steps::of::<E>());
}

/// The result for every other class.
#[doc(hidden)]
pub trait AsABatch {
    /// There is none.
    const STEPS: Option<Steps> = None;
}

impl<E: Element> AsABatch for Probe<E> {}

/// The classes by name.
#[derive(Clone, Default)]
pub struct Registry {
    classes: BTreeMap<&'static str, &'static ClassInfo>,
}

impl Registry {
    /// Every class that is linked into the program.
    pub fn linked() -> Self {
        let mut registry = Self::default();
        CLASSES.iter().for_each(|info| registry.add(info));
        registry
    }

    /// Adds a class; it replaces one with the same name.
    pub fn add(&mut self, info: &'static ClassInfo) {
        self.classes.insert(info.class.name, info);
        self.classes.extend(info.class.aliases.iter().map(|&alias| (alias, info)));
    }

    /// The class with this name or alias.
    pub fn get(&self, name: &str) -> Option<&'static ClassInfo> {
        self.classes.get(name).copied()
    }

    /// Names, including aliases, and classes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static ClassInfo)> {
        self.classes.iter().map(|(&name, &info)| (name, info))
    }
}

/// Adds an element class to the program: `register!(Strip, "strip.rs");`, where the text is the name of the
/// file that contains the line.
#[macro_export]
macro_rules! register {
    ($element:ty, $file:literal) => {
        const _: () = {
            #[$crate::linkme::distributed_slice($crate::CLASSES)]
            #[linkme(crate = $crate::linkme)]
            static CLASS: $crate::ClassInfo = $crate::class_info!($element, include_str!($file));
        };
    };
}

/// The entry of an element class, with the text whose `//!` lines are its manual.
#[macro_export]
macro_rules! class_info {
    ($element:ty, $source:expr) => {{
        #[allow(unused_imports, reason = "used for classes that treat batches")]
        use $crate::registry::AsABatch as _;
        $crate::ClassInfo::of::<$element>(
            $crate::registry::Probe::<$element>::STEPS,
            $source,
            module_path!(),
        )
    }};
}
