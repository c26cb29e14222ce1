//! How an element finds what others offer: by name, along the connections, or in the whole router.

use std::sync::Arc;

use millrace_lang::Diagnostic;

use super::{Init, Inspection, Refused};
use crate::args::ElementLookup;
use crate::capability::{Capability, Offers};
use crate::router::{Router, nearest};

impl Router {
    /// What element `id` offers as a `T`.
    pub fn offered<T: Capability + ?Sized>(&self, id: usize) -> Option<Arc<T>> {
        Offers::find(|offers| ElementLookup::offer(self, id, offers))
    }

    /// The elements that offer a `T`, in the order of the configuration.
    pub fn all_offered<T: Capability + ?Sized>(&self) -> impl Iterator<Item = (usize, Arc<T>)> {
        (0..self.len()).filter_map(|id| Some((id, self.offered(id)?)))
    }

    /// The nearest elements upstream of input `port` of element `id` that offer a `T`, on all ways that packets take to it.
    pub fn offered_upstream<T: Capability + ?Sized>(
        &self,
        id: usize,
        port: usize,
    ) -> Vec<(usize, Arc<T>)> {
        self.nearest_offers((id, port), true)
    }

    /// The nearest elements downstream of output `port` of element `id` that offer a `T`, on all ways that packets take
    /// from it.
    pub fn offered_downstream<T: Capability + ?Sized>(
        &self,
        id: usize,
        port: usize,
    ) -> Vec<(usize, Arc<T>)> {
        self.nearest_offers((id, port), false)
    }

    fn nearest_offers<T: Capability + ?Sized>(
        &self,
        from: (usize, usize),
        upstream: bool,
    ) -> Vec<(usize, Arc<T>)> {
        let ends = nearest(self, from, upstream, |id| self.offered::<T>(id).is_some());
        ends.into_iter().filter_map(|id| Some((id, self.offered(id)?))).collect()
    }
}

impl Inspection<'_> {
    /// What element `id` offers as a `T`.
    pub fn offered<T: Capability + ?Sized>(&self, id: usize) -> Option<Arc<T>> {
        self.router.offered(id)
    }

    /// The nearest elements upstream of this element's input `port` that offer a `T`.
    pub fn offered_upstream<T: Capability + ?Sized>(&self, port: usize) -> Vec<(usize, Arc<T>)> {
        self.router.offered_upstream(self.id, port)
    }
}

/// The number of elements that a message lists.
const MOST_LISTED: usize = 10;
/// The number of mistakes whose messages list elements.
const MOST_HELPED: usize = 100;

impl Init<'_> {
    /// What element `id`, which the configuration names, offers as a `T`.
    ///
    /// # Errors
    /// It offers none. The user reads [`Capability::missing`], and which elements do offer it.
    pub fn require<T: Capability + ?Sized>(&mut self, id: usize) -> Result<Arc<T>, Refused> {
        let router = self.router;
        router.offered(id).ok_or_else(|| {
            let described = |id| format!("‘{} :: {}’", router.name_of(id), router.class_of(id));
            let mut help = format!("{} does not offer {}", described(id), T::NAME);
            // A configuration with very many mistakes is not searched for each.
            if self.findings.len() < MOST_HELPED {
                let mut others = router.all_offered::<T>().map(|(id, _)| described(id));
                let listed: Vec<_> = others.by_ref().take(MOST_LISTED).collect();
                help += &match (listed.is_empty(), others.next()) {
                    (true, _) => "; no element of this configuration does".to_owned(),
                    (false, None) => format!("; these do: {}", listed.join(", ")),
                    (false, Some(_)) => format!("; these and others do: {}", listed.join(", ")),
                };
            }
            let error = Diagnostic::error(None, T::missing(router.name_of(id)));
            self.findings.push(error.help(help));
            Refused(String::new())
        })
    }

    /// The nearest elements upstream of input `port` that offer a `T`, on all ways that packets take to it.
    pub fn offered_upstream<T: Capability + ?Sized>(&self, port: usize) -> Vec<(usize, Arc<T>)> {
        self.router.offered_upstream(self.id, port)
    }

    /// The nearest elements downstream of output `port` that offer a `T`, on all ways that packets take from it.
    pub fn offered_downstream<T: Capability + ?Sized>(&self, port: usize) -> Vec<(usize, Arc<T>)> {
        self.router.offered_downstream(self.id, port)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use millrace_lang::SourceMap;

    use super::*;
    use crate::args::ElementRef;
    use crate::element::{Class, Element, Failed, Setup};
    use crate::run::{Options, check, initialize};
    use crate::{Capability, ClassInfo, Engine, Offers, Registry, class_info};

    trait Gate: Send + Sync {
        fn open(&self);
    }

    impl Capability for dyn Gate {
        const NAME: &'static str = "a gate";
    }

    struct Door(AtomicBool);

    impl Gate for Door {
        fn open(&self) {
            self.0.store(true, Relaxed);
        }
    }

    impl Element for Door {
        const CLASS: Class =
            Class::new("Door", "0/0", "a/a").phase(Class::PHASE_INFO).information();
        type Local = ();

        fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
            setup.args.complete().map(|()| Self(false.into()))
        }

        fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
            offers.provide::<dyn Gate>(self.clone());
        }
    }

    /// Opens a door, and knows whether the door was there when this element was configured.
    struct Porter {
        door: usize,
        early: bool,
    }

    impl Element for Porter {
        const CLASS: Class = Class::new("Porter", "0/0", "a/a").information();
        type Local = ();

        fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
            let ElementRef(door) = setup.args.mandatory("DOOR");
            let early = setup.args.scope().offered::<dyn Gate>(door).is_some();
            setup.args.complete().map(|()| Self { door, early })
        }

        fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
            init.require::<dyn Gate>(self.door).map(|gate| gate.open())
        }
    }

    const CLASSES: [ClassInfo; 2] = [class_info!(Door, ""), class_info!(Porter, "")];

    fn start(config: &str) -> Result<Engine, Vec<Diagnostic>> {
        static INFOS: [ClassInfo; 2] = CLASSES;
        let mut registry = Registry::default();
        INFOS.iter().for_each(|info| registry.add(info));
        let mut map = SourceMap::default();
        let source = map.add("router.click", config);
        let (graph, _) = millrace_lang::compile(&mut map, source, &Default::default());
        let (router, found) = check(&graph, &registry, Options::default());
        initialize(router.ok_or(found)?, 1)
    }

    #[test]
    fn an_element_finds_by_type_what_another_offers() {
        let engine = start("p :: Porter(d); d :: Door").unwrap();
        let router = engine.router();
        let doors: Vec<usize> = router.all_offered::<dyn Gate>().map(|(id, _)| id).collect();
        assert_eq!(doors, [1]);
        assert!(router.element::<Door>(1).unwrap().0.load(Relaxed));
        assert!(router.element::<Porter>(0).unwrap().early);
        assert!(router.offered::<dyn Gate>(0).is_none() && router.offered::<dyn Gate>(9).is_none());
    }

    #[test]
    fn the_error_names_what_is_not_offered_and_who_offers_it() {
        let mut errors = start("p :: Porter(p); d :: Door").err().unwrap();
        let error = errors.pop().unwrap();
        assert_eq!(error.message, "‘p’ does not offer a gate");
        let help = "‘p :: Porter’ does not offer a gate; these do: ‘d :: Door’";
        assert_eq!(error.help.as_deref(), Some(help));
        assert_eq!(error.context.as_deref(), Some("While initializing ‘p :: Porter’"));
        let errors = start("p :: Porter(p)").err().unwrap();
        let help = errors.first().and_then(|error| error.help.as_deref()).unwrap();
        assert!(help.ends_with("no element of this configuration does"), "{help}");
    }
}
