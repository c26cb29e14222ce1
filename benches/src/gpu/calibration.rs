//! Measures the cost of a GPU's bus, of a launch and of a submission, and the best number of threads per text.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use millrace_gpu::cuda::calibrate::calibrate;
use serde_json::json;

use crate::machine::Machine;
use crate::report;

/// The cost of the bus, of a launch and of a submission; needs a GPU
#[derive(clap::Args)]
pub(crate) struct Calibration {
    /// The GPU's number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpu: usize,

    /// The size of copies for measuring the rates, in MiB
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    size: u32,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Calibration {
    /// Measures and reports.
    ///
    /// # Errors
    /// There is no GPU, or it fails.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let found =
            calibrate(self.gpu, (self.size as usize) << 20).map_err(|why| anyhow!("{why}"))?;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let mut rows: Vec<(String, f64)> = [
            ("GB/s to the device", found.to_device / 1e9),
            ("GB/s to the host", found.to_host / 1e9),
            ("GB/s to the device, both ways at once", found.to_device_beside / 1e9),
            ("GB/s to the host, both ways at once", found.to_host_beside / 1e9),
            ("\u{b5}s for a copy of 4 KiB", micros(found.small_copy)),
            ("\u{b5}s for a launch", micros(found.launch)),
            ("\u{b5}s for a launch and its end", micros(found.launch_and_wait)),
            ("\u{b5}s for a submission", micros(found.submit)),
            ("\u{b5}s from submission to the batch's end", micros(found.round_trip)),
        ]
        .map(|(what, value)| (what.to_owned(), value))
        .into();
        for (threads, bits) in &found.threads {
            rows.push((format!("Gb/s of texts searched, {threads} threads a text"), bits / 1e9));
        }
        println!("{}", found.device);
        for (what, value) in &rows {
            println!("{value:10.2}  {what}");
        }
        let json = rows.iter().map(|(what, value)| json!({"what": what, "value": value})).collect();
        let options =
            json!({"suite": "gpu-calibrate", "device": found.device, "bytes": found.bytes});
        report::write(self.json.as_deref(), &Machine::look(), options, json)
    }
}
