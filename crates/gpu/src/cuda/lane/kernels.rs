//! The kernels of a lane by themselves: what they take when their input lies on the device.
//!
//! A kernel over some thousand rows is over in a microsecond or two, which is less than the host needs to launch it, and keeps a
//! small part of a large device busy. So each slot has a stream of its own, and on it a graph of many runs one behind the other,
//! which the host launches with one call.

use std::time::{Duration, Instant};

use super::super::context::{Graph, Stream};
use super::Lane;
use crate::device::slot::{check_batch, next_sequence, write_header};
use crate::device::{DeviceError, DeviceLane, SlotId, Table};

/// Runs in a graph.
const CHAIN: u32 = 64;

/// How long the first run of all graphs may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// See [`DeviceLane::time_kernels`].
pub(super) fn time(
    lane: &mut Lane,
    rows: usize,
    payload: usize,
    tables: &[Table],
    times: u32,
) -> Result<Duration, DeviceError> {
    let chains = fill(lane, rows, payload, tables)?;
    let Some(resources) = &lane.resources else { return Err(Lane::gone()) };
    // The slots are the device's until everything is done.
    let done = measure(&chains, times);
    if let Err(error) = &done {
        // What is under way would be freed with this return: nothing is, any more, in a context that is lost.
        resources.context().lose(error.to_string());
    }
    done
}

fn measure(chains: &[Chain], times: u32) -> Result<Duration, DeviceError> {
    let graphs = times.div_ceil(CHAIN).max(1);
    run(chains, 1)?;
    wait(chains, PATIENCE)?;
    let start = Instant::now();
    run(chains, graphs)?;
    wait(chains, PATIENCE.saturating_mul(graphs))?;
    // As many as were asked for are a part of the last graph.
    Ok(start.elapsed().mul_f64(f64::from(times) / f64::from(graphs * CHAIN)))
}

/// A slot's stream and what is run on it.
struct Chain {
    stream: Stream,
    graph: Graph,
}

/// Copies all slots to the device, and makes their graphs.
fn fill(
    lane: &mut Lane,
    rows: usize,
    payload: usize,
    tables: &[Table],
) -> Result<Vec<Chain>, DeviceError> {
    let Some(resources) = &lane.resources else { return Err(Lane::gone()) };
    let context = resources.context().clone();
    context.alive()?;
    check_batch(&lane.plan, context.id, lane.tables, rows, payload, tables)?;
    lane.sequence = next_sequence(lane.sequence);
    let sequence = lane.sequence;
    let count = lane.slots.len();
    for id in 0..count {
        let Some(block) = lane.block(SlotId(id)) else {
            return Err(DeviceError::Step(format!("slot {id} is not free")));
        };
        write_header(block, rows, sequence, payload, tables);
    }
    let Some(resources) = &lane.resources else { return Err(Lane::gone()) };
    let chain = |slot| {
        let stream = Stream::new(&context)?;
        let runs = || (0..CHAIN).try_for_each(|_| resources.launch(&stream, slot, rows));
        let graph = stream.capture(runs)?;
        resources.copy_in(&stream, &lane.plan, slot, rows, payload)?;
        // An error further on must not find a copy under way.
        stream.synchronize()?;
        Ok(Chain { stream, graph })
    };
    (0..count).map(chain).collect()
}

/// Launches every slot's graph so many times, in turns.
fn run(chains: &[Chain], times: u32) -> Result<(), DeviceError> {
    for _ in 0..times {
        for Chain { stream, graph } in chains {
            // SAFETY: the slot was filled and is nobody else's until the stream is idle, and the tables are kept by the caller.
            unsafe { stream.run(graph) }?;
        }
    }
    Ok(())
}

fn wait(chains: &[Chain], most: Duration) -> Result<(), DeviceError> {
    let start = Instant::now();
    for Chain { stream, .. } in chains {
        while !stream.is_idle()? {
            if start.elapsed() > most {
                return Err(DeviceError::Step("kernels do not come to an end".to_owned()));
            }
            std::hint::spin_loop();
        }
    }
    Ok(())
}
