//! Tests of the interpreter: what instructions do, and that it detects wrong accesses.

use fastrand::Rng;

use super::machine::run_block;
use super::memory::{Memory, SLOT};
use super::parse::Program;
use crate::kernel::TILE;
use crate::kernel::testing::case::{Grant, Owner};

/// An entry with two parameters, the slot's address and another, and some registers.
fn program(body: &str) -> Result<Program, String> {
    let text = format!(
        ".version 8.0\n.visible .entry test(\n.param .u64 slot,\n.param .u64 other\n)\n{{\n\
         .reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<20>;\n.reg .b64 %d<9>;\n\
         ld.param.u64 %d0, [slot];\n{body}\nret;\n}}\n"
    );
    Program::parse(&text)
}

/// Runs a block over a slot of 64 bytes that all threads share as one row.
fn run_with(body: &str, grant: impl Fn(usize) -> Grant) -> Result<Vec<u8>, String> {
    let grants: Vec<Grant> = (0..64).map(grant).collect();
    let slot = (0..64).collect();
    let mut memory = Memory::of(&[SLOT, 7], slot, &grants, 256);
    run_block(&program(body)?, 0, TILE, &mut memory, &mut Rng::with_seed(1))?;
    Ok(memory.slot().to_vec())
}

fn run(body: &str) -> Result<Vec<u8>, String> {
    run_with(body, |_| Grant { owner: Owner::Row(0), writable: true })
}

/// The value in `%r0` or `%d1` after the instructions, executed by the first thread alone.
fn result(body: &str, wide: bool) -> u64 {
    let (of, register, bytes) = if wide { ("u64", "%d1", 8) } else { ("u32", "%r0", 4) };
    let body = format!(
        "{body}\nmov.u32 %r19, %tid.x;\nsetp.eq.u32 %p8, %r19, 0;\n@%p8 st.global.{of} [%d0], {register};"
    );
    let slot = run(&body).unwrap();
    let mut value = [0; 8];
    value[..bytes].copy_from_slice(&slot[..bytes]);
    u64::from_le_bytes(value)
}

#[test]
fn words() {
    let cases: [(&str, u32); 44] = [
        ("mov.u32 %r0, -1;", u32::MAX),
        ("mov.u32 %r0, 0x1f;", 31),
        ("mov.u32 %r1, 4294967295;\nadd.s32 %r0, %r1, 3;", 2),
        ("mov.u32 %r1, 2;\nsub.s32 %r0, %r1, 3;", u32::MAX),
        ("mov.u32 %r1, 0x10001;\nmul.lo.s32 %r0, %r1, %r1;", 0x2_0001),
        ("mov.u32 %r1, -7;\ndiv.u32 %r0, %r1, 2;", 0x7fff_fffc),
        ("mov.u32 %r1, 23;\nrem.u32 %r0, %r1, 8;", 7),
        ("mov.u32 %r1, -1;\nmin.u32 %r0, %r1, 5;", 5),
        ("mov.u32 %r1, -1;\nmin.s32 %r0, %r1, 5;", u32::MAX),
        ("mov.u32 %r1, -1;\nmax.u32 %r0, %r1, 5;", u32::MAX),
        ("mov.u32 %r1, -1;\nmax.s32 %r0, %r1, 5;", 5),
        ("mov.u32 %r1, 12;\nand.b32 %r0, %r1, 10;", 8),
        ("mov.u32 %r1, 12;\nor.b32 %r0, %r1, 10;", 14),
        ("mov.u32 %r1, 12;\nxor.b32 %r0, %r1, 10;", 6),
        ("mov.u32 %r1, 12;\nnot.b32 %r0, %r1;", !12),
        ("mov.u32 %r1, 12;\nneg.s32 %r0, %r1;", 12_u32.wrapping_neg()),
        // A shift by more than the width gives 0, unlike on the host, where the distance is reduced.
        ("mov.u32 %r1, 5;\nshl.b32 %r0, %r1, 31;", 1 << 31),
        ("mov.u32 %r1, 5;\nshl.b32 %r0, %r1, 32;", 0),
        ("mov.u32 %r1, 5;\nshl.b32 %r0, %r1, 33;", 0),
        ("mov.u32 %r1, -1;\nshr.u32 %r0, %r1, 28;", 15),
        ("mov.u32 %r1, -1;\nshr.u32 %r0, %r1, 64;", 0),
        ("mov.u32 %r1, -16;\nshr.s32 %r0, %r1, 2;", (-4_i32).cast_unsigned()),
        ("mov.u32 %r1, -16;\nshr.s32 %r0, %r1, 40;", u32::MAX),
        ("mov.u32 %r1, 0xf0f0;\npopc.b32 %r0, %r1;", 8),
        ("mov.u32 %r1, 1;\nsetp.ne.s32 %p1, %r1, 0;\nselp.b32 %r0, 4, 9, %p1;", 4),
        ("mov.u32 %r1, 1;\nsetp.eq.s32 %p1, %r1, 0;\nselp.b32 %r0, 4, 9, %p1;", 9),
        ("mov.u32 %r1, -1;\nsetp.lt.s32 %p1, %r1, 1;\nselp.u32 %r0, 1, 0, %p1;", 1),
        ("mov.u32 %r1, -1;\nsetp.lt.u32 %p1, %r1, 1;\nselp.u32 %r0, 1, 0, %p1;", 0),
        ("mov.u32 %r1, 1;\nsetp.le.u32 %p1, %r1, 1;\nselp.u32 %r0, 1, 0, %p1;", 1),
        ("mov.u32 %r1, 1;\nsetp.gt.u32 %p1, %r1, 1;\nselp.u32 %r0, 1, 0, %p1;", 0),
        ("mov.u32 %r1, 1;\nsetp.ge.u32 %p1, %r1, 1;\nselp.u32 %r0, 1, 0, %p1;", 1),
        (
            "mov.u32 %r1, 1;\nsetp.eq.s32 %p1, %r1, 1;\nnot.pred %p2, %p1;\nselp.u32 %r0, 1, 0, %p2;",
            0,
        ),
        (
            "mov.u32 %r1, 1;\nsetp.eq.s32 %p1, %r1, 1;\nmov.pred %p2, 0;\nor.pred %p3, %p1, %p2;\nselp.u32 %r0, 1, 0, %p3;",
            1,
        ),
        (
            "mov.u32 %r1, 1;\nsetp.eq.s32 %p1, %r1, 1;\nmov.pred %p2, -1;\nand.pred %p3, %p1, %p2;\nselp.u32 %r0, 1, 0, %p3;",
            1,
        ),
        // Bytes 3 to 0 of a word, and one of a second; then the sign of a byte.
        ("mov.u32 %r1, 0x33221180;\nprmt.b32 %r0, %r1, 0, 291;", 0x8011_2233),
        ("mov.u32 %r1, 0x33221180;\nprmt.b32 %r0, %r1, 0x44, 0x4321;", 0x4433_2211),
        ("mov.u32 %r1, 0x33221180;\nprmt.b32 %r0, %r1, 0, 0x8888;", u32::MAX),
        ("mov.u32 %r1, 0x12345;\ncvt.u16.u32 %h1, %r1;\ncvt.u32.u16 %r0, %h1;", 0x2345),
        (
            "mov.u32 %r1, 0x80;\ncvt.u16.u32 %h1, %r1;\nnot.b16 %h2, %h1;\ncvt.u32.u16 %r0, %h2;",
            0xff7f,
        ),
        ("ld.global.nc.u16 %h1, [%d0+62];\ncvt.u32.u16 %r0, %h1;", 0x3f3e),
        ("ld.global.u32 %r0, [%d0+4];", 0x0706_0504),
        ("add.s64 %d2, %d0, 12;\nld.global.u32 %r0, [%d2+-8];", 0x0706_0504),
        ("ld.global.nc.v4.u32 {%r1, %r2, %r0, %r4}, [%d0+48];", 0x3b3a_3938),
        (
            "mov.u32 %r0, 8;\nmov.u32 %r1, 1;\nsetp.ne.u32 %p1, %r1, 1;\n@!%p1 bra there;\nmov.u32 %r0, 9;\nthere:",
            8,
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(result(body, false), u64::from(expected), "{body}");
    }
}

#[test]
fn double_words() {
    let cases: [(&str, u64); 14] = [
        ("mov.u64 %d1, -1;", u64::MAX),
        ("mov.u32 %r1, -1;\ncvt.u64.u32 %d1, %r1;", 0xffff_ffff),
        ("mov.u32 %r1, -2;\ncvt.s64.s32 %d1, %r1;", (-2_i64).cast_unsigned()),
        ("mov.u32 %r1, -1;\nmul.wide.u32 %d1, %r1, 16;", 0xf_ffff_fff0),
        ("mov.u64 %d2, 0x100000000;\nmul.lo.s64 %d1, %d2, 3;", 3 << 32),
        ("mov.u64 %d2, 0x123456789a;\ncvt.u32.u64 %r1, %d2;\ncvt.u64.u32 %d1, %r1;", 0x3456_789a),
        ("mov.u64 %d2, 5;\nshl.b64 %d1, %d2, 62;", 1 << 62),
        ("mov.u64 %d2, 5;\nshl.b64 %d1, %d2, 64;", 0),
        ("mov.u64 %d2, -1;\nshr.u64 %d1, %d2, 60;", 15),
        ("mov.u64 %d2, 3;\nmov.u64 %d3, 8;\nor.b64 %d4, %d2, %d3;\nand.b64 %d1, %d4, 10;", 10),
        // Only the requested bits change.
        (
            "mov.u64 %d2, -1;\nmov.u64 %d3, 5;\nbfi.b64 %d1, %d2, %d3, 32, 32;",
            0xffff_ffff_0000_0005,
        ),
        ("mov.u64 %d2, 6;\nmov.u64 %d3, -1;\nbfi.b64 %d1, %d2, %d3, 8, 4;", 0xffff_ffff_ffff_f6ff),
        ("ld.param.u64 %d1, [other];", 7),
        ("ld.param.u32 %d1, [slot+8];", 7),
    ];
    for (body, expected) in cases {
        assert_eq!(result(body, true), expected, "{body}");
    }
}

/// Each thread stores its result at a position of its own.
#[test]
fn an_exchange_is_between_threads_of_a_warp() {
    let body = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, 5;\nmov.u32 %r3, 31;\nmov.u32 %r4, -1;\n\
        shfl.sync.bfly.b32 %r5|%p1, %r1, %r2, %r3, %r4;\n\
        setp.ge.u32 %p2, %r1, 64;\n@%p2 ret;\n\
        cvt.u64.u32 %d1, %r1;\nadd.s64 %d2, %d0, %d1;\ncvt.u16.u32 %h1, %r5;\nst.global.u8 [%d2], %h1;";
    let expected: Vec<u8> = (0..64).map(|thread| thread ^ 5).collect();
    assert_eq!(run(body).unwrap(), expected);
}

const THREAD: &str = "mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, 3;\nsetp.ne.u32 %p2, %r1, 4;";

#[test]
fn wrong_accesses_are_detected() {
    let all = |body: &str| format!("{THREAD}\n{body}");
    let cases = [
        // Beside the slot, and across its end.
        (all("ld.global.u32 %r2, [%d0+64];"), "reads 4 bytes"),
        (all("ld.global.u32 %r2, [%d0+-4];"), "-4 from the slot"),
        (all("ld.global.u8 %h1, [64];"), "reads 1 bytes"),
        (all("@!%p1 st.global.u32 [%d0+64], %r1;"), "writes 4 bytes"),
        (all("ld.param.u64 %d1, [other+4];"), "reads parameters"),
        (all("ld.global.u32 %r2, [%d0+2];"), "unaligned"),
        (all("ld.global.nc.v4.u32 {%r2, %r3, %r4, %r5}, [%d0+8];"), "unaligned"),
        // Several threads, one byte.
        (all("st.global.u32 [%d0], %r1;"), "uses at any time"),
        (
            all("@!%p1 st.global.u8 [%d0], %h1;\n@!%p2 st.global.u16 [%d0], %h1;"),
            "uses at any time",
        ),
        (all("ld.global.u32 %r2, [%d0];\n@!%p1 st.global.u32 [%d0], %r2;"), "at any time"),
        (all("@!%p1 st.global.u32 [%d0], %r2;\nld.global.u8 %h1, [%d0];"), "at any time"),
        // One thread alone, but through the cache.
        (
            all("@%p1 ret;\nld.global.nc.u32 %r2, [%d0];\nst.global.u32 [%d0], %r2;"),
            "read through the cache",
        ),
        (
            all("@%p1 ret;\nst.global.u32 [%d0], %r1;\nld.global.nc.u32 %r2, [%d0];"),
            "through the cache",
        ),
        (
            all(
                "@%p1 ret;\nmov.u32 %r3, 31;\nmov.u32 %r4, -1;\nshfl.sync.bfly.b32 %r5, %r1, 1, %r3, %r4;",
            ),
            "is not there",
        ),
        (
            all("@%p1 bra there;\nbar.warp.sync 0xffffffff;\nthere:\nbar.warp.sync 0xffffffff;"),
            "is not there",
        ),
        (all("bar.warp.sync 0xff;"), "not the whole warp"),
        (all("div.u32 %r2, %r1, 0;"), "divides by 0"),
        ("there:\nbra there;".to_owned(), "hangs"),
        ("lop3.b32 %r1, %r2, %r3, 0xc0;".to_owned(), "no instruction that is known"),
        ("add.f32 %r1, %r2, %r3;".to_owned(), "no type that is known"),
        ("add.s32 %r1, %r2, %r99;".to_owned(), "no register"),
        ("bra nowhere;".to_owned(), "no instruction that is known"),
    ];
    for (body, expected) in cases {
        let error = run(&body).expect_err(&body);
        assert!(error.contains(expected), "{error}: {body}");
    }
}

/// Accesses of threads of a warp to the same bytes are allowed if a synchronisation is between them.
#[test]
fn a_synchronisation_orders_accesses_of_its_warp_only() {
    let write = "bar.warp.sync 0xffffffff;\n@!%p1 st.global.u32 [%d0], %r1;";
    let first = "setp.ge.u32 %p3, %r1, 32;\n@%p3 ret;\nld.global.u32 %r2, [%d0];";
    let slot = run(&format!("{THREAD}\n{first}\n{write}")).unwrap();
    assert_eq!(slot[..4], [3, 0, 0, 0]);
    let all = "ld.global.u32 %r2, [%d0];";
    run(&format!("{THREAD}\n{all}\n{write}")).unwrap_err();
}

/// Bytes without permission cannot be accessed, and read-only bytes cannot be written.
#[test]
fn bytes_without_permission_cannot_be_accessed() {
    let body = "mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 ret;";
    let read = format!("{body}\nld.global.u32 %r2, [%d0+8];");
    let write = format!("{read}\nst.global.u32 [%d0+8], %r2;");
    let of = |owner, writable| move |_| Grant { owner, writable };
    assert!(run_with(&read, of(Owner::Nobody, false)).unwrap_err().contains("of Nobody"));
    assert!(run_with(&read, of(Owner::Row(1), true)).unwrap_err().contains("of Row(1)"));
    run_with(&read, of(Owner::All, false)).unwrap();
    assert!(run_with(&write, of(Owner::All, false)).unwrap_err().contains("writes byte 8"));
    assert!(run_with(&write, of(Owner::Row(0), false)).unwrap_err().contains("writes byte 8"));
    let slot = run_with(&write, of(Owner::Row(0), true)).unwrap();
    assert_eq!(slot, (0..64).collect::<Vec<u8>>());
    // One byte of four is enough.
    let most =
        |at| Grant { owner: if at == 11 { Owner::Nobody } else { Owner::All }, writable: false };
    assert!(run_with(&read, most).unwrap_err().contains("byte 11"));
}

/// The step that ends each batch: it writes the number to the word, after a fence.
#[test]
fn the_last_step_of_a_batch() {
    let text = include_str!("../../../cuda/complete.ptx");
    let program = Program::parse(text).unwrap();
    let grants = vec![Grant { owner: Owner::Row(0), writable: true }; 64];
    let mut memory = Memory::of(&[SLOT, SLOT + 16], (0..64).collect(), &grants, 256);
    // A block of one thread; with more threads, each writes the same word.
    let error = run_block(&program, 0, TILE, &mut memory, &mut Rng::with_seed(1)).unwrap_err();
    assert!(error.contains("at any time"), "{error}");
    assert_eq!(memory.slot()[16..20], [4, 5, 6, 7]);
    let fence = text.find("membar.sys").unwrap();
    assert!(fence < text.find("st.volatile").unwrap() && fence > text.find("ld.global").unwrap());
}
