//! Routers on the CUDA backend, with a driver that works on the processor (`crates/gpu/tests/fake`).

use std::path::Path;

use super::{Done, millrace_command};

#[path = "../../../gpu/tests/fake/mod.rs"]
mod fake;

/// Two threads look routes up until each has had 200 batches from the device, then let all packets through.
const ROUTER: &str = r#"
    g :: GPURuntime(DEVICE auto);
    elementclass Path {
        i :: InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>)
            -> GetIPAddress(16) -> Batcher(256) -> HostToDeviceMemcpy
            -> rt :: GPUIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1.0.0.254 1)
            -> DeviceToHostMemcpy -> q :: GPUCompletionQueue
            -> deb :: Debatcher -> d :: Dispatcher(rt.0, rt.1);
        d [0] -> wrong :: Counter -> Discard;
        d [1] -> Discard;
    }
    a :: Path; b :: Path;
    StaticThreadSched(a/i 0, b/i 1);
    DriverManager(
        label work, wait 20ms,
        goto work $(or $(lt $(a/deb.gpu_batches) 200) $(lt $(b/deb.gpu_batches) 200)),
        write a/i.active false, write b/i.active false,
        label rest, wait 20ms,
        goto rest $(gt $(add $(a/q.length) $(b/q.length)) 0),
        print "wrong $(add $(a/wrong.count) $(b/wrong.count)) backend $(g.backend)",
        print "$(a/deb.failures)", print "$(b/deb.failures)", stop);"#;

fn run(faults: &str) -> Done {
    let folder = tempfile::tempdir().unwrap();
    let gpu = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu");
    fake::build(&gpu, folder.path()).unwrap();
    let router = folder.path().join("router.click");
    std::fs::write(&router, ROUTER).unwrap();
    let mut command = millrace_command();
    command.env("LD_LIBRARY_PATH", folder.path()).env("FAKE_CUDA", faults);
    let done: Done = command.args(["run", "--threads", "2"]).arg(router).output().unwrap().into();
    assert_eq!(done.status, 0, "{faults}: {done:?}");
    assert!(done.stderr.contains("GPU sections run on Fake GPU"), "{faults}: {done:?}");
    assert!(done.stdout.contains("wrong 0 backend cuda"), "{faults}: {done:?}");
    assert!(done.stderr.contains("Every packet is accounted for."), "{faults}: {done:?}");
    assert!(done.stderr.contains(" + 0 held"), "{faults}: {done:?}");
    done
}

/// How often a fault of this kind is counted.
fn count(done: &Done, fault: &str) -> u32 {
    let lines = done.stdout.lines().filter_map(|line| line.strip_prefix(fault));
    lines.filter_map(|rest| rest.trim().parse::<u32>().ok()).sum()
}

#[test]
fn a_router_runs_on_the_driver() {
    let done = run("");
    assert_eq!(count(&done, "lost"), 0, "{done:?}");
}

/// The context breaks under both threads: they go on without it, and come back to it when it was reset.
#[test]
fn a_router_loses_no_packet_with_its_gpu_and_gets_it_back() {
    let done = run("kernel mr_lpm4 20 700");
    assert!(count(&done, "lost") >= 1, "{done:?}");
}

#[test]
fn a_router_continues_while_a_gpu_kernel_hangs() {
    let done = run("hang mr_lpm4 20");
    assert!(count(&done, "timeout") + count(&done, "lost") >= 1, "{done:?}");
}
