/* Hyperscan on literals, in block mode.
 *
 *   hyperscan PATTERNS TEXTS FOLD
 *
 * PATTERNS and TEXTS: each item a word with its length, in the machine's order, and its bytes. FOLD: 1 where `A` to `Z` are the same
 * as `a` to `z`, else 0. A result is the lowest number of a pattern that a text contains, from 1 on, or 0.
 */
#include "rival.h"

#include <hs/hs.h>

struct items {
    const char **bytes;
    size_t *lengths, count;
};

static struct items patterns, texts;
static hs_database_t *database;
static hs_scratch_t *scratch;

static struct items split(const char *path) {
    size_t length, at = 0;
    uint8_t *file = whole_file(path, &length);
    struct items items = {calloc(length / 4 + 1, sizeof(char *)), calloc(length / 4 + 1, sizeof(size_t)), 0};
    if (!items.bytes || !items.lengths)
        FAIL("no memory");
    while (at + 4 <= length) {
        uint32_t size;
        memcpy(&size, file + at, 4);
        items.bytes[items.count] = (const char *)file + at + 4;
        items.lengths[items.count++] = size;
        at += 4 + (size_t)size;
    }
    return items;
}

static int found(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *lowest) {
    (void)from, (void)to, (void)flags;
    if (id < *(uint32_t *)lowest)
        *(uint32_t *)lowest = id;
    /* Nothing is lower than the first pattern: the search may end. */
    return id == 0;
}

static void treat(uint32_t *results) {
    for (size_t at = 0; at < texts.count; at++) {
        uint32_t lowest = UINT32_MAX;
        hs_error_t error =
            hs_scan(database, texts.bytes[at], (unsigned)texts.lengths[at], 0, scratch, found, &lowest);
        if (error != HS_SUCCESS && error != HS_SCAN_TERMINATED)
            FAIL("hs_scan: %d", error);
        results[at] = lowest + 1;
    }
}

int main(int argc, char **argv) {
    if (argc != 4)
        FAIL("hyperscan PATTERNS TEXTS FOLD");
    patterns = split(argv[1]);
    texts = split(argv[2]);
    unsigned *flags = calloc(patterns.count + 1, sizeof *flags);
    unsigned *ids = calloc(patterns.count + 1, sizeof *ids);
    uint32_t *results = calloc(texts.count + 1, sizeof *results);
    if (!flags || !ids || !results)
        FAIL("no memory");
    for (size_t at = 0; at < patterns.count; at++) {
        flags[at] = atoi(argv[3]) ? HS_FLAG_CASELESS : 0;
        ids[at] = (unsigned)at;
    }
    uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    hs_compile_error_t *error = NULL;
    if (hs_compile_lit_multi(patterns.bytes, flags, ids, patterns.lengths, (unsigned)patterns.count,
                             HS_MODE_BLOCK, NULL, &database, &error) != HS_SUCCESS)
        FAIL("hs_compile_lit_multi: %s", error->message);
    if (hs_alloc_scratch(database, &scratch) != HS_SUCCESS)
        FAIL("hs_alloc_scratch");
    uint64_t took = nanoseconds(CLOCK_MONOTONIC) - start;
    size_t bytes = 0;
    hs_database_size(database, &bytes);
    serve(treat, results, texts.count, took, bytes);
    return 0;
}
