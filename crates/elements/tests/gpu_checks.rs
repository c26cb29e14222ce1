//! What is wrong with a GPU section is said before anything runs, with the place in the configuration.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/router.rs"]
mod router;

use millrace_lang::Diagnostic;
use router::check_text;

/// Configurations with one mistake each: the text, the part of it that the finding points to (the first of its
/// kind), the beginning of what is said, and some of the help.
type Case = (&'static str, &'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    (
        "Idle -> Batcher -> rt :: GPUIPLookup(0/0 0) -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "rt",
        "‘rt :: GPUIPLookup’ is in the wrong place in the GPU section of ‘Batcher@2 :: Batcher’",
        "put HostToDeviceMemcpy before it",
    ),
    (
        "Idle -> Batcher -> b :: Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy
            -> Debatcher -> Discard;",
        "b ::",
        "‘b :: Batcher’ is in the wrong place",
        "one Batcher",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> b :: Balancer -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy
            -> Debatcher -> Discard;",
        "b ::",
        "‘b :: Balancer’ is in the wrong place",
        "put it before HostToDeviceMemcpy",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy
            -> h :: HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "h ::",
        "‘h :: HostToDeviceMemcpy’ is in the wrong place",
        "nothing is copied in between",
    ),
    (
        "h :: HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy -> Debatcher -> Discard;
         Idle -> a :: Batcher -> h; Idle -> b :: Batcher -> h; Idle -> Discard",
        "h; Idle -> D",
        "the GPU sections of ‘a :: Batcher’ and ‘b :: Batcher’ share ‘h :: HostToDeviceMemcpy’",
        "sections cannot share elements",
    ),
    (
        "Idle -> a :: Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> dh :: DeviceToHostMemcpy
            -> Debatcher -> Discard;
         Idle -> b :: Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> dh;",
        "dh;",
        "the GPU sections of ‘a :: Batcher’ and ‘b :: Batcher’ share ‘dh :: DeviceToHostMemcpy’",
        "",
    ),
    (
        "Idle -> b :: Batcher -> HostToDeviceMemcpy -> rt :: GPUIPLookup(1/8 0, 2/8 1) -> DeviceToHostMemcpy
            -> Debatcher -> Discard; rt [1] -> b;",
        "b;",
        "‘b :: Batcher’ is in a loop",
        "",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy
            -> d :: Debatcher -> q :: GPUCompletionQueue -> Discard;",
        "q ::",
        "‘q :: GPUCompletionQueue’ is not in a GPU section",
        "packets leave their section at ‘d :: Debatcher’",
    ),
    (
        "Idle -> h :: HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "h ::",
        "‘h :: HostToDeviceMemcpy’ is not in a GPU section",
        "put a Batcher before it",
    ),
    (
        "a :: GPUIPLookup(0/0 0) -> b :: GPUIPLookup(0/0 0) -> a;",
        "a ::",
        "‘a :: GPUIPLookup’ is not in a GPU section",
        "put a Batcher before it",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> ids :: GPUIPLookup(0/0 0) -> DeviceToHostMemcpy
            -> Debatcher -> Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0, CHK_ANNO ids.1)
            -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "ids.1",
        "‘ids :: GPUIPLookup’ is not an element of this GPU section",
        "no element before this one decides",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> s :: Strip(14) -> GPUIPLookup(0/0 0)
            -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> Discard;",
        "s",
        "‘s :: Strip’ is in the wrong place in the GPU section of ‘Batcher@2 :: Batcher’: only \
         GPU elements may be between HostToDeviceMemcpy and DeviceToHostMemcpy",
        "put it before the Batcher or after the Debatcher",
    ),
    (
        "Idle -> rt :: GPUIPLookup(0/0 0) -> Discard;",
        "rt",
        "‘rt :: GPUIPLookup’ is not in a GPU section",
        "put a Batcher before it",
    ),
    (
        "Idle -> d :: Debatcher -> Discard;",
        "d",
        "‘d :: Debatcher’ is not in a GPU section",
        "",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> q :: GPUCompletionQueue
            -> Debatcher -> Discard;",
        "q",
        "‘q :: GPUCompletionQueue’ is in the wrong place",
        "put DeviceToHostMemcpy before it",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> rt :: GPUIPLookup(1/8 0, 2/8 1);
         rt [0] -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> Discard;
         rt [1] -> other :: DeviceToHostMemcpy -> Debatcher -> Discard;",
        "other",
        "two ends of one GPU section: ‘DeviceToHostMemcpy@5 :: DeviceToHostMemcpy’ and \
         ‘other :: DeviceToHostMemcpy’",
        "connect all branches to one",
    ),
    (
        "Idle -> Batcher -> h :: HostToDeviceMemcpy -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "h",
        "the GPU section of ‘Batcher@2 :: Batcher’ contains no GPU element",
        "",
    ),
    (
        "Idle -> Batcher -> Null -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy
            -> Debatcher -> Discard;",
        "Null",
        "‘Null@3 :: Null’ is in the wrong place in the GPU section of ‘Batcher@2 :: Batcher’: \
         ‘Batcher@2 :: Batcher’ must lead to HostToDeviceMemcpy",
        "",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy
            -> GPUCompletionQueue -> c :: Counter -> Debatcher -> Discard;",
        "c",
        "‘c :: Counter’ is in the wrong place",
        "put a Debatcher before it",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> rt :: GPUIPLookup(0/0 0) -> DeviceToHostMemcpy
            -> Debatcher -> Discard; i :: Idle; i -> rt;",
        "rt;",
        "packets of ‘i :: Idle’ reach ‘rt :: GPUIPLookup’ without passing ‘Batcher@2 :: Batcher’",
        "only through its Batcher",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> a :: GPUIPLookup(1/8 0, 2/8 1)
            -> b :: GPUIPLookup(0/0 0) -> DeviceToHostMemcpy -> Debatcher -> Discard; a [1] -> a;",
        "a;",
        "‘a :: GPUIPLookup’ is in a loop",
        "",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> rt :: GPUIPLookup(0/0 0)
            -> GPUIPLookup(0/0 0, CHK_ANNO rtt.0) -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "rtt.0",
        "no element named ‘rtt’",
        "did you mean ‘rt.0’?",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> rt :: GPUIPLookup(0/0 0, OUTPUTS 3)
            -> GPUIPLookup(0/0 0, CHK_ANNO rt.3) -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "rt.3",
        "‘rt :: GPUIPLookup’ has no output 3: they are 0 to 2",
        "",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0, CHK_ANNO rt.0)
            -> rt :: GPUIPLookup(0/0 0) -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "rt.0",
        "‘rt’ has not decided yet when packets reach",
        "all packets have passed",
    ),
    (
        "i :: Idle -> Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0, CHK_ANNO i.0)
            -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "i.0",
        "‘i :: Idle’ is not an element of this GPU section",
        "",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> ids :: GPUIPLookup(0/0 0) -> DeviceToHostMemcpy
            -> Debatcher -> d :: Dispatcher(idds.0, -); d [0] -> Discard; d [1] -> Discard;",
        "idds.0",
        "no element named ‘idds’",
        "did you mean ‘ids.0’?",
    ),
    (
        "Idle -> d :: Dispatcher -> Discard;",
        "d",
        "packets do not come from a GPU section",
        "after a Debatcher",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> a :: GPUIPLookup(0/0 0) -> b :: GPUIPLookup(0/0 0)
            -> DeviceToHostMemcpy -> Debatcher -> d :: Dispatcher -> Discard;",
        "d",
        "several elements decide something: a, b",
        "as in ‘a.0’",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> a :: GPUIPLookup(0/0 0, OUTPUTS 2)
            -> DeviceToHostMemcpy -> Debatcher -> d :: Dispatcher; d[0] -> Discard; d[1] -> Discard;
         d [2] -> Discard;",
        "d",
        "3 outputs, but ‘a :: GPUIPLookup’ decides between 2",
        "",
    ),
    (
        "Idle -> Batcher -> HostToDeviceMemcpy -> a :: GPUIPLookup(0/0 0, OUTPUTS 1000)
            -> b :: GPUIPLookup(0/0 0, OUTPUTS 1000) -> c :: GPUIPLookup(0/0 0, OUTPUTS 1000)
            -> e :: GPUIPLookup(0/0 0, OUTPUTS 1000) -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "e",
        "‘e :: GPUIPLookup’: needs bits 30 to 39 of the predicate, which has 32",
        "",
    ),
];

#[test]
fn each_mistake_is_said_where_it_is() {
    for (text, place, message, help) in CASES {
        let (router, found) = check_text(text);
        assert!(router.is_none(), "{text}");
        // Lookups in a row are warned of, whatever else is wrong with them.
        let errors: Vec<_> = found.iter().filter(|finding| finding.is_error()).collect();
        let [finding] = errors.as_slice() else { panic!("{text}: {found:#?}") };
        assert!(finding.message.starts_with(message), "{text}: {}", finding.message);
        let given = finding.help.as_deref().unwrap_or_default();
        assert!(given.contains(help), "{text}: {given}");
        let span = finding.span.unwrap();
        let there = &text[span.start as usize..];
        assert!(there.starts_with(place), "{text}: points to {there}");
    }
}

#[test]
fn a_pull_path_to_a_section_is_refused() {
    let (router, found) = check_text(
        "Idle -> q :: Queue -> b :: Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0)
            -> DeviceToHostMemcpy -> Debatcher -> Discard;",
    );
    assert!(router.is_none());
    assert!(found[0].message.contains("pull output 0 connected to ‘b :: Batcher’ push input 0"));
    assert_eq!(found[0].help.as_deref(), Some("put an Unqueue between"));
}

#[test]
fn an_output_of_a_section_that_leads_nowhere_is_refused() {
    let (router, found) = check_text(
        "Idle -> Batcher -> HostToDeviceMemcpy -> rt :: GPUIPLookup(1/8 0, 2/8 1);
         rt [1] -> DeviceToHostMemcpy -> Debatcher -> Discard;",
    );
    assert!(router.is_none());
    assert!(found.iter().any(|finding| finding.message.contains("rt")), "{found:?}");
}

#[test]
fn sections_of_every_shape_are_accepted() {
    for text in [
        "Idle -> Batcher -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy
            -> GPUCompletionQueue -> Debatcher -> Discard;",
        "Idle -> b :: Batcher(8, TIMEOUT 2) -> Balancer(MODE cpu) -> HostToDeviceMemcpy
            -> rt :: GPUIPLookup -> DeviceToHostMemcpy -> Debatcher -> Discard; Idle -> b;",
        // Branches that join.
        "Idle -> Batcher -> HostToDeviceMemcpy -> a :: GPUIPLookup(1/8 0, 2/8 1, 3/8 2);
         a [0] -> b :: GPUIPLookup(0/0 0) -> end :: DeviceToHostMemcpy;
         a [1] -> c :: GPUIPLookup(0/0 0) -> b; a [2] -> end;
         end -> GPUCompletionQueue(4) -> Debatcher -> d :: Dispatcher(a.0, b.7, 3, -);
         d [0] -> Discard; d [1] -> Discard; d [2] -> Discard; d [3] -> Discard;",
        // Two sections, and compounds.
        "elementclass Section { input -> Batcher -> HostToDeviceMemcpy -> rt :: GPUIPLookup(0/0 0)
            -> DeviceToHostMemcpy -> Debatcher -> d :: Dispatcher(rt.0) -> output }
         Idle -> Section -> Section -> Discard; GPURuntime(DEVICE host, STREAMS 2);",
        "Idle -> Batcher -> HostToDeviceMemcpy -> a :: GPUIPLookup(0/0 0)
            -> GPUIP6Lookup(::/0 0, CHK_ANNO a.0) -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        "Idle -> Batcher(SLICE_BEGIN 4, SLICE_END 64, ANN_FLAGS 3, FORCE_PKTLENS true)
            -> HostToDeviceMemcpy -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy -> Debatcher -> Discard;",
    ] {
        let (router, found) = check_text(text);
        // Of a lookup behind a lookup.
        let known = |finding: &Diagnostic| finding.message.contains("gets the annotation as it was");
        assert!(router.is_some() && found.iter().all(known), "{text}: {found:#?}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for (element, message) in [
        ("Batcher(0)", "out of range"),
        ("Batcher(TIMEOUT soon)", "TIMEOUT"),
        ("Batcher(SLICE_BEGIN 10, SLICE_END 8)", "beyond SLICE_BEGIN"),
        ("Batcher(TEST true)", "unknown argument"),
        ("Batcher(ANN_FLAGS 4)", "out of range"),
        ("Balancer(MODE sometimes)", "MODE"),
        ("Balancer(PROBE 80%)", "at most a half"),
        ("Balancer(INTERVAL 0)", "at least 1ms"),
        ("GPUCompletionQueue(0)", "out of range"),
        ("GPURuntime(DEVICE abacus)", "DEVICE"),
        ("GPURuntime(STREAMS 0)", "out of range"),
        ("GPURuntime(WCMEMSZ 5)", "unknown argument"),
        ("GPURuntime(HOSTMEMSZ lots)", "HOSTMEMSZ"),
        ("GPUIPLookup(hello)", "should be"),
        ("GPUIPLookup(1/8 3, OUTPUTS 2)", "bad OUTPUT"),
        ("GPUIPLookup(CHK_ANNO 5)", "CHK_ANNO"),
        ("GPUIP6Lookup(10/8 0)", "should be"),
        ("Dispatcher(32)", "bits 0 to 31"),
        ("Dispatcher(a, b)", "PREDICATE"),
        ("Dispatcher(1, 2)", "2 predicates for 1 output"),
    ] {
        let (router, found) = check_text(&format!("Idle -> {element} -> Discard;"));
        assert!(router.is_none(), "{element}");
        assert!(found.iter().any(|one| one.message.contains(message)), "{element}: {found:#?}");
    }
    let (router, found) = check_text("GPURuntime(DEVICE host); GPURuntime(DEVICE host);");
    assert!(router.is_none());
    assert!(found[0].message.contains("another GPURuntime"), "{found:?}");
}
