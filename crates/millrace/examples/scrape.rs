//! Measures how long a scrape of `/metrics` takes, and a snapshot, of a router with many elements:
//!
//! ```sh
//! cargo build --release && cargo run --release -p millrace --example scrape -- [ELEMENTS [PROGRAM]]
//! ```
//!
//! ELEMENTS are 1000 unless they are given, and PROGRAM the `millrace` beside this example's folder.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often each is asked for.
const TIMES: usize = 200;

/// A program that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let elements: usize = args.next().map_or(Ok(1000), |text| text.parse())?;
    let beside = std::env::current_exe()?.ancestors().nth(2).map(|folder| folder.join("millrace"));
    let program = args.next().map(PathBuf::from).or(beside).ok_or("which program?")?;
    // Four elements a chain; half of the chains drop what they get.
    let chains = (0..elements.div_ceil(4)).map(|n| {
        let end = if n % 2 == 0 { "Discard" } else { "Queue(10) -> Idle" };
        format!("RatedSource(RATE 1000) -> c{n} :: Counter -> {end};\n")
    });
    let mut child = Command::new(program)
        .args(["run", "--no-table", "--http", "0", "-e", &chains.collect::<String>()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take().ok_or("no standard error")?;
    let _running = Running(child);
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let host = lines
        .find_map(|line| Some(line.strip_prefix("http: http://")?.trim_end_matches('/').to_owned()))
        .ok_or("the router does not start")?;
    // Whoever complains on standard error does not wait.
    std::thread::spawn(move || lines.count());
    for path in ["/metrics", "/api/v1/snapshot"] {
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..TIMES {
            let start = Instant::now();
            bytes = ask(&host, path)?;
            times.push(start.elapsed());
            std::thread::sleep(Duration::from_millis(5));
        }
        times.sort_unstable();
        let at = |share: f64| times[((TIMES - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        println!(
            "{path}: {elements} elements, {} KiB: median {:.2} ms, p90 {:.2} ms, most {:.2} ms",
            bytes / 1024,
            at(0.5),
            at(0.9),
            at(1.0)
        );
    }
    Ok(())
}

/// Asks on a connection of its own; returns the length of the answer.
fn ask(host: &str, path: &str) -> Result<usize, Box<dyn Error>> {
    let mut stream = TcpStream::connect(host)?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    match answer.starts_with(b"HTTP/1.1 200 ") {
        true => Ok(answer.len()),
        false => Err(String::from_utf8_lossy(&answer).into()),
    }
}
