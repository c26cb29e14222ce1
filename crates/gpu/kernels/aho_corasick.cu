/* The lowest rule of a pattern set that alerts: the search of crates/match/src/patterns/image, where the table is laid out.
 *
 * Payload: the text. Result: the rule, or NONE. Decision: 1 when a rule alerts, else 0.
 *
 * constants[0]: threads for a text, each for a part of it and what a trigger may reach in from before (1 to 32, a power of
 *               two). The walk is a chain of loads, so that a text takes as long as its longest part.
 * constants[1]: 1 + the slice with the network header, from which the text's protocol is told: 40 bytes, and as many more as
 *               extension headers of IPv6 are to be followed. 0: there is none.
 * constants[2]: the protocol of all texts when there is none: a bit of a rule's `kinds`.
 *
 * A walk does not look for the further contents of a rule whose trigger it finds: it notes the lowest such rules, so that
 * threads stay together, and their contents are searched for at its end. Only if none of them is there and there may be
 * more, the text is walked again. So a rule is verified once in a text at most, and hostile texts cost a walk for each
 * AC_NOTES rules.
 */
#ifndef MILLRACE_H
#include "millrace.h"
#endif

/* Words of the header. */
#define AC_FLAGS 3
#define AC_CLASSES 5
#define AC_CLASS_MAP 7
#define AC_ROWS 8
#define AC_OUTPUT_FROM 9
#define AC_CONTENTS 10
#define AC_RULES 11
#define AC_RULE_COUNT 12
#define AC_LONGEST 13
#define AC_SHORTEST 14

#define AC_ASKS_KIND 2u
#define AC_NOCASE 1u
#define AC_COMPARE 4u
#define AC_CERTAIN 0xffffffffu
#define AC_TCP 1u
#define AC_UDP 2u
#define AC_ICMP 4u
#define AC_OTHER 8u

/* Rules that a walk notes. */
#define AC_NOTES 4u
/* Bytes of a text for which one thread is enough. */
#define AC_LEAST 128u

/* What is searched where. */
struct ac_search {
    const u32 *table;
    const u8 *bytes;
    u32 length;
    u32 kind;
};

/* What a walk has found: the lowest rule that alerts for sure, and the lowest ones that have to be verified, in order. */
struct ac_found {
    u32 sure;
    u32 note[AC_NOTES];
};

/* Whether a content lies at `start`, where there is room for it. */
INLINE int ac_lies_at(const struct ac_search *search, const u32 *content, u32 start)
{
    const u32 length = load(content + 1);
    const u32 nocase = load(content + 2) & AC_NOCASE;
    const u8 *bytes = (const u8 *)(search->table + load(content + 5));
    for (u32 i = 0; i < length; i++) {
        u32 byte = load_byte(search->bytes + start + i);
        if (nocase && byte - 'A' < 26)
            byte += 'a' - 'A';
        if (byte != load_byte(bytes + i))
            return 0;
    }
    return 1;
}

/* Whether a content lies somewhere in its window. */
INLINE int ac_occurs(const struct ac_search *search, const u32 *content)
{
    const u32 length = load(content + 1);
    const u32 most = load(content + 4);
    const u32 end = most < search->length ? most : search->length;
    if (end < length)
        return 0;
    for (u32 start = load(content + 3); start <= end - length; start++)
        if (ac_lies_at(search, content, start))
            return 1;
    return 0;
}

INLINE const u32 *ac_rule(const u32 *table, u32 rule) { return table + load(table + AC_RULES) + (u64)rule * 4; }

INLINE const u32 *ac_content(const u32 *table, u32 content)
{
    return table + load(table + AC_CONTENTS) + (u64)content * 8;
}

/* Whether all contents of a rule but its trigger occur. */
INLINE int ac_verify(const struct ac_search *search, u32 number)
{
    const u32 *rule = ac_rule(search->table, number);
    const u32 first = load(rule), count = load(rule + 1), trigger = load(rule + 3);
    for (u32 i = first; i < first + count; i++)
        if (i != trigger && !ac_occurs(search, ac_content(search->table, i)))
            return 0;
    return 1;
}

INLINE void ac_note(struct ac_found *found, u32 rule)
{
    UNROLL
    for (u32 i = 0; i < AC_NOTES; i++) {
        const u32 noted = found->note[i];
        if (rule == noted)
            return;
        if (rule < noted) {
            found->note[i] = rule;
            rule = noted;
        }
    }
}

/* Goes through the rules whose triggers end before `end`. Those below `floor` are known not to alert. */
INLINE void ac_hit(const struct ac_search *search, struct ac_found *found, u32 state, u32 end, u32 floor)
{
    const u32 *table = search->table;
    const u32 *list = table + load(table + load(table + AC_ROWS) + state + load(table + AC_CLASSES));
    const u32 count = load(list);
    for (u32 i = 0; i < count; i++) {
        const u32 rule = load(list + 1 + 2 * i), trigger = load(list + 2 + 2 * i);
        if (rule >= found->sure)
            return;
        if (rule < floor)
            continue;
        if (trigger == AC_CERTAIN) {
            found->sure = rule;
            return;
        }
        const u32 *content = ac_content(table, trigger);
        const u32 start = end - load(content + 1);
        if ((load(ac_rule(table, rule) + 2) & search->kind) == 0)
            continue;
        if (start < load(content + 3) || end > load(content + 4))
            continue;
        if ((load(content + 2) & AC_COMPARE) != 0 && !ac_lies_at(search, content, start))
            continue;
        if (load(ac_rule(table, rule) + 1) == 1) {
            found->sure = rule;
            return;
        }
        ac_note(found, rule);
    }
}

/* Finds the triggers that end in from .. to, and perhaps some before. */
INLINE void ac_walk(const struct ac_search *search, struct ac_found *found, u32 from, u32 to, u32 floor)
{
    const u32 *table = search->table;
    const u32 *rows = table + load(table + AC_ROWS);
    const u8 *classes = (const u8 *)(table + load(table + AC_CLASS_MAP));
    const u32 output_from = load(table + AC_OUTPUT_FROM);
    const u32 reach = load(table + AC_LONGEST) - 1;
    u32 state = 0;
    /* Sixteen bytes at a time: their classes do not depend on one another and are loaded ahead of the chain. */
    for (u32 at = from > reach ? (from - reach) / 16 * 16 : 0; at < to && found->sure != 0; at += 16) {
        const u32 before = state;
        u32 hit = to - at < 16;
        if (!hit) {
            const struct quad quad = load_quad(search->bytes + at);
            const u32 words[4] = {quad.x, quad.y, quad.z, quad.w};
            u32 column[16];
            UNROLL
            for (u32 i = 0; i < 16; i++)
                column[i] = load_byte(classes + (words[i / 4] >> (i % 4 * 8) & 0xff));
            UNROLL
            for (u32 i = 0; i < 16; i++) {
                state = load(rows + state + column[i]);
                hit |= state >= output_from;
            }
        }
        if (!hit)
            continue;
        /* Once more, byte by byte. */
        state = before;
        for (u32 i = at; i < to && i < at + 16; i++) {
            state = load(rows + state + load_byte(classes + load_byte(search->bytes + i)));
            if (state >= output_from)
                ac_hit(search, found, state, i + 1, floor);
        }
    }
}

/* The protocol that a network header says; extension headers (RFC 8200, section 4) are followed as far as the slice goes. */
INLINE u32 ac_kind(const struct launch *launch, u8 *slot, u32 row)
{
    if (launch->constants[1] == 0 || launch->constants[1] > MAX_INPUTS)
        return launch->constants[2];
    const u32 input = launch->constants[1] - 1;
    const u32 valid = valid_bytes(launch, slot, input, row);
    const u32 stride = launch->input[input].stride;
    const u32 there = valid < stride ? valid : stride;
    if (there < 20)
        return AC_OTHER;
    const u32 version = slice_byte(launch, slot, input, row, 0) >> 4;
    u32 protocol = 59;
    if (version == 4) {
        protocol = slice_byte(launch, slot, input, row, 9);
    } else if (version == 6 && there >= 40) {
        protocol = slice_byte(launch, slot, input, row, 6);
        u32 at = 40;
        for (u32 i = 0; i < MAX_EXTENSIONS; i++) {
            const int options = protocol == 0 || protocol == 43 || protocol == 60;
            const int fragment = protocol == 44, authentication = protocol == 51;
            if (!(options || fragment || authentication))
                break;
            if (at + 8 > there)
                return AC_OTHER;
            const u32 length = slice_byte(launch, slot, input, row, at + 1);
            const u32 later = fragment && slice_be16(launch, slot, input, row, at + 2) >= 8;
            protocol = slice_byte(launch, slot, input, row, at);
            at += options ? (length + 1) * 8 : authentication ? (length + 2) * 4 : 8;
            if (later)
                break;
        }
    }
    switch (protocol) {
    case 6:
        return AC_TCP;
    case 17:
        return AC_UDP;
    case 1:
    case 58:
        return AC_ICMP;
    default:
        return AC_OTHER;
    }
}

SPLIT_KERNEL(aho_corasick, launch, slot, row, lane, lanes)
{
    const u32 *table = table_of(launch, slot);
    const struct text text = payload_of(launch, slot, row);
    if (load(table + AC_RULE_COUNT) == 0 || text.length < load(table + AC_SHORTEST))
        return NONE;
    u32 part = (text.length / lanes + 16) / 16 * 16;
    part = part > AC_LEAST ? part : AC_LEAST;
    if (lane * part >= text.length)
        return NONE;
    const u32 from = lane * part;
    const u32 to = text.length - from > part ? from + part : text.length;
    const u32 kind = (load(table + AC_FLAGS) & AC_ASKS_KIND) != 0 ? ac_kind(launch, slot, row) : AC_OTHER;
    const struct ac_search search = {table, text.bytes, text.length, kind};
    struct ac_found found = {NONE, {NONE, NONE, NONE, NONE}};
    for (u32 floor = 0;;) {
        ac_walk(&search, &found, from, to, floor);
        UNROLL
        for (u32 i = 0; i < AC_NOTES; i++) {
            const u32 rule = found.note[i];
            if (rule >= found.sure)
                return found.sure;
            if (ac_verify(&search, rule))
                return rule;
            floor = rule + 1;
            found.note[i] = NONE;
        }
    }
}

FINISH(aho_corasick, launch, slot, row, lowest)
{
    set_result(launch, slot, row, lowest);
    decide(launch, slot, row, lowest != NONE);
}
