/*
 * The functions of DPDK that Millrace calls, behind one table.
 *
 * The same is declared in crates/io/src/dpdk/abi.rs; whoever changes one changes the other and raises
 * MILLRACE_ABI. Functions that can fail give the negative number of an error.
 */

/* For rte_dev_dma_map, which has been there since 19.05 all the same. */
#define ALLOW_EXPERIMENTAL_API
#define _GNU_SOURCE

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

#include "pool.h"

#define MILLRACE_ABI 2

/* A packet's descriptor of ours: an mbuf, and its private area as third line. */
#define PRIVATE_LEN 64

/* The overlay: crates/core/src/memory/descriptor.rs asserts the same numbers of its own fields. */
_Static_assert(sizeof(struct rte_mbuf) == 128, "an mbuf is two cache lines");
_Static_assert(offsetof(struct rte_mbuf, buf_addr) == 0, "buf_addr");
_Static_assert(offsetof(struct rte_mbuf, buf_iova) == 8, "buf_iova");
_Static_assert(offsetof(struct rte_mbuf, data_off) == 16, "data_off");
_Static_assert(offsetof(struct rte_mbuf, refcnt) == 18, "refcnt");
_Static_assert(offsetof(struct rte_mbuf, nb_segs) == 20, "nb_segs");
_Static_assert(offsetof(struct rte_mbuf, port) == 22, "port");
_Static_assert(offsetof(struct rte_mbuf, ol_flags) == 24, "ol_flags");
_Static_assert(offsetof(struct rte_mbuf, packet_type) == 32, "packet_type");
_Static_assert(offsetof(struct rte_mbuf, pkt_len) == 36, "pkt_len");
_Static_assert(offsetof(struct rte_mbuf, data_len) == 40, "data_len");
_Static_assert(offsetof(struct rte_mbuf, vlan_tci) == 42, "vlan_tci");
_Static_assert(offsetof(struct rte_mbuf, hash.rss) == 44, "hash.rss");
_Static_assert(offsetof(struct rte_mbuf, vlan_tci_outer) == 52, "vlan_tci_outer");
_Static_assert(offsetof(struct rte_mbuf, buf_len) == 54, "buf_len");
_Static_assert(offsetof(struct rte_mbuf, pool) == 56, "pool");
_Static_assert(offsetof(struct rte_mbuf, next) == 64, "next");
_Static_assert(offsetof(struct rte_mbuf, tx_offload) == 72, "tx_offload");
_Static_assert(offsetof(struct rte_mbuf, shinfo) == 80, "shinfo");
_Static_assert(offsetof(struct rte_mbuf, priv_size) == 88, "priv_size");
_Static_assert(RTE_MBUF_F_RX_RSS_HASH == 1ULL << 1, "the flag of the RSS hash");
_Static_assert(RTE_MBUF_F_INDIRECT == 1ULL << 62, "the flag of an mbuf that looks at another's buffer");
_Static_assert(RTE_MBUF_F_EXTERNAL == 1ULL << 61, "the flag of an mbuf that looks at memory of others");

enum {
	OFFLOAD_RSS_HASH = 1 << 0,
	OFFLOAD_VLAN_FILTER = 1 << 1,
	OFFLOAD_VLAN_STRIP = 1 << 2,
	OFFLOAD_VLAN_EXTEND = 1 << 3,
	OFFLOAD_FAST_FREE = 1 << 4,
};

struct info {
	char name[64];
	char driver[32];
	uint16_t max_rx_queues;
	uint16_t max_tx_queues;
	uint64_t spreads;
	int32_t node;
	uint32_t max_mtu;
	uint16_t mtu;
	uint8_t mac[6];
	uint32_t offloads;
	uint8_t reads_memory;
	uint8_t reserved[7];
};

struct config {
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t rx_ring;
	uint16_t tx_ring;
	uint16_t mtu;
	uint16_t room;
	uint32_t mbufs;
	uint32_t cache;
	uint32_t offloads;
	uint8_t symmetric;
	uint8_t promiscuous;
	uint8_t rx_interrupts;
	uint8_t set_mac;
	uint8_t mac[6];
	uint8_t pause;
	uint8_t spread;
	int16_t thresholds[6];
	uint16_t rss_queues;
	uint16_t isolate;
	uint16_t reserved[2];
	struct rte_mempool *pool;
	struct rte_mempool *shells;
	const char *failed;
};

struct stats {
	uint64_t received, transmitted, received_bytes, transmitted_bytes;
	uint64_t missed, receive_errors, transmit_errors, no_mbuf;
};

struct link {
	uint32_t speed;
	uint8_t up, full_duplex, autonegotiated, reserved;
};

/* A header of a rule's pattern: its bytes, and the bits of them that matter. */
struct flow_item {
	uint32_t kind;
	uint8_t value[40];
	uint8_t mask[40];
};

struct flow_action {
	uint32_t kind;
	uint32_t value;
};

struct flow {
	uint32_t group, priority, items, actions;
	const struct flow_item *item;
	const struct flow_action *action;
};

struct xstat {
	char name[64];
	uint64_t value;
};

/* ---- Messages ---- */

/* What DPDK said last, as much as fits; the oldest goes first. */
static struct {
	pthread_mutex_t lock;
	char text[16384];
	size_t length;
	int verbose;
} said = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ssize_t hear(void *cookie, const char *text, size_t length)
{
	const size_t room = sizeof(said.text);
	const char *kept = text;
	size_t count = length;

	pthread_mutex_lock(&said.lock);
	if (said.verbose && write(STDERR_FILENO, text, length) < 0) {
		/* There is nobody to tell. */
	}
	if (count > room) {
		kept += count - room;
		count = room;
	}
	if (said.length + count > room) {
		size_t gone = said.length + count - room;
		memmove(said.text, said.text + gone, said.length - gone);
		said.length -= gone;
	}
	memcpy(said.text + said.length, kept, count);
	said.length += count;
	pthread_mutex_unlock(&said.lock);
	return (ssize_t)length;
}

static size_t messages(char *to, size_t room)
{
	size_t count;

	pthread_mutex_lock(&said.lock);
	count = RTE_MIN(room, said.length);
	memcpy(to, said.text + said.length - count, count);
	said.length = 0;
	pthread_mutex_unlock(&said.lock);
	return count;
}

/* ---- The environment ---- */

static void (*released)(void *owner);

/* Whether other processes may share this DPDK: its option --proc-type was given. */
static int several;

/* Some of DPDK's messages, the list of its options among them, go to standard output and error. */
struct diversion {
	int file, output, error;
};

static struct diversion divert(void)
{
	struct diversion own = { memfd_create("dpdk", MFD_CLOEXEC), dup(STDOUT_FILENO), dup(STDERR_FILENO) };

	fflush(NULL);
	if (own.file >= 0 && own.output >= 0 && own.error >= 0) {
		dup2(own.file, STDOUT_FILENO);
		dup2(own.file, STDERR_FILENO);
	}
	return own;
}

static void restore(struct diversion own)
{
	char text[4096];
	ssize_t length;
	off_t at = 0;

	fflush(NULL);
	if (own.output >= 0)
		dup2(own.output, STDOUT_FILENO);
	if (own.error >= 0)
		dup2(own.error, STDERR_FILENO);
	while (own.file >= 0 && (length = pread(own.file, text, sizeof(text), at)) > 0) {
		hear(NULL, text, (size_t)length);
		at += length;
	}
	close(own.file);
	close(own.output);
	close(own.error);
}

static int start(int count, const char *const *options, int verbose, void (*on_release)(void *owner))
{
	static char *arguments[256];
	struct diversion diversion;
	FILE *stream;
	int result;

	if (count >= (int)RTE_DIM(arguments))
		return -E2BIG;
	/* DPDK sorts its arguments. */
	for (int i = 0; i < count; i++) {
		arguments[i] = (char *)(uintptr_t)options[i];
		several |= strncmp(options[i], "--proc-type", strlen("--proc-type")) == 0;
	}
	released = on_release;
	said.verbose = verbose;
	stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = hear });
	if (stream != NULL) {
		setvbuf(stream, NULL, _IONBF, 0);
		rte_openlog_stream(stream);
	}
	diversion = divert();
	result = rte_eal_init(count, arguments);
	restore(diversion);
	/* This thread has a number here and perhaps the same one in another process, and with it a cache in each pool. */
	if (several)
		RTE_PER_LCORE(_lcore_id) = LCORE_ID_ANY;
	return result < 0 ? -(rte_errno ? rte_errno : EIO) : 0;
}

static const char *version(void)
{
	return rte_version();
}

/* Threads that DPDK did not make are registered in one process only: their caches of mbufs are numbered there, and a
 * registered thread makes DPDK refuse other processes. Without it, mbufs come from the shared pool itself. */
static int register_thread(void)
{
	if (several || rte_lcore_id() != LCORE_ID_ANY)
		return 0;
	return rte_thread_register() == 0 ? 1 : -rte_errno;
}

static void unregister_thread(void)
{
	rte_thread_unregister();
}

/* ---- Packet memory ---- */

/* The pools of a NUMA node: one of packets, one of mbufs that point elsewhere. */
struct node {
	struct rte_mempool *packets;
	struct rte_mempool *shells;
};

static struct node nodes[RTE_MAX_NUMA_NODES];

/* The rings that this process uses. */
static struct rte_ring *rings[64];

/* Ports and pools are the primary process's. */
static int is_secondary(void)
{
	return rte_eal_process_type() == RTE_PROC_SECONDARY;
}

static struct rte_mempool *make_pool(const char *what, unsigned node, unsigned count, unsigned cache,
				     unsigned room)
{
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "millrace_%s_%u", what, node);
	if (is_secondary())
		return rte_mempool_lookup(name);
	cache = RTE_MIN(cache, RTE_MIN((unsigned)RTE_MEMPOOL_CACHE_MAX_SIZE, count * 2 / 3));
	return millrace_pool_create(name, count, cache, PRIVATE_LEN, room, SOCKET_ID_ANY == (int)node ?
				    SOCKET_ID_ANY : (int)node);
}

/* The pools of a node, made when they are first needed. */
static int pools_of(int socket, struct config *config)
{
	unsigned node = socket < 0 || socket >= RTE_MAX_NUMA_NODES ? 0 : (unsigned)socket;
	struct node *own = &nodes[node];

	if (own->packets == NULL)
		own->packets = make_pool("packets", node, config->mbufs, config->cache, config->room);
	if (own->packets == NULL)
		return -rte_errno;
	if (rte_pktmbuf_data_room_size(own->packets) < config->room)
		return -EMSGSIZE;
	if (own->shells == NULL) {
		/* Their own buffers hold what rte_pktmbuf_attach_extbuf wants kept. */
		unsigned room = RTE_ALIGN(sizeof(struct rte_mbuf_ext_shared_info), 64);
		own->shells = make_pool("shells", node, 16384, 256, room);
	}
	if (own->shells == NULL)
		return -rte_errno;
	config->pool = own->packets;
	config->shells = own->shells;
	return 0;
}

static unsigned missing(void)
{
	unsigned count = 0;

	/* Those of a secondary process are in use elsewhere. */
	for (unsigned node = 0; node < RTE_DIM(nodes) && !is_secondary(); node++) {
		if (nodes[node].packets != NULL)
			count += rte_mempool_in_use_count(nodes[node].packets);
		if (nodes[node].shells != NULL)
			count += rte_mempool_in_use_count(nodes[node].shells);
	}
	return count;
}

static size_t describe_pool(const struct rte_mempool *pool, char *to, size_t room)
{
	int length;

	if (pool == NULL)
		return 0;
	length = snprintf(to, room, "%s %u %u\n", pool->name, pool->size, rte_mempool_avail_count(pool));
	return length < 0 ? 0 : RTE_MIN((size_t)length, room);
}

static size_t pools(char *to, size_t room)
{
	size_t length = 0;

	for (unsigned node = 0; node < RTE_DIM(nodes); node++) {
		length += describe_pool(nodes[node].packets, to + length, room - length);
		length += describe_pool(nodes[node].shells, to + length, room - length);
	}
	return length;
}

/* What still waits in the rings of a process that ends is for nobody, except in a secondary one, which another may
 * follow. The rings stay: another process may look at them. */
static void drain_rings(void)
{
	void *mbuf;

	for (unsigned i = 0; i < RTE_DIM(rings); i++)
		while (rings[i] != NULL && rte_ring_dequeue(rings[i], &mbuf) == 0)
			rte_pktmbuf_free(mbuf);
}

static unsigned finish(void)
{
	uint16_t port;
	unsigned lost;

	if (!is_secondary()) {
		drain_rings();
		RTE_ETH_FOREACH_DEV(port) {
			rte_eth_dev_stop(port);
			rte_eth_dev_close(port);
		}
	}
	lost = missing();
	if (lost == 0)
		rte_eal_cleanup();
	return lost;
}

static void release(struct rte_mbuf *const *mbufs, unsigned count)
{
	unsigned i = 0;

	while (i < count) {
		struct rte_mempool *pool = mbufs[i]->pool;
		unsigned end = i;

		/* Nobody else looks at them, so those of one segment are as their pool wants them. */
		while (end < count && mbufs[end]->pool == pool && mbufs[end]->nb_segs == 1 &&
		       RTE_MBUF_DIRECT(mbufs[end]))
			end++;
		if (end == i) {
			rte_pktmbuf_free(mbufs[i++]);
			continue;
		}
		rte_mempool_put_bulk(pool, (void *const *)&mbufs[i], end - i);
		i = end;
	}
}

static int read_mbuf(struct rte_mbuf *mbuf, void *to, uint32_t length)
{
	const void *from = rte_pktmbuf_read(mbuf, 0, length, to);

	if (from == NULL)
		return -EINVAL;
	if (from != to)
		memcpy(to, from, length);
	return 0;
}

static void give_back(void *buffer, void *owner)
{
	released(owner);
}

static struct rte_mbuf *attach(struct rte_mempool *shells, void *buffer, uint16_t room, uint16_t offset,
			       uint16_t length, void *owner)
{
	struct rte_mbuf *mbuf = rte_pktmbuf_alloc(shells);
	struct rte_mbuf_ext_shared_info *shared;

	if (mbuf == NULL)
		return NULL;
	shared = mbuf->buf_addr;
	shared->free_cb = give_back;
	shared->fcb_opaque = owner;
	rte_mbuf_ext_refcnt_set(shared, 1);
	/* Memory of ours is handed to devices by its virtual address alone (see map). */
	rte_pktmbuf_attach_extbuf(mbuf, buffer, (uintptr_t)buffer, room, shared);
	mbuf->data_off = offset;
	mbuf->data_len = length;
	mbuf->pkt_len = length;
	return mbuf;
}

static struct rte_mbuf *copy(struct rte_mempool *pool, const void *bytes, uint32_t length)
{
	struct rte_mbuf *mbuf;
	char *to;

	if (length > UINT16_MAX)
		return NULL;
	mbuf = rte_pktmbuf_alloc(pool);
	if (mbuf == NULL)
		return NULL;
	to = rte_pktmbuf_append(mbuf, (uint16_t)length);
	if (to == NULL) {
		rte_pktmbuf_free(mbuf);
		return NULL;
	}
	memcpy(to, bytes, length);
	return mbuf;
}

/* ---- Ports ---- */

static unsigned ports(uint16_t *to, unsigned room)
{
	unsigned count = 0;
	uint16_t port;

	RTE_ETH_FOREACH_DEV(port) {
		if (count < room)
			to[count] = port;
		count++;
	}
	return count;
}

static int find(const char *name)
{
	uint16_t port;
	int result = rte_eth_dev_get_port_by_name(name, &port);

	return result < 0 ? result : port;
}

static const struct {
	uint32_t ours;
	uint64_t theirs;
} receive_offloads[] = {
	{ OFFLOAD_RSS_HASH, RTE_ETH_RX_OFFLOAD_RSS_HASH },
	{ OFFLOAD_VLAN_FILTER, RTE_ETH_RX_OFFLOAD_VLAN_FILTER },
	{ OFFLOAD_VLAN_STRIP, RTE_ETH_RX_OFFLOAD_VLAN_STRIP },
	{ OFFLOAD_VLAN_EXTEND, RTE_ETH_RX_OFFLOAD_VLAN_EXTEND },
};

static int info(uint16_t port, struct info *to)
{
	struct rte_eth_dev_info device;
	struct rte_ether_addr mac;
	const struct rte_bus *bus;
	int result;

	memset(to, 0, sizeof(*to));
	if (!rte_eth_dev_is_valid_port(port))
		return -ENODEV;
	result = rte_eth_dev_info_get(port, &device);
	if (result < 0)
		return result;
	rte_eth_dev_get_name_by_port(port, to->name);
	snprintf(to->driver, sizeof(to->driver), "%s", device.driver_name);
	to->max_rx_queues = device.max_rx_queues;
	to->max_tx_queues = device.max_tx_queues;
	to->spreads = device.flow_type_rss_offloads;
	to->node = rte_eth_dev_socket_id(port);
	to->max_mtu = device.max_mtu;
	rte_eth_dev_get_mtu(port, &to->mtu);
	if (rte_eth_macaddr_get(port, &mac) == 0)
		memcpy(to->mac, mac.addr_bytes, sizeof(to->mac));
	for (unsigned i = 0; i < RTE_DIM(receive_offloads); i++)
		if (device.rx_offload_capa & receive_offloads[i].theirs)
			to->offloads |= receive_offloads[i].ours;
	if (device.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE)
		to->offloads |= OFFLOAD_FAST_FREE;
	bus = device.device == NULL ? NULL : rte_bus_find_by_device(device.device);
	to->reads_memory = bus != NULL && strcmp(rte_bus_name(bus), "vdev") != 0;
	return 0;
}

/* Toeplitz key of period 16 bits, which hashes both directions of a connection alike (Woo and Park, "Scalable
 * TCP Session Monitoring with Symmetric Receive-side Scaling", 2012). */
static uint8_t symmetric_key[64];

static void spread_by_flow(struct rte_eth_conf *conf, const struct rte_eth_dev_info *device,
			   struct config *config)
{
	const uint64_t wanted = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP;
	const uint64_t flows = device->flow_type_rss_offloads & wanted;

	if (config->rx_queues < 2 && !(config->offloads & OFFLOAD_RSS_HASH))
		return;
	config->spread = flows != 0;
	if (flows == 0)
		return;
	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf.rss_hf = flows;
	if (config->symmetric) {
		size_t length = device->hash_key_size ? device->hash_key_size : 40;
		for (size_t i = 0; i < sizeof(symmetric_key); i++)
			symmetric_key[i] = i % 2 ? 0x5a : 0x6d;
		conf->rx_adv_conf.rss_conf.rss_key = symmetric_key;
		conf->rx_adv_conf.rss_conf.rss_key_len = RTE_MIN(length, sizeof(symmetric_key));
	}
}

/* Leaves the queues from `queues` on out of the table that the hash looks the queue up in. */
static int narrow(uint16_t port, const struct rte_eth_dev_info *device, uint16_t queues)
{
	struct rte_eth_rss_reta_entry64 table[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE];

	if (device->reta_size == 0 || device->reta_size > RTE_ETH_RSS_RETA_SIZE_512)
		return -ENOTSUP;
	memset(table, 0, sizeof(table));
	for (unsigned i = 0; i < device->reta_size; i++) {
		struct rte_eth_rss_reta_entry64 *group = &table[i / RTE_ETH_RETA_GROUP_SIZE];
		group->mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
		group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = i % queues;
	}
	return rte_eth_dev_rss_reta_update(port, table, device->reta_size);
}

/* The queue of each bucket of that table; its length, if there is no room for it. */
static int reta(uint16_t port, uint16_t *to, unsigned room)
{
	struct rte_eth_rss_reta_entry64 table[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE];
	struct rte_eth_dev_info device;
	int result = rte_eth_dev_info_get(port, &device);

	if (result < 0)
		return result;
	if (device.reta_size > RTE_ETH_RSS_RETA_SIZE_512)
		return -ENOTSUP;
	if (device.reta_size == 0 || room < device.reta_size)
		return device.reta_size;
	memset(table, 0, sizeof(table));
	for (unsigned i = 0; i < device.reta_size; i++)
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
	result = rte_eth_dev_rss_reta_query(port, table, device.reta_size);
	if (result < 0)
		return result;
	for (unsigned i = 0; i < device.reta_size; i++)
		to[i] = table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	return device.reta_size;
}

static int set_reta(uint16_t port, const uint16_t *from, unsigned count)
{
	struct rte_eth_rss_reta_entry64 table[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE];

	if (count > RTE_ETH_RSS_RETA_SIZE_512)
		return -EINVAL;
	memset(table, 0, sizeof(table));
	for (unsigned i = 0; i < count; i++) {
		struct rte_eth_rss_reta_entry64 *group = &table[i / RTE_ETH_RETA_GROUP_SIZE];
		group->mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
		group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = from[i];
	}
	return rte_eth_dev_rss_reta_update(port, table, (uint16_t)count);
}

static int set_pause(uint16_t port, uint8_t pause)
{
	struct rte_eth_fc_conf conf;
	int result = rte_eth_dev_flow_ctrl_get(port, &conf);

	/* A driver without flow control has nothing to switch off. */
	if (result == -ENOTSUP && pause == 1)
		return 0;
	if (result < 0)
		return result;
	conf.mode = (enum rte_eth_fc_mode[]){ RTE_ETH_FC_NONE, RTE_ETH_FC_RX_PAUSE, RTE_ETH_FC_TX_PAUSE,
					      RTE_ETH_FC_FULL }[(pause - 1) & 3];
	return rte_eth_dev_flow_ctrl_set(port, &conf);
}

static void set_threshold(uint8_t *field, int16_t wanted)
{
	if (wanted >= 0)
		*field = (uint8_t)RTE_MIN(wanted, UINT8_MAX);
}

#define STEP(name, call)                                                                                      \
	do {                                                                                                  \
		int step_result = (call);                                                                     \
		if (step_result < 0) {                                                                        \
			config->failed = (name);                                                              \
			return step_result;                                                                   \
		}                                                                                             \
	} while (0)

static int open_queues(uint16_t port, struct config *config, const struct rte_eth_dev_info *device,
		       const struct rte_eth_conf *conf)
{
	struct rte_eth_rxconf rx = device->default_rxconf;
	struct rte_eth_txconf tx = device->default_txconf;
	int node = rte_eth_dev_socket_id(port);

	rx.offloads = conf->rxmode.offloads;
	set_threshold(&rx.rx_thresh.pthresh, config->thresholds[0]);
	set_threshold(&rx.rx_thresh.hthresh, config->thresholds[1]);
	set_threshold(&rx.rx_thresh.wthresh, config->thresholds[2]);
	tx.offloads = conf->txmode.offloads;
	set_threshold(&tx.tx_thresh.pthresh, config->thresholds[3]);
	set_threshold(&tx.tx_thresh.hthresh, config->thresholds[4]);
	set_threshold(&tx.tx_thresh.wthresh, config->thresholds[5]);
	if (node < 0)
		node = SOCKET_ID_ANY;
	for (uint16_t queue = 0; queue < config->rx_queues; queue++)
		STEP("a receive queue", rte_eth_rx_queue_setup(port, queue, config->rx_ring, (unsigned)node, &rx,
							       config->pool));
	for (uint16_t queue = 0; queue < config->tx_queues; queue++)
		STEP("a transmit queue", rte_eth_tx_queue_setup(port, queue, config->tx_ring, (unsigned)node, &tx));
	return 0;
}

static int open_port(uint16_t port, struct config *config)
{
	struct rte_eth_conf conf;
	struct rte_eth_dev_info device;
	int result;

	config->failed = "";
	memset(&conf, 0, sizeof(conf));
	if (is_secondary()) {
		config->failed = "opening it in a secondary process (--proc-type), for ports are the primary's";
		return -EPERM;
	}
	STEP("asking what it can do", rte_eth_dev_info_get(port, &device));
	STEP("making the packet pool", pools_of(rte_eth_dev_socket_id(port), config));
	spread_by_flow(&conf, &device, config);
	for (unsigned i = 0; i < RTE_DIM(receive_offloads); i++) {
		if (!(config->offloads & receive_offloads[i].ours))
			continue;
		if (device.rx_offload_capa & receive_offloads[i].theirs)
			conf.rxmode.offloads |= receive_offloads[i].theirs;
		else
			config->offloads &= ~receive_offloads[i].ours;
	}
	if (config->offloads & OFFLOAD_FAST_FREE) {
		if (device.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE)
			conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
		else
			config->offloads &= ~(uint32_t)OFFLOAD_FAST_FREE;
	}
	if (config->mtu != 0)
		conf.rxmode.mtu = config->mtu;
	conf.intr_conf.rxq = config->rx_interrupts;

	result = rte_eth_dev_configure(port, config->rx_queues, config->tx_queues, &conf);
	if (result < 0 && config->rx_queues != config->tx_queues) {
		/* Some devices have pairs of queues alone. */
		uint16_t pairs = config->rx_queues ? config->rx_queues : config->tx_queues;
		result = rte_eth_dev_configure(port, pairs, pairs, &conf);
		config->rx_queues = config->tx_queues = pairs;
	}
	STEP("configuring it", result);

	if (config->rx_ring == 0)
		config->rx_ring = device.default_rxportconf.ring_size ? device.default_rxportconf.ring_size : 1024;
	if (config->tx_ring == 0)
		config->tx_ring = device.default_txportconf.ring_size ? device.default_txportconf.ring_size : 1024;
	STEP("choosing ring sizes",
	     rte_eth_dev_adjust_nb_rx_tx_desc(port, &config->rx_ring, &config->tx_ring));
	STEP(config->failed, open_queues(port, config, &device, &conf));
	if (config->set_mac)
		STEP("setting its address",
		     rte_eth_dev_default_mac_addr_set(port, (struct rte_ether_addr *)config->mac));
	if (config->isolate)
		STEP("isolating flows", rte_flow_isolate(port, 1, NULL));
	STEP("starting it", rte_eth_dev_start(port));
	if (config->rss_queues != 0 && config->rss_queues < config->rx_queues)
		STEP("leaving queues out of RSS", narrow(port, &device, config->rss_queues));
	if (config->pause != 0)
		STEP("setting its flow control", set_pause(port, config->pause));
	if (config->promiscuous) {
		result = rte_eth_promiscuous_enable(port);
		if (result < 0)
			config->promiscuous = 0;
	} else {
		rte_eth_promiscuous_disable(port);
	}
	return 0;
}

static int close_port(uint16_t port)
{
	if (rte_eth_promiscuous_get(port) == 1)
		rte_eth_promiscuous_disable(port);
	return rte_eth_dev_stop(port);
}

static int map(uint16_t port, void *base, size_t length, size_t page)
{
	struct rte_eth_dev_info device;
	int result = rte_eth_dev_info_get(port, &device);

	if (result < 0)
		return result;
	if (rte_eal_iova_mode() != RTE_IOVA_VA)
		return -ENOTSUP;
	if (rte_extmem_register(base, length, NULL, 0, page) < 0 && rte_errno != EEXIST)
		return -rte_errno;
	return rte_dev_dma_map(device.device, base, (uintptr_t)base, length) < 0 ? -rte_errno : 0;
}

/* ---- Packets ---- */

static uint16_t receive(uint16_t port, uint16_t queue, struct rte_mbuf **to, uint16_t room)
{
	return rte_eth_rx_burst(port, queue, to, room);
}

static uint16_t transmit(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, mbufs, count);
}

/* ---- Rules for flows ---- */

#define MOST_ITEMS 16

/* Our numbers of headers, in order, with what DPDK calls them and their lengths; its structures begin with the header. */
static const struct {
	enum rte_flow_item_type type;
	size_t length;
} headers[] = {
	{ RTE_FLOW_ITEM_TYPE_END, 0 },   { RTE_FLOW_ITEM_TYPE_ETH, 14 },  { RTE_FLOW_ITEM_TYPE_VLAN, 4 },
	{ RTE_FLOW_ITEM_TYPE_IPV4, 20 }, { RTE_FLOW_ITEM_TYPE_IPV6, 40 }, { RTE_FLOW_ITEM_TYPE_UDP, 8 },
	{ RTE_FLOW_ITEM_TYPE_TCP, 20 },  { RTE_FLOW_ITEM_TYPE_SCTP, 12 }, { RTE_FLOW_ITEM_TYPE_ICMP, 8 },
};

union header {
	struct rte_flow_item_eth eth;
	struct rte_flow_item_vlan vlan;
	struct rte_flow_item_ipv4 ipv4;
	struct rte_flow_item_ipv6 ipv6;
	struct rte_flow_item_udp udp;
	struct rte_flow_item_tcp tcp;
	struct rte_flow_item_sctp sctp;
	struct rte_flow_item_icmp icmp;
};

static const enum rte_flow_action_type action_types[] = {
	RTE_FLOW_ACTION_TYPE_END, RTE_FLOW_ACTION_TYPE_QUEUE, RTE_FLOW_ACTION_TYPE_DROP, RTE_FLOW_ACTION_TYPE_COUNT,
	RTE_FLOW_ACTION_TYPE_PASSTHRU,
};

/* Installs a rule; why not is written to `reason`. */
static int add_flow(uint16_t port, const struct flow *from, void **to, char *reason, size_t room)
{
	union header values[MOST_ITEMS], masks[MOST_ITEMS];
	struct rte_flow_item items[MOST_ITEMS + 1];
	struct rte_flow_action actions[MOST_ITEMS + 1];
	struct rte_flow_action_queue queues[MOST_ITEMS];
	struct rte_flow_action_count count = { 0 };
	struct rte_flow_attr attributes = { .group = from->group, .priority = from->priority, .ingress = 1 };
	static const uint8_t nothing[40];
	struct rte_flow_error error = { 0 };
	struct rte_flow *flow;
	int result;

	if (from->items > MOST_ITEMS || from->actions > MOST_ITEMS)
		return -E2BIG;
	memset(values, 0, sizeof(values));
	memset(masks, 0, sizeof(masks));
	memset(items, 0, sizeof(items));
	memset(actions, 0, sizeof(actions));
	for (uint32_t i = 0; i < from->items; i++) {
		const struct flow_item *item = &from->item[i];

		if (item->kind == 0 || item->kind >= RTE_DIM(headers))
			return -EINVAL;
		items[i].type = headers[item->kind].type;
		if (memcmp(item->mask, nothing, sizeof(nothing)) == 0)
			continue;
		memcpy(&values[i], item->value, headers[item->kind].length);
		memcpy(&masks[i], item->mask, headers[item->kind].length);
		items[i].spec = &values[i];
		items[i].mask = &masks[i];
	}
	items[from->items].type = RTE_FLOW_ITEM_TYPE_END;
	for (uint32_t i = 0; i < from->actions; i++) {
		const struct flow_action *action = &from->action[i];

		if (action->kind == 0 || action->kind >= RTE_DIM(action_types))
			return -EINVAL;
		actions[i].type = action_types[action->kind];
		queues[i].index = (uint16_t)action->value;
		if (actions[i].type == RTE_FLOW_ACTION_TYPE_QUEUE)
			actions[i].conf = &queues[i];
		if (actions[i].type == RTE_FLOW_ACTION_TYPE_COUNT)
			actions[i].conf = &count;
	}
	actions[from->actions].type = RTE_FLOW_ACTION_TYPE_END;
	result = rte_flow_validate(port, &attributes, items, actions, &error);
	flow = result == 0 ? rte_flow_create(port, &attributes, items, actions, &error) : NULL;
	if (flow == NULL) {
		result = result < 0 ? result : -(rte_errno ? rte_errno : EIO);
		snprintf(reason, room, "%s", error.message ? error.message : "");
		return result;
	}
	*to = flow;
	return 0;
}

static int remove_flow(uint16_t port, void *flow)
{
	return rte_flow_destroy(port, flow, NULL);
}

/* ---- Rings ---- */

/* The ring with this name, which is made if there is none; and the pool for packets that must be copied into it. */
static int open_ring(const char *name, unsigned entries, int socket, struct config *config, void **to)
{
	struct rte_ring *ring;
	unsigned i = 0;
	int result = pools_of(socket, config);

	if (result < 0)
		return result;
	ring = rte_ring_lookup(name);
	if (ring == NULL)
		ring = rte_ring_create(name, entries, socket < 0 ? SOCKET_ID_ANY : socket, RING_F_EXACT_SZ);
	/* Another process may have been faster. */
	if (ring == NULL && rte_errno == EEXIST)
		ring = rte_ring_lookup(name);
	if (ring == NULL)
		return -rte_errno;
	while (i < RTE_DIM(rings) && rings[i] != NULL && rings[i] != ring)
		i++;
	if (i == RTE_DIM(rings))
		return -ENOSPC;
	rings[i] = ring;
	*to = ring;
	return (int)rte_ring_get_capacity(ring);
}

static unsigned put(void *ring, struct rte_mbuf **mbufs, unsigned count)
{
	return rte_ring_enqueue_burst(ring, (void *const *)mbufs, count, NULL);
}

static unsigned get(void *ring, struct rte_mbuf **to, unsigned room)
{
	return rte_ring_dequeue_burst(ring, (void **)to, room, NULL);
}

/* ---- What ports tell, and small settings ---- */

static int stats(uint16_t port, struct stats *to)
{
	struct rte_eth_stats all;
	int result = rte_eth_stats_get(port, &all);

	if (result < 0)
		return result;
	*to = (struct stats){
		.received = all.ipackets,
		.transmitted = all.opackets,
		.received_bytes = all.ibytes,
		.transmitted_bytes = all.obytes,
		.missed = all.imissed,
		.receive_errors = all.ierrors,
		.transmit_errors = all.oerrors,
		.no_mbuf = all.rx_nombuf,
	};
	return 0;
}

static int reset_stats(uint16_t port)
{
	return rte_eth_stats_reset(port);
}

static int xstats(uint16_t port, struct xstat *to, unsigned room)
{
	int count = rte_eth_xstats_get_names(port, NULL, 0);
	struct rte_eth_xstat_name *names;
	struct rte_eth_xstat *values;

	if (count <= 0 || room == 0)
		return count;
	names = calloc((size_t)count, sizeof(*names));
	values = calloc((size_t)count, sizeof(*values));
	/* Both give more than there is room for when the driver has got more counters meanwhile. */
	if (names == NULL || values == NULL)
		count = -ENOMEM;
	else if (rte_eth_xstats_get_names(port, names, (unsigned)count) != count ||
		 rte_eth_xstats_get(port, values, (unsigned)count) != count)
		count = -EAGAIN;
	for (unsigned i = 0; count > 0 && i < RTE_MIN((unsigned)count, room); i++) {
		snprintf(to[i].name, sizeof(to[i].name), "%.*s", (int)sizeof(to[i].name) - 1, names[i].name);
		to[i].value = values[i].value;
	}
	free(names);
	free(values);
	return count;
}

static int get_link(uint16_t port, struct link *to)
{
	struct rte_eth_link now;
	int result = rte_eth_link_get_nowait(port, &now);

	if (result < 0)
		return result;
	*to = (struct link){
		.speed = now.link_speed,
		.up = now.link_status,
		.full_duplex = now.link_duplex,
		.autonegotiated = now.link_autoneg,
	};
	return 0;
}

static int set_mtu(uint16_t port, uint16_t mtu)
{
	return rte_eth_dev_set_mtu(port, mtu);
}

static struct rte_ether_addr ether(const uint8_t *mac)
{
	struct rte_ether_addr address;

	memcpy(address.addr_bytes, mac, sizeof(address.addr_bytes));
	return address;
}

static int set_mac(uint16_t port, const uint8_t *mac)
{
	struct rte_ether_addr address = ether(mac);

	return rte_eth_dev_default_mac_addr_set(port, &address);
}

static int add_mac(uint16_t port, const uint8_t *mac)
{
	struct rte_ether_addr address = ether(mac);

	return rte_eth_dev_mac_addr_add(port, &address, 0);
}

static int remove_mac(uint16_t port, const uint8_t *mac)
{
	struct rte_ether_addr address = ether(mac);

	return rte_eth_dev_mac_addr_remove(port, &address);
}

static int waiting(uint16_t port, uint16_t queue)
{
	return rte_eth_rx_queue_count(port, queue);
}

static int interrupt(uint16_t port, uint16_t queue)
{
	return rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue);
}

static int set_interrupt(uint16_t port, uint16_t queue, int on)
{
	return on ? rte_eth_dev_rx_intr_enable(port, queue) : rte_eth_dev_rx_intr_disable(port, queue);
}

/* ---- The table ---- */

struct layout {
	uint32_t table, info, config, stats, link, xstat, mbuf, reserved;
};

struct table {
	uint32_t abi;
	struct layout layout;
	const char *(*version)(void);
	int (*start)(int count, const char *const *options, int verbose, void (*on_release)(void *owner));
	size_t (*messages)(char *to, size_t room);
	unsigned (*finish)(void);
	int (*register_thread)(void);
	void (*unregister_thread)(void);
	unsigned (*ports)(uint16_t *to, unsigned room);
	int (*find)(const char *name);
	int (*info)(uint16_t port, struct info *to);
	int (*open)(uint16_t port, struct config *config);
	int (*close)(uint16_t port);
	int (*map)(uint16_t port, void *base, size_t length, size_t page);
	uint16_t (*receive)(uint16_t port, uint16_t queue, struct rte_mbuf **to, uint16_t room);
	uint16_t (*transmit)(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
	void (*release)(struct rte_mbuf *const *mbufs, unsigned count);
	int (*read)(struct rte_mbuf *mbuf, void *to, uint32_t length);
	struct rte_mbuf *(*attach)(struct rte_mempool *shells, void *buffer, uint16_t room, uint16_t offset,
				   uint16_t length, void *owner);
	struct rte_mbuf *(*copy)(struct rte_mempool *pool, const void *bytes, uint32_t length);
	int (*stats)(uint16_t port, struct stats *to);
	int (*reset_stats)(uint16_t port);
	int (*xstats)(uint16_t port, struct xstat *to, unsigned room);
	int (*link)(uint16_t port, struct link *to);
	int (*set_mtu)(uint16_t port, uint16_t mtu);
	int (*set_mac)(uint16_t port, const uint8_t *mac);
	int (*add_mac)(uint16_t port, const uint8_t *mac);
	int (*remove_mac)(uint16_t port, const uint8_t *mac);
	int (*waiting)(uint16_t port, uint16_t queue);
	int (*interrupt)(uint16_t port, uint16_t queue);
	int (*set_interrupt)(uint16_t port, uint16_t queue, int on);
	size_t (*pools)(char *to, size_t room);
	int (*open_ring)(const char *name, unsigned entries, int socket, struct config *config, void **to);
	unsigned (*put)(void *ring, struct rte_mbuf **mbufs, unsigned count);
	unsigned (*get)(void *ring, struct rte_mbuf **to, unsigned room);
	int (*add_flow)(uint16_t port, const struct flow *from, void **to, char *reason, size_t room);
	int (*remove_flow)(uint16_t port, void *flow);
	int (*reta)(uint16_t port, uint16_t *to, unsigned room);
	int (*set_reta)(uint16_t port, const uint16_t *from, unsigned count);
};

static const struct table table = {
	.abi = MILLRACE_ABI,
	.layout = {
		.table = sizeof(struct table),
		.info = sizeof(struct info),
		.config = sizeof(struct config),
		.stats = sizeof(struct stats),
		.link = sizeof(struct link),
		.xstat = sizeof(struct xstat),
		.mbuf = sizeof(struct rte_mbuf) + PRIVATE_LEN,
	},
	.version = version,
	.start = start,
	.messages = messages,
	.finish = finish,
	.register_thread = register_thread,
	.unregister_thread = unregister_thread,
	.ports = ports,
	.find = find,
	.info = info,
	.open = open_port,
	.close = close_port,
	.map = map,
	.receive = receive,
	.transmit = transmit,
	.release = release,
	.read = read_mbuf,
	.attach = attach,
	.copy = copy,
	.stats = stats,
	.reset_stats = reset_stats,
	.xstats = xstats,
	.link = get_link,
	.set_mtu = set_mtu,
	.set_mac = set_mac,
	.add_mac = add_mac,
	.remove_mac = remove_mac,
	.waiting = waiting,
	.interrupt = interrupt,
	.set_interrupt = set_interrupt,
	.pools = pools,
	.open_ring = open_ring,
	.put = put,
	.get = get,
	.add_flow = add_flow,
	.remove_flow = remove_flow,
	.reta = reta,
	.set_reta = set_reta,
};

const struct table *millrace_dpdk_shim(void);

const struct table *millrace_dpdk_shim(void)
{
	return &table;
}
