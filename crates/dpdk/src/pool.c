/*
 * Pools whose mbufs lie behind one another.
 *
 * On ordinary pages DPDK puts no object across the border of two, so each mbuf begins a page of its own. The same
 * line of every mbuf then falls into the same set of the first cache, which holds eight or twelve, and into a few
 * sets of the second: the mbufs of a burst throw each other out, and each pass over them waits for each of them.
 * Where addresses are the same for devices as for us, borders of pages mean nothing to anybody, and mbufs can lie
 * as they do on huge pages, an odd number of lines apart.
 */

#include <stdint.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_memzone.h>

#include "pool.h"

static void free_zone(struct rte_mempool_memhdr *chunk, void *zone)
{
	rte_memzone_free(zone);
}

/* What rte_mempool_populate_default does, in one piece of memory. */
static int populate(struct rte_mempool *pool)
{
	size_t length = (size_t)pool->size * (pool->header_size + pool->elt_size + pool->trailer_size);
	const struct rte_memzone *zone;
	int result;

	zone = rte_memzone_reserve_aligned(pool->name, length, pool->socket_id, 0, RTE_MEMPOOL_ALIGN);
	if (zone == NULL)
		return -rte_errno;
	result = rte_mempool_populate_iova(pool, zone->addr, (uintptr_t)zone->addr, zone->len, free_zone,
					   (void *)(uintptr_t)zone);
	if (result < 0)
		rte_memzone_free(zone);
	return result < 0 ? result : 0;
}

static struct rte_mempool *create_packed(const char *name, unsigned count, unsigned cache, uint16_t private,
					 uint16_t room, int socket)
{
	struct rte_pktmbuf_pool_private own = { .mbuf_data_room_size = room, .mbuf_priv_size = private };
	unsigned length = sizeof(struct rte_mbuf) + private + room;
	struct rte_mempool *pool;
	int result;

	/* The flag is what makes it look at no border. Addresses for devices it has all the same, by `populate`. */
	pool = rte_mempool_create_empty(name, count, length, cache, sizeof(own), socket,
					RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	if (pool == NULL)
		return NULL;
	result = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL);
	if (result == 0) {
		rte_pktmbuf_pool_init(pool, &own);
		result = populate(pool);
	}
	if (result < 0) {
		rte_mempool_free(pool);
		rte_errno = -result;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

struct rte_mempool *millrace_pool_create(const char *name, unsigned count, unsigned cache, uint16_t private,
					 uint16_t room, int socket)
{
	if (rte_eal_has_hugepages() || rte_eal_iova_mode() != RTE_IOVA_VA)
		return rte_pktmbuf_pool_create(name, count, cache, private, room, socket);
	return create_packed(name, count, cache, private, room, socket);
}
