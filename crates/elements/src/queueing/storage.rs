//! The queues whose length an element goes by: RED, PI, Unqueue2.

use std::sync::Arc;

use millrace_core::args::{Kind, Raw};
use millrace_core::element::Init;
use millrace_core::{Args, Refused};

use crate::capability::Storage;

/// Which storages an element uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Names, from the argument QUEUES; `None` means the nearest ones.
    names: Option<Vec<String>>,
}

/// Storages, each with the index of its element.
pub(crate) type Storages = Vec<(usize, Arc<dyn Storage>)>;

impl Sources {
    /// Reads QUEUES; `kind` says whether it can be positional.
    pub(crate) fn configure(args: &mut Args<'_>, kind: Kind) -> Self {
        let text: Option<Raw> = args.read("QUEUES", kind);
        let words = |Raw(text): Raw| text.split_ascii_whitespace().map(str::to_owned).collect();
        Self { names: text.map(words) }
    }

    /// The named storages, or the nearest ones: downstream if packets are pushed on, otherwise upstream.
    pub(crate) fn find(&self, init: &mut Init<'_>) -> Result<Storages, Refused> {
        let Some(names) = &self.names else {
            return Ok(match init.is_pull_output(0) {
                true => init.offered_upstream(0),
                false => init.offered_downstream(0),
            });
        };
        let mut find = |name: &String| {
            let id = init.router().resolve(init.id(), name);
            let id = id.ok_or_else(|| Refused(format!("no element named ‘{name}’")))?;
            Ok((id, init.require(id)?))
        };
        names.iter().map(&mut find).collect()
    }
}
