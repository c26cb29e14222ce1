//! The values of variables during the expansion of compound elements.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::program::{Compound, Program};
use crate::variables::{Reference, TooLong, expand};

/// The maximum depth of `define`s that use others.
const MAX_DEFINES: usize = 50;

/// The variables of one use of a compound class.
pub(super) struct Scope<'p, 'a> {
    compound: &'p Compound<'a>,
    /// Values of the parameters.
    args: Vec<Rc<str>>,
    /// Values of the defined variables, as far as they have been requested. `None` while one is being
    /// computed.
    defines: RefCell<HashMap<usize, Option<Rc<str>>>>,
    /// At file level: the variables of the command line.
    params: HashMap<&'p str, Rc<str>>,
    /// The scope in which the compound class was declared.
    parent: Option<Rc<Scope<'p, 'a>>>,
}

/// What expansion may still consume.
pub(super) struct Budget {
    /// Bytes left for names and configuration strings.
    pub(super) bytes: Cell<usize>,
    /// True when a `define` leads through too many others.
    pub(super) deep: Cell<bool>,
}

impl Budget {
    /// Consumes this many bytes.
    pub(super) fn take(&self, bytes: usize) -> Result<(), TooLong> {
        let left = self.bytes.get().checked_sub(bytes).ok_or(TooLong)?;
        self.bytes.set(left);
        Ok(())
    }
}

impl<'p, 'a> Scope<'p, 'a> {
    /// The scope of the file.
    pub(super) fn file(
        program: &'p Program<'a>,
        params: &'p [(String, String)],
    ) -> Option<Rc<Self>> {
        let params = params.iter().map(|(name, value)| (name.as_str(), Rc::from(value.as_str())));
        Some(Rc::new(Self {
            compound: program.compounds.first()?,
            args: Vec::new(),
            defines: RefCell::default(),
            params: params.collect(),
            parent: None,
        }))
    }

    /// The scope of a use of `compound` in this scope.
    pub(super) fn enter(
        self: &Rc<Self>,
        compound: &'p Compound<'a>,
        args: Vec<String>,
    ) -> Rc<Self> {
        // Variables are looked up where the compound was written, not where it is used.
        let mut parent = self;
        while parent.compound.depth >= compound.depth
            && let Some(outer) = &parent.parent
        {
            parent = outer;
        }
        Rc::new(Self {
            compound,
            args: args.into_iter().map(Rc::from).collect(),
            defines: RefCell::default(),
            params: HashMap::new(),
            parent: Some(Rc::clone(parent)),
        })
    }

    /// Replaces the variables of a text.
    pub(super) fn expand<'t>(
        &self,
        text: &'t str,
        budget: &Budget,
    ) -> Result<Cow<'t, str>, TooLong> {
        self.expand_nested(text, budget, 0)
    }

    fn expand_nested<'t>(
        &self,
        text: &'t str,
        budget: &Budget,
        depth: usize,
    ) -> Result<Cow<'t, str>, TooLong> {
        if !text.contains('$') {
            return Ok(Cow::from(text));
        }
        let mut too_long = false;
        let expanded = expand(text, budget.bytes.get(), |reference| {
            let (Reference::Name(name) | Reference::Call(name)) = reference;
            match self.value(name, budget, depth) {
                Ok(value) => value.map(|value| Cow::from(value.to_string())),
                Err(TooLong) => {
                    too_long = true;
                    None
                }
            }
        })?;
        if too_long {
            return Err(TooLong);
        }
        if let Cow::Owned(text) = &expanded {
            budget.take(text.len())?;
        }
        Ok(expanded)
    }

    /// The value of a variable; `None` when it has none.
    fn value(&self, name: &str, budget: &Budget, depth: usize) -> Result<Option<Rc<str>>, TooLong> {
        let mut scope = self;
        loop {
            if let Some(value) = scope.params.get(name) {
                return Ok(Some(Rc::clone(value)));
            }
            if let Some(&slot) = scope.compound.variables.get(name) {
                return match slot.checked_sub(scope.compound.keywords.len()) {
                    None => Ok(scope.args.get(slot).cloned()),
                    Some(define) => scope.defined(define, budget, depth),
                };
            }
            match &scope.parent {
                Some(outer) => scope = outer,
                None => return Ok(None),
            }
        }
    }

    /// The value of a variable that this compound class defines. All definitions of a scope apply at the same
    /// time; one that leads back to itself has no value.
    fn defined(
        &self,
        define: usize,
        budget: &Budget,
        depth: usize,
    ) -> Result<Option<Rc<str>>, TooLong> {
        if let Some(value) = self.defines.borrow().get(&define) {
            return Ok(value.clone());
        }
        let Some(text) = self.compound.defines.get(define) else { return Ok(None) };
        if depth >= MAX_DEFINES {
            budget.deep.set(true);
            return Ok(None);
        }
        self.defines.borrow_mut().insert(define, None);
        let value: Rc<str> = Rc::from(&*self.expand_nested(text, budget, depth + 1)?);
        self.defines.borrow_mut().insert(define, Some(Rc::clone(&value)));
        Ok(Some(value))
    }
}
