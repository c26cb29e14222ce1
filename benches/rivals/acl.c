/* DPDK's classifier, librte_acl, on five fields of IPv4.
 *
 *   acl RULES KEYS BURST ALGORITHM [DPDK'S OPTIONS]
 *
 * RULES: ten words a rule, in the machine's order: source address and its prefix's length, destination likewise, first
 * and last source port, destination ports likewise, protocol and its mask. KEYS: struct key. A result is the number of the
 * first rule that holds, from 1 on, or 0. ALGORITHM: default, scalar, sse, avx2, avx512x16, avx512x32.
 */
#include "rival.h"

#include <rte_acl.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>

/* The fields of a packet, in the network's order. */
struct key {
    uint8_t protocol, unused[3];
    uint32_t source, destination;
    uint16_t source_port, destination_port;
};

enum { PROTOCOL, SOURCE, DESTINATION, SOURCE_PORT, DESTINATION_PORT, FIELDS };

RTE_ACL_RULE_DEF(rule, FIELDS);

static const struct rte_acl_field_def fields[FIELDS] = {
    {RTE_ACL_FIELD_TYPE_BITMASK, 1, PROTOCOL, 0, offsetof(struct key, protocol)},
    {RTE_ACL_FIELD_TYPE_MASK, 4, SOURCE, 1, offsetof(struct key, source)},
    {RTE_ACL_FIELD_TYPE_MASK, 4, DESTINATION, 2, offsetof(struct key, destination)},
    /* Both ports are one word of the input. */
    {RTE_ACL_FIELD_TYPE_RANGE, 2, SOURCE_PORT, 3, offsetof(struct key, source_port)},
    {RTE_ACL_FIELD_TYPE_RANGE, 2, DESTINATION_PORT, 3, offsetof(struct key, destination_port)},
};

static struct rte_acl_ctx *context;
static const uint8_t **data;
static size_t keys, burst;

static void treat(uint32_t *results) {
    for (size_t at = 0; at < keys; at += burst) {
        size_t count = keys - at < burst ? keys - at : burst;
        rte_acl_classify(context, data + at, results + at, (uint32_t)count, 1);
    }
}

static void add_rules(const uint32_t *words, size_t count) {
    for (size_t at = 0; at < count; at++, words += 10) {
        struct rule rule = {
            .data = {.category_mask = 1, .priority = (int32_t)(count - at), .userdata = (uint32_t)at + 1},
            .field = {
                [PROTOCOL] = {.value.u8 = (uint8_t)words[8], .mask_range.u8 = (uint8_t)words[9]},
                [SOURCE] = {.value.u32 = words[0], .mask_range.u32 = words[1]},
                [DESTINATION] = {.value.u32 = words[2], .mask_range.u32 = words[3]},
                [SOURCE_PORT] = {.value.u16 = (uint16_t)words[4], .mask_range.u16 = (uint16_t)words[5]},
                [DESTINATION_PORT] = {.value.u16 = (uint16_t)words[6], .mask_range.u16 = (uint16_t)words[7]},
            },
        };
        if (rte_acl_add_rules(context, (struct rte_acl_rule *)&rule, 1))
            FAIL("rte_acl takes no rule %zu", at + 1);
    }
}

static enum rte_acl_classify_alg algorithm(const char *name) {
    static const char *const names[] = {
        [RTE_ACL_CLASSIFY_DEFAULT] = "default",     [RTE_ACL_CLASSIFY_SCALAR] = "scalar",
        [RTE_ACL_CLASSIFY_SSE] = "sse",             [RTE_ACL_CLASSIFY_AVX2] = "avx2",
        [RTE_ACL_CLASSIFY_AVX512X16] = "avx512x16", [RTE_ACL_CLASSIFY_AVX512X32] = "avx512x32",
    };
    for (size_t at = 0; at < RTE_DIM(names); at++)
        if (names[at] && !strcmp(names[at], name))
            return (enum rte_acl_classify_alg)at;
    FAIL("no algorithm %s", name);
}

static size_t allocated(void) {
    struct rte_malloc_socket_stats stats;
    return rte_malloc_get_socket_stats(0, &stats) ? 0 : stats.heap_allocsz_bytes;
}

int main(int argc, char **argv) {
    if (argc < 5)
        FAIL("acl RULES KEYS BURST ALGORITHM [OPTIONS]");
    size_t length;
    const uint32_t *rules = (const uint32_t *)whole_file(argv[1], &length);
    size_t count = length / 40;
    const struct key *read = (const struct key *)whole_file(argv[2], &length);
    keys = length / sizeof *read;
    burst = (size_t)atol(argv[3]);
    const char *name = argv[4];
    enum rte_acl_classify_alg wanted = algorithm(name);
    argv[4] = argv[0];
    if (rte_eal_init(argc - 4, argv + 4) < 0)
        FAIL("DPDK does not start: %s", rte_strerror(rte_errno));
    data = calloc(keys + 1, sizeof *data);
    uint32_t *results = calloc(keys + 1, sizeof *results);
    if (!burst || !data || !results)
        FAIL("no burst, or no memory");
    for (size_t at = 0; at < keys; at++)
        data[at] = (const uint8_t *)&read[at];

    struct rte_acl_param parameters = {
        .name = "rival",
        .socket_id = SOCKET_ID_ANY,
        .rule_size = RTE_ACL_RULE_SZ(FIELDS),
        .max_rule_num = (uint32_t)count,
    };
    context = rte_acl_create(&parameters);
    if (!context)
        FAIL("rte_acl_create: %s", rte_strerror(rte_errno));
    size_t before = allocated();
    uint64_t start = nanoseconds(CLOCK_MONOTONIC);
    add_rules(rules, count);
    struct rte_acl_config config = {.num_categories = 1, .num_fields = FIELDS};
    memcpy(config.defs, fields, sizeof fields);
    int error = rte_acl_build(context, &config);
    if (error)
        FAIL("rte_acl_build: %s", rte_strerror(-error));
    uint64_t took = nanoseconds(CLOCK_MONOTONIC) - start;
    if (rte_acl_set_ctx_classify(context, wanted))
        FAIL("rte_acl has no %s here", name);
    serve(treat, results, keys, took, allocated() - before);
    return 0;
}
