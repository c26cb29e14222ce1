/* First rule of seven fields that holds: decision trees, walked by a thread a packet.
 *
 * Slices: 0 the Ethernet header, 14 bytes; 1 the EtherType in front of the network header, 2 bytes; 2 the network header,
 * 20 bytes; 3 the start of the transport header, 4 bytes. Result: the number of the rule, or NONE. Decision: the
 * rule's action; the table's for packets that satisfy no rule.
 *
 * Table: rules/table.rs of millrace-match; its images: rules/image.rs; the key: rules/key.rs.
 */
#ifndef MILLRACE_H
#include "millrace.h"
#endif

/* Words of the table. */
#define CLASSIFY_ORIGINAL 3
#define CLASSIFY_ADDED 4
#define CLASSIFY_NUMBERS 5
#define CLASSIFY_BEFORE 6
#define CLASSIFY_REMOVED 7
#define CLASSIFY_ACTIONS 8
#define CLASSIFY_MISS 10

/* Words of an image. */
#define CLASSIFY_TREES 4
#define CLASSIFY_NODES 5
#define CLASSIFY_ENTRIES 7
#define CLASSIFY_RULES 9
#define CLASSIFY_ETHER 10
#define CLASSIFY_TREE 16

/* Which fields a packet has: the low byte of the key's word 3. */
#define CLASSIFY_HAS_ETHER 1u
#define CLASSIFY_HAS_TYPE 2u
#define CLASSIFY_HAS_IPV4 4u
#define CLASSIFY_HAS_PORTS 8u

/* Word 7 is 0. Words by name, for an array with a variable index lies in memory. */
struct classify_key {
    u32 w0, w1, w2, w3, w4, w5, w6;
};

INLINE u32 classify_word(const struct classify_key *key, u32 word)
{
    const u32 w01 = word & 1 ? key->w1 : key->w0;
    const u32 w23 = word & 1 ? key->w3 : key->w2;
    const u32 w45 = word & 1 ? key->w5 : key->w4;
    const u32 w67 = word & 1 ? 0 : key->w6;
    const u32 low = word & 2 ? w23 : w01;
    const u32 high = word & 2 ? w67 : w45;
    return word & 4 ? high : low;
}

INLINE struct classify_key classify_read(const struct launch *launch, u8 *slot, u32 row)
{
    struct classify_key key = {0, 0, 0, 0, 0, 0, 0};
    int may_be_ipv4 = 1;
    if (valid_bytes(launch, slot, 0, row) >= 14) {
        const u32 type = valid_bytes(launch, slot, 1, row) >= 2 ? slice_be16(launch, slot, 1, row, 0)
                                                                : slice_be16(launch, slot, 0, row, 12);
        key.w0 = slice_be32(launch, slot, 0, row, 0);
        key.w1 = slice_be32(launch, slot, 0, row, 4);
        key.w2 = slice_be32(launch, slot, 0, row, 8);
        /* What is below is a length. */
        key.w3 = type < 0x0600u ? CLASSIFY_HAS_ETHER : type << 16 | CLASSIFY_HAS_ETHER | CLASSIFY_HAS_TYPE;
        may_be_ipv4 = type == 0x0800u;
    }
    if (may_be_ipv4 && valid_bytes(launch, slot, 2, row) >= 20) {
        const u32 version = slice_byte(launch, slot, 2, row, 0);
        if (version >> 4 == 4 && (version & 0xf) >= 5) {
            const u32 protocol = slice_byte(launch, slot, 2, row, 9);
            key.w3 |= protocol << 8 | CLASSIFY_HAS_IPV4;
            key.w4 = slice_be32(launch, slot, 2, row, 12);
            key.w5 = slice_be32(launch, slot, 2, row, 16);
            if ((protocol == 6 || protocol == 17) && valid_bytes(launch, slot, 3, row) >= 4) {
                key.w3 |= CLASSIFY_HAS_PORTS;
                key.w6 = slice_be32(launch, slot, 3, row, 0);
            }
        }
    }
    return key;
}

INLINE int classify_holds(const u32 *image, const u32 *entry, u32 rule, const struct classify_key *key)
{
    const struct quad nets = load_quad(entry);
    if (((key->w4 ^ nets.x) & nets.y) | ((key->w5 ^ nets.z) & nets.w))
        return 0;
    const struct quad rest = load_quad(entry + 4);
    if (((key->w3 ^ rest.z) & rest.w) || (key->w6 >> 16) - (rest.x >> 16) > (rest.x & 0xffffu) ||
        (key->w6 & 0xffffu) - (rest.y >> 16) > (rest.y & 0xffffu))
        return 0;
    if ((rest.z & 0x80u) == 0)
        return 1;
    const u32 *ether = image + load(image + CLASSIFY_ETHER) + 8 * rule;
    const struct quad first = load_quad(ether);
    const struct quad last = load_quad(ether + 4);
    return (((key->w0 ^ first.x) & first.y) | ((key->w1 ^ first.z) & first.w) | ((key->w2 ^ last.x) & last.y)) == 0;
}

/* The first rule of an image that holds; rules with a bit in `removed`, if that is not 0, do not count. */
INLINE u32 classify_search(const u32 *image, const u32 *removed, const struct classify_key *key)
{
    const u32 trees = load(image + CLASSIFY_TREES);
    const u32 *nodes = image + load(image + CLASSIFY_NODES);
    const u32 *entries = image + load(image + CLASSIFY_ENTRIES);
    const u32 *rules = image + load(image + CLASSIFY_RULES);
    u32 best = NONE;
    for (u32 tree = 0; tree < trees; tree++) {
        if (load(image + CLASSIFY_TREE + 2 * tree + 1) >= best)
            break;
        u32 at = load(image + CLASSIFY_TREE + 2 * tree);
        u32 value;
        for (;;) {
            const u32 step = load(nodes + 2 * at);
            value = load(nodes + 2 * at + 1);
            const u32 next = (step >> 8) + (classify_word(key, step >> 5 & 7) << (step & 31) >= value);
            if (next == at)
                break;
            at = next;
        }
        for (;; value++) {
            const u32 number = load(rules + value);
            const u32 rule = number & 0x7fffffffu;
            if (rule >= best)
                break;
            if (classify_holds(image, entries + 8 * value, rule, key) &&
                (removed == 0 || (load(removed + rule / 32) >> (rule % 32) & 1) == 0)) {
                best = rule;
                break;
            }
            if (number >> 31)
                break;
        }
    }
    return best;
}

KERNEL(classify, launch, slot, row)
{
    const u32 *table = table_of(launch, slot);
    const struct classify_key key = classify_read(launch, slot, row);
    const u32 removed = load(table + CLASSIFY_REMOVED);
    const u32 added = load(table + CLASSIFY_ADDED);
    u32 rule = classify_search(table + load(table + CLASSIFY_ORIGINAL), removed == 0 ? 0 : table + removed, &key);
    if (added != 0) {
        const u32 other = classify_search(table + added, 0, &key);
        if (other != NONE && load(table + load(table + CLASSIFY_BEFORE) + other) <= rule)
            rule = load(table + load(table + CLASSIFY_NUMBERS) + other);
    }
    set_result(launch, slot, row, rule);
    if (launch->field_mask != 0)
        decide(launch, slot, row,
               load(table + (rule == NONE ? CLASSIFY_MISS : load(table + CLASSIFY_ACTIONS) + rule)));
}
