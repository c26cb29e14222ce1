/* Pools of mbufs. */

#ifndef MILLRACE_POOL_H
#define MILLRACE_POOL_H

#include <rte_mempool.h>

/* As rte_pktmbuf_pool_create, but mbufs lie behind one another on ordinary pages too. */
struct rte_mempool *millrace_pool_create(const char *name, unsigned count, unsigned cache, uint16_t private,
					 uint16_t room, int socket);

#endif
