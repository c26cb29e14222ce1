/* What a kernel sees, on a GPU and on the host.
 *
 * A kernel is a function over the rows (packets) of the batch in `slot`, written in the common part of C11 and CUDA
 * C++. Rows do not see one another, so there are no barriers, and any order is right:
 *
 *     KERNEL(lpm4, launch, slot, row) { ... }
 *
 * is called for each row that the launch treats. On CUDA it becomes `mr_lpm4(struct launch, u8 *slot)`, a thread a row;
 * on the host `mr_lpm4(launch, slot, first, rows)`, a loop.
 *
 *     SPLIT_KERNEL(aho_corasick, launch, slot, row, lane, lanes) { ... return lowest; }
 *     FINISH(aho_corasick, launch, slot, row, lowest) { ... }
 *
 * is for long work: `lanes` threads of one warp (constants[0]; a power of two up to 32) treat a part of the row each,
 * and the lowest of what they return is handed to the second function, once a row.
 *
 * Both leave NONE as the result of rows that the launch does not treat, and no result where its column has no stride.
 *
 * Slots and tables begin at multiples of 16 bytes, and can be read to the next multiple behind their end. Columns of u32 and
 * u16 are aligned; slices may lie anywhere. Lengths and offsets of payload are believed only as far as the header's `payload`.
 *
 * A file that is compiled as text stands behind this one (see src/kernel/source.rs), so that it includes nothing.
 * The layouts are those of src/kernel.rs, which a test compares field by field.
 */
#ifndef MILLRACE_H
#define MILLRACE_H

#ifdef __CUDACC__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define INLINE static __device__ __forceinline__ __attribute__((unused))
/* Before a loop whose arrays are to be registers. */
#define UNROLL _Pragma("unroll")
#else
#include <stdint.h>
#include <string.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#define INLINE static inline
#define UNROLL
#endif

/* Rows of a tile, and threads of a block. */
#define TILE 256u
/* Blocks that run on a multiprocessor at once, at least: 64 registers a thread. Unasked, the compiler of CUDA 12.9 and
 * later spills to make room for more. */
#define BLOCKS 4
#define MAX_INPUTS 6
#define MAX_CONDITIONS 8
#define MAX_TABLES 16
/* Most extension headers of IPv6 that are followed. */
#define MAX_EXTENSIONS 16
/* The result of a row that the kernel did not treat, or for which there is none. */
#define NONE 0xffffffffu
/* The decision to drop a packet. */
#define DROP 0xfffffffeu

/* At the start of a slot. */
struct header {
    u32 rows;         /* Packets in the batch. */
    u32 sequence;     /* Number of the batch; the last step writes it where the host polls. */
    u32 payload;      /* Bytes of packed payload. */
    u32 reserved;
    u64 table[MAX_TABLES]; /* Addresses of the tables, one for each launch of the plan that has one. */
};

/* A column: row r is at slot + at + (r / TILE) * tile + (r % TILE) * stride. Stride 0: there is no such column. */
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
    struct column valid[MAX_INPUTS]; /* u16: how many bytes of each slice the packet has; the rest is zero.
                                        No column: all of them. */
    struct column offset, length;    /* u32: the row's payload, from `payload` on. */
    struct column predicate, result; /* u32. */
    u32 payload;                     /* Where the packed payload begins in the slot. */
    u32 table;                       /* Which of the header's tables. */
    u32 constants[4];                /* What the kernel's description says. */
    u32 conditions;
    struct condition condition[MAX_CONDITIONS];
    u32 field_shift, field_mask;     /* The bits of the predicate for the decision (output + 1), in their place, and
                                        the lowest of them; mask 0: nowhere. */
};


/* ---- memory ---- */

/* Four words that are loaded at once. */
struct quad {
    u32 x, y, z, w;
};

/* Loads of what no thread of the launch writes: tables, payload, slices that are only read. `at` is a multiple of 4,
 * for load_quad of 16. */
#ifdef __CUDACC__
INLINE u32 load(const void *at) { return __ldg((const u32 *)at); }
INLINE u32 load_half(const void *at) { return __ldg((const u16 *)at); }
INLINE u32 load_byte(const void *at) { return __ldg((const u8 *)at); }
INLINE struct quad load_quad(const void *at)
{
    const uint4 q = __ldg((const uint4 *)at);
    struct quad quad = {q.x, q.y, q.z, q.w};
    return quad;
}
INLINE u32 swap_bytes(u32 word) { return __byte_perm(word, 0, 0x0123); }
INLINE u32 count_ones(u32 word) { return __popc(word); }
#else
INLINE u32 load(const void *at)
{
    u32 word;
    memcpy(&word, at, sizeof word);
    return word;
}
INLINE u32 load_half(const void *at)
{
    u16 half;
    memcpy(&half, at, sizeof half);
    return half;
}
INLINE u32 load_byte(const void *at) { return *(const u8 *)at; }
INLINE struct quad load_quad(const void *at)
{
    struct quad quad;
    memcpy(&quad, at, sizeof quad);
    return quad;
}
INLINE u32 swap_bytes(u32 word) { return __builtin_bswap32(word); }
/* Without an instruction for it, which not every x86-64 has, the compiler would call a function. */
INLINE u32 count_ones(u32 word)
{
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    return ((word + (word >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}
#endif

/* ---- the batch ---- */

INLINE const struct header *header_of(const u8 *slot) { return (const struct header *)slot; }

INLINE u32 rows_of(const u8 *slot) { return header_of(slot)->rows; }

/* The launch's table; it must have one. */
INLINE const u32 *table_of(const struct launch *launch, const u8 *slot)
{
    return (const u32 *)(size_t)header_of(slot)->table[launch->table % MAX_TABLES];
}

/* A row's place in a column. */
INLINE u8 *cell(const struct column *column, u8 *slot, u32 row)
{
    return slot + column->at + (u64)(row / TILE) * column->tile + (row % TILE) * column->stride;
}

/* How many bytes of slice `input` the packet has; the slice's other bytes are zero. */
INLINE u32 valid_bytes(const struct launch *launch, u8 *slot, u32 input, u32 row)
{
    const struct column *column = &launch->valid[input];
    return column->stride == 0 ? 0xffffu : load_half(cell(column, slot, row));
}

INLINE u32 slice_byte(const struct launch *launch, u8 *slot, u32 input, u32 row, u32 index)
{
    return load_byte(cell(&launch->input[input], slot, row) + index);
}

/* Two bytes of a slice, network order. */
INLINE u32 slice_be16(const struct launch *launch, u8 *slot, u32 input, u32 row, u32 index)
{
    return slice_byte(launch, slot, input, row, index) << 8 | slice_byte(launch, slot, input, row, index + 1);
}

/* Four bytes of a slice, network order. One load if the column is aligned, which is the same for all rows. */
INLINE u32 slice_be32(const struct launch *launch, u8 *slot, u32 input, u32 row, u32 index)
{
    const struct column *column = &launch->input[input];
    if (((column->at + index) | column->tile | column->stride) % 4 == 0)
        return swap_bytes(load(cell(column, slot, row) + index));
    return slice_be16(launch, slot, input, row, index) << 16 | slice_be16(launch, slot, input, row, index + 2);
}

/* A row's payload: where it begins, a multiple of 16 from the slot's start, and its bytes. */
struct text {
    const u8 *bytes;
    u32 length;
};

INLINE struct text payload_of(const struct launch *launch, u8 *slot, u32 row)
{
    const u32 there = header_of(slot)->payload;
    const u32 offset = load(cell(&launch->offset, slot, row));
    const u32 length = load(cell(&launch->length, slot, row));
    const u32 most = offset < there && offset % 16 == 0 ? there - offset : 0;
    struct text text = {slot + launch->payload + (most == 0 ? 0 : offset), length < most ? length : most};
    return text;
}

/* Whether the launch treats this row. */
INLINE int is_active(const struct launch *launch, u8 *slot, u32 row)
{
    if (launch->conditions == 0)
        return 1;
    const u32 predicate = *(const u32 *)cell(&launch->predicate, slot, row);
    for (u32 i = 0; i < launch->conditions && i < MAX_CONDITIONS; i++)
        if ((predicate & launch->condition[i].mask) == launch->condition[i].value)
            return 1;
    return 0;
}

INLINE void set_result(const struct launch *launch, u8 *slot, u32 row, u32 result)
{
    if (launch->result.stride != 0)
        *(u32 *)cell(&launch->result, slot, row) = result;
}

/* Writes the output that a row takes, or DROP, to its predicate. */
INLINE void decide(const struct launch *launch, u8 *slot, u32 row, u32 output)
{
    const u32 mask = launch->field_mask;
    if (mask == 0)
        return;
    u32 *predicate = (u32 *)cell(&launch->predicate, slot, row);
    const u32 field = output == DROP ? mask : (output + 1) << launch->field_shift;
    *predicate = (*predicate & ~mask) | (field & mask);
}

/* How many threads share a row of a split kernel. */
INLINE u32 lanes_of(const struct launch *launch)
{
    const u32 lanes = launch->constants[0];
    return lanes == 0 || lanes > 32 || (lanes & (lanes - 1)) != 0 ? 1 : lanes;
}

/* ---- kernels ---- */

#ifdef __CUDACC__

#define KERNEL(name, launch, slot, row)                                                                               \
    INLINE void name##_row(const struct launch *launch, u8 *slot, u32 row);                                           \
    extern "C" __global__ void __launch_bounds__(TILE, BLOCKS) mr_##name(const __grid_constant__ struct launch l, u8 *s)      \
    {                                                                                                                 \
        const u32 r = blockIdx.x * TILE + threadIdx.x;                                                                \
        if (r >= rows_of(s))                                                                                          \
            return;                                                                                                   \
        if (is_active(&l, s, r))                                                                                      \
            name##_row(&l, s, r);                                                                                     \
        else                                                                                                          \
            set_result(&l, s, r, NONE);                                                                               \
    }                                                                                                                 \
    INLINE void name##_row(const struct launch *launch, u8 *slot, u32 row)

/* A row's threads lie in one warp side by side, so that whole warps take part in the exchange. */
#define SPLIT_KERNEL(name, launch, slot, row, lane, lanes)                                                            \
    INLINE u32 name##_part(const struct launch *launch, u8 *slot, u32 row, u32 lane, u32 lanes);                      \
    INLINE void name##_finish(const struct launch *launch, u8 *slot, u32 row, u32 lowest);                            \
    extern "C" __global__ void __launch_bounds__(TILE, BLOCKS) mr_##name(const __grid_constant__ struct launch l, u8 *s)      \
    {                                                                                                                 \
        const u32 n = lanes_of(&l);                                                                                   \
        const u32 r = (blockIdx.x * TILE + threadIdx.x) / n;                                                          \
        const u32 i = threadIdx.x % n;                                                                                \
        const int here = r < rows_of(s);                                                                              \
        const int treated = here && is_active(&l, s, r);                                                              \
        u32 lowest = treated ? name##_part(&l, s, r, i, n) : NONE;                                                    \
        for (u32 distance = n / 2; distance != 0; distance /= 2) {                                                    \
            const u32 other = __shfl_xor_sync(0xffffffffu, lowest, distance);                                         \
            lowest = other < lowest ? other : lowest;                                                                 \
        }                                                                                                             \
        /* What the others read in `is_active`, the first of them writes: an exchange orders no memory. */            \
        __syncwarp();                                                                                                 \
        if (!here || i != 0)                                                                                          \
            return;                                                                                                   \
        if (treated)                                                                                                  \
            name##_finish(&l, s, r, lowest);                                                                          \
        else                                                                                                          \
            set_result(&l, s, r, NONE);                                                                               \
    }                                                                                                                 \
    INLINE u32 name##_part(const struct launch *launch, u8 *slot, u32 row, u32 lane, u32 lanes)

#else

#define HOST_KERNEL(name, treat)                                                                                      \
    void mr_##name(const struct launch *l, u8 *s, u32 first, u32 rows);                                               \
    void mr_##name(const struct launch *l, u8 *s, u32 first, u32 rows)                                                \
    {                                                                                                                 \
        const u32 all = rows_of(s);                                                                                   \
        const u32 end = first < all && all - first > rows ? first + rows : all;                                       \
        for (u32 r = first; r < end; r++) {                                                                           \
            if (is_active(l, s, r))                                                                                   \
                treat(l, s, r);                                                                                       \
            else                                                                                                      \
                set_result(l, s, r, NONE);                                                                            \
        }                                                                                                             \
    }

#define KERNEL(name, launch, slot, row)                                                                               \
    INLINE void name##_row(const struct launch *launch, u8 *slot, u32 row);                                           \
    HOST_KERNEL(name, name##_row)                                                                                     \
    INLINE void name##_row(const struct launch *launch, u8 *slot, u32 row)

/* The parts come last to first: their order must not matter. */
#define SPLIT_KERNEL(name, launch, slot, row, lane, lanes)                                                            \
    INLINE u32 name##_part(const struct launch *launch, u8 *slot, u32 row, u32 lane, u32 lanes);                      \
    INLINE void name##_finish(const struct launch *launch, u8 *slot, u32 row, u32 lowest);                            \
    INLINE void name##_parts(const struct launch *l, u8 *s, u32 r)                                                    \
    {                                                                                                                 \
        u32 lowest = NONE;                                                                                            \
        for (u32 i = lanes_of(l); i-- > 0;) {                                                                         \
            const u32 part = name##_part(l, s, r, i, lanes_of(l));                                                    \
            lowest = part < lowest ? part : lowest;                                                                   \
        }                                                                                                             \
        name##_finish(l, s, r, lowest);                                                                               \
    }                                                                                                                 \
    HOST_KERNEL(name, name##_parts)                                                                                   \
    INLINE u32 name##_part(const struct launch *launch, u8 *slot, u32 row, u32 lane, u32 lanes)

#endif

#define FINISH(name, launch, slot, row, lowest)                                                                       \
    INLINE void name##_finish(const struct launch *launch, u8 *slot, u32 row, u32 lowest)

#endif
