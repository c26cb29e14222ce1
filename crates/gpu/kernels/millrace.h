/* What a kernel sees, on a GPU and on the host.
 *
 * A kernel is one C function, written in the common part of C and CUDA C++:
 *
 *     KERNEL(lpm4, launch, slot, row) { ... }
 *
 * Its body treats one row (one packet) of the batch in `slot`. CUDA runs it in blocks of TILE threads, one
 * block a tile; the host calls it in a loop, in any order of blocks and rows. A kernel that lets a block's
 * threads work together says so with the macros for shared memory and barriers below.
 *
 * The layouts are those of `src/kernel.rs`, which a test compares field by field.
 */
#ifndef MILLRACE_H
#define MILLRACE_H

#ifdef __CUDACC_RTC__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#else
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#endif

/* Rows of a tile, and threads of a block. */
#define TILE 256u
#define MAX_INPUTS 6
#define MAX_CONDITIONS 8
#define MAX_TABLES 16
/* The result of a row that the kernel did not treat. */
#define NONE 0xffffffffu

/* At the start of a slot. */
struct header {
    u32 rows;         /* Packets in the batch. */
    u32 sequence;     /* Number of the batch; the last step writes it where the host polls. */
    u32 payload;      /* Bytes of packed payload. */
    u32 reserved;
    u64 table[MAX_TABLES]; /* Addresses of the tables, one for each launch of the plan that has one. */
};

/* A column: row r is at slot + at + (r / TILE) * tile + (r % TILE) * stride. */
struct column {
    u32 at, tile, stride;
};

/* A row is treated when there is no condition, or when one holds: (predicate & mask) == value. */
struct condition {
    u32 mask, value;
};

/* What one launch of a kernel is given beside the slot. */
struct launch {
    struct column input[MAX_INPUTS]; /* Slices, in the order in which the stage asked for them. */
    struct column valid[MAX_INPUTS]; /* u16: how many bytes of each slice the packet has; the rest is zero. */
    struct column offset, length;    /* u32: the row's payload, from `payload` on. */
    struct column predicate, result; /* u32. */
    u32 payload;                     /* Where the packed payload begins in the slot. */
    u32 table;                       /* Which of the header's tables. */
    u32 constants[4];                /* What the kernel's description says. */
    u32 conditions;
    struct condition condition[MAX_CONDITIONS];
    u32 field_shift, field_mask;     /* Where the decision goes in the predicate; mask 0: nowhere. */
};

#endif
