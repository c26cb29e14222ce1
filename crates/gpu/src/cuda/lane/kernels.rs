//! Measures the kernels of a lane alone, with their input already on the device.
//!
//! A kernel over some thousand rows takes one or two microseconds, which is less than the host needs to launch it,
//! and uses only a small part of a large device. So each slot has a stream of its own, with a graph of many
//! successive runs, which the host launches with one call.

use std::time::{Duration, Instant};

use super::super::context::{Graph, Stream};
use super::Lane;
use crate::device::slot::{check_batch, next_sequence, write_header};
use crate::device::{DeviceError, DeviceLane, SlotId, Table};

/// Runs per graph.
const CHAIN: u32 = 64;

/// The maximum time of the first run of all graphs.
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
    // The slots belong to the device until all work is done.
    let done = measure(&chains, times);
    if let Err(error) = &done {
        // The memory would be freed by this return while it is in use. In a lost context nothing is in use.
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
    // The requested number of runs is a part of the last graph.
    Ok(start.elapsed().mul_f64(f64::from(times) / f64::from(graphs * CHAIN)))
}

/// A slot's stream and its graph.
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
        // After an error below, no copy may be in flight.
        stream.synchronize()?;
        Ok(Chain { stream, graph })
    };
    (0..count).map(chain).collect()
}

/// Launches every slot's graph this many times, in turns.
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
                return Err(DeviceError::Step("kernels do not end".to_owned()));
            }
            std::hint::spin_loop();
        }
    }
    Ok(())
}
