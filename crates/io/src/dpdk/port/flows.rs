//! Which queue a packet goes to: the rules for flows, and the table of the hash.

use std::ffi::{c_char, c_void};
use std::io;
use std::ptr::null_mut;

use super::find::text;
use super::{Flows, Port};
use crate::dpdk::abi::{Flow, FlowAction, FlowItem};
use crate::flow_rule::{Action, FlowRule};

impl Port {
    /// Installs rules. If one is refused, none remains.
    pub(super) fn add_flows(&self, rules: &[(String, FlowRule)]) -> Result<Flows, String> {
        let mut flows = Flows::default();
        for (place, rule) in rules {
            match self.add_flow(rule) {
                Ok(flow) => flows.0.push(flow),
                Err(why) => {
                    self.remove_flows(&mut flows);
                    return Err(format!("{place}: driver {} refuses the rule: {why}", self.driver));
                }
            }
        }
        Ok(flows)
    }

    fn add_flow(&self, rule: &FlowRule) -> Result<*mut c_void, String> {
        let items: Vec<FlowItem> = rule
            .pattern
            .iter()
            .map(|one| FlowItem { kind: one.header as u32, value: one.value, mask: one.mask })
            .collect();
        let action = |action: &Action| match *action {
            Action::Queue(queue) => FlowAction { kind: 1, value: queue.into() },
            Action::Drop => FlowAction { kind: 2, value: 0 },
            Action::Count => FlowAction { kind: 3, value: 0 },
            Action::PassThrough => FlowAction { kind: 4, value: 0 },
        };
        let actions: Vec<FlowAction> = rule.actions.iter().map(action).collect();
        let flow = Flow {
            group: rule.group,
            priority: rule.priority,
            items: items.len() as u32,
            actions: actions.len() as u32,
            item: items.as_ptr(),
            action: actions.as_ptr(),
        };
        let mut reason: [c_char; 256] = [0; 256];
        let mut handle = null_mut();
        // SAFETY: the environment runs; the rule has as many items and actions as it says, which live until the call
        // returns, and the plugin writes at most so many bytes.
        let result = unsafe {
            let add = self.table.add_flow;
            add(self.number, &raw const flow, &raw mut handle, reason.as_mut_ptr(), reason.len())
        };
        match (result, text(&reason)) {
            (0, _) => Ok(handle),
            (error, _) if error == -libc::ENOSYS || error == -libc::ENOTSUP => {
                Err("it has no rules for flows, or none of this kind; IPClassifier does the same on any port".to_owned())
            }
            (error, said) if said.is_empty() => {
                Err(io::Error::from_raw_os_error(error.saturating_neg()).to_string())
            }
            (_, said) => Err(said),
        }
    }

    pub(super) fn remove_flows(&self, flows: &mut Flows) {
        for flow in flows.0.drain(..).rev() {
            // SAFETY: the rule was installed on this port, and is removed once.
            unsafe { (self.table.remove_flow)(self.number, flow) };
        }
    }

    /// The queue of each bucket of the hash table (RETA); empty if there is no table.
    pub fn reta(&self) -> Vec<u16> {
        let mut queues = [0; 512];
        // SAFETY: the environment runs, and the plugin writes at most so many.
        let count =
            unsafe { (self.table.reta)(self.number, queues.as_mut_ptr(), queues.len() as u32) };
        let count = usize::try_from(count).unwrap_or(0);
        queues.get(..count).unwrap_or_default().to_vec()
    }

    /// Sets the queue of each bucket of the hash table.
    ///
    /// # Errors
    /// The driver's.
    pub fn set_reta(&self, queues: &[u16]) -> io::Result<()> {
        // SAFETY: the environment runs, and there are so many.
        let result =
            unsafe { (self.table.set_reta)(self.number, queues.as_ptr(), queues.len() as u32) };
        match result {
            0.. => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}
