/* Longest prefix match of an IPv4 address: DIR-24-8 (Gupta, Lin, McKeown, "Routing Lookups in Hardware at Memory
 * Access Speeds", INFOCOM'98). One load for a /24 and shorter, two for longer ones.
 *
 * Slice 0: the address, network order. Result: the hop's number, or NONE. Decision: the hop's output; the table's
 * decision for misses where there is no route, or no whole address.
 *
 * Table: src/table/lpm4.rs.
 */
#ifndef MILLRACE_H
#include "millrace.h"
#endif

#define LPM4_WIDE 2
#define LPM4_GROUPS 3
#define LPM4_HOPS 4
#define LPM4_MISS 5
#define LPM4_FIRST 6
#define LPM4_OUTPUTS 7

/* Entry `index` from word `at` on: 0 where there is no route, hop + 1, or the top bit and a group's number. */
INLINE u32 lpm4_entry(const u32 *table, u32 wide, u32 at, u32 index)
{
    if (wide)
        return load(table + at + index);
    const u32 half = load_half((const u16 *)(table + at) + index);
    return (half & 0x8000u) << 16 | (half & 0x7fffu);
}

KERNEL(lpm4, launch, slot, row)
{
    const u32 *table = table_of(launch, slot);
    const u32 wide = load(table + LPM4_WIDE);
    u32 entry = 0;
    if (valid_bytes(launch, slot, 0, row) >= 4) {
        const u32 address = slice_be32(launch, slot, 0, row, 0);
        entry = lpm4_entry(table, wide, load(table + LPM4_FIRST), address >> 8);
        if (entry & 0x80000000u) {
            const u32 group = entry & 0x7fffffffu;
            entry = lpm4_entry(table, wide, load(table + LPM4_GROUPS), group << 8 | (address & 0xffu));
        }
    }
    const u32 hop = entry - 1;
    set_result(launch, slot, row, hop);
    if (launch->field_mask != 0)
        decide(launch, slot, row, load(table + (entry == 0 ? LPM4_MISS : load(table + LPM4_OUTPUTS) + hop)));
}
