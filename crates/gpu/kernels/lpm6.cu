/* Longest prefix match of an IPv6 address, in a trie of bytes: a load of 16 bytes for each node or path on the way.
 *
 * Slice 0: the address, network order. Result: the hop's number, or NONE. Decision: the hop's output; the table's
 * decision for misses where there is no route, or no whole address.
 *
 * Table: src/table/lpm6.rs.
 */
#ifndef MILLRACE_H
#include "millrace.h"
#endif

#define LPM6_ROOT 2
#define LPM6_NODES 3
#define LPM6_MISS 5
#define LPM6_PATHS 6
#define LPM6_OUTPUTS 7
#define LPM6_LEAVES 8

#define LPM6_MORE 0x80000000u
#define LPM6_PATH 0x40000000u

/* The entry for an address: 0 where there is no route, or hop + 1. */
INLINE u32 lpm6_entry(const u32 *table, u64 high, u64 low)
{
    const u32 *nodes = table + load(table + LPM6_NODES);
    const u32 *paths = table + load(table + LPM6_PATHS);
    const u32 *leaves = table + load(table + LPM6_LEAVES);
    u32 entry = load(table + load(table + LPM6_ROOT) + (u32)(high >> 48));
    /* What is still to be treated is kept on top. */
    high = high << 16 | low >> 48;
    low <<= 16;
    /* Each step takes a byte at least. */
    for (u32 step = 0; step < 14 && (entry & LPM6_MORE) != 0; step++) {
        const u32 number = entry & ~(LPM6_MORE | LPM6_PATH);
        if (entry & LPM6_PATH) {
            const struct quad path = load_quad(paths + (u64)number * 4);
            if ((((u32)(high >> 32) ^ path.x) & path.y) != 0)
                return path.z;
            const u32 bits = count_ones(path.y);
            entry = path.w;
            high = high << bits | low >> (64 - bits);
            low <<= bits;
        } else {
            /* A child is a node, whose cell is at hand: no entry is loaded. */
            u32 node = number;
            for (; step < 14; step++) {
                const u32 byte = (u32)(high >> 56);
                const struct quad cell = load_quad(nodes + (u64)node * 32 + (byte >> 5) * 4);
                const u32 bit = 1u << (byte & 31);
                high = high << 8 | low >> 56;
                low <<= 8;
                if ((cell.x & bit) == 0) {
                    entry = load(leaves + cell.w + count_ones(cell.y & (bit | (bit - 1))) - 1);
                    break;
                }
                node = cell.z + count_ones(cell.x & (bit - 1));
            }
        }
    }
    return entry;
}

KERNEL(lpm6, launch, slot, row)
{
    const u32 *table = table_of(launch, slot);
    u32 entry = 0;
    if (valid_bytes(launch, slot, 0, row) >= 16) {
        const u64 high = (u64)slice_be32(launch, slot, 0, row, 0) << 32 | slice_be32(launch, slot, 0, row, 4);
        const u64 low = (u64)slice_be32(launch, slot, 0, row, 8) << 32 | slice_be32(launch, slot, 0, row, 12);
        entry = lpm6_entry(table, high, low);
    }
    const u32 hop = entry - 1;
    set_result(launch, slot, row, hop);
    if (launch->field_mask != 0)
        decide(launch, slot, row, load(table + (entry == 0 ? LPM6_MISS : load(table + LPM6_OUTPUTS) + hop)));
}
