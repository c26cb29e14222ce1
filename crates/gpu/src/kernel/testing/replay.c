/* Runs cases of the kernels' tests once more, with a sanitizer: read from the standard input, as sanitize.rs writes them.
 *
 * Slot, table and launch lie in allocations of their own, no byte longer than they are. With the address sanitizer, what
 * the launch may not touch in its slot is poisoned too, as exactly as it can: in each 8 bytes, what is behind the last byte
 * that may be touched. With the thread sanitizer, threads treat the rows between them, a row at a time.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "millrace.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define __asan_poison_memory_region(at, bytes) ((void)(at), (void)(bytes))
#define __asan_unpoison_memory_region(at, bytes) ((void)(at), (void)(bytes))
#endif

#ifdef __SANITIZE_THREAD__
#define THREADS 4u
#else
#define THREADS 1u
#endif

typedef void kernel(const struct launch *, u8 *, u32, u32);
kernel mr_lpm4, mr_lpm6, mr_classify, mr_aho_corasick, mr_invert;
static kernel *const kernels[] = {mr_lpm4, mr_lpm6, mr_classify, mr_aho_corasick, mr_invert};

/* What the standard input has before each case. */
struct head {
    u32 kernel;
    u32 slot, table; /* Bytes. */
    u32 table_at;    /* Where in the slot the table's address goes. */
    u32 overlap;     /* Not 0: every thread treats all rows, which they must not. */
    struct launch launch;
};

static void fail(const char *what)
{
    fprintf(stderr, "replay: %s\n", what);
    exit(3);
}

/* As many bytes as are asked for, in an allocation of that size; 0 where there are no more. */
static u8 *take(size_t bytes)
{
    u8 *taken = malloc(bytes);
    if (taken == 0)
        fail("no memory");
    if (fread(taken, 1, bytes, stdin) != bytes)
        fail("a case that ends early");
    return taken;
}

struct share {
    const struct head *head;
    const struct launch *launch;
    u8 *slot;
    u32 rows, first, step;
};

static void *treat(void *argument)
{
    const struct share *share = argument;
    for (u32 row = share->first; row < share->rows; row += share->step)
        kernels[share->head->kernel](share->launch, share->slot, row, 1);
    return 0;
}

int main(void)
{
    struct head head;
    unsigned long cases = 0;
    while (fread(&head, 1, sizeof head, stdin) == sizeof head) {
        struct launch *launch = malloc(sizeof *launch);
        u8 *slot = take(head.slot), *after = take(head.slot), *granted = take(head.slot);
        u8 *table = take(head.table);
        if (launch == 0 || head.kernel >= sizeof kernels / sizeof *kernels)
            fail("no such case");
        *launch = head.launch;
        const u64 address = (u64)(size_t)table;
        memcpy(slot + head.table_at, &address, sizeof address);
        memcpy(after + head.table_at, &address, sizeof address);
        const u32 rows = rows_of(slot);
        for (u32 at = 0; at < head.slot; at += 8) {
            const u32 end = head.slot - at < 8 ? head.slot - at : 8;
            u32 last = end;
            while (last > 0 && !granted[at + last - 1])
                last--;
            __asan_poison_memory_region(slot + at + last, end - last);
        }
        if (THREADS == 1) {
            kernels[head.kernel](launch, slot, 0, rows);
        } else {
            pthread_t threads[THREADS];
            struct share shares[THREADS];
            for (u32 i = 0; i < THREADS; i++) {
                const struct share share = {&head, launch, slot, rows, head.overlap ? 0 : i, head.overlap ? 1 : THREADS};
                shares[i] = share;
                if (pthread_create(&threads[i], 0, treat, &shares[i]) != 0)
                    fail("no thread");
            }
            for (u32 i = 0; i < THREADS; i++)
                pthread_join(threads[i], 0);
        }
        __asan_unpoison_memory_region(slot, head.slot);
        if (memcmp(slot, after, head.slot) != 0 && !head.overlap) {
            fprintf(stderr, "replay: case %lu, kernel %u, %u rows: ", cases, head.kernel, rows);
            fail("another result");
        }
        cases++;
        free(launch);
        free(slot);
        free(after);
        free(granted);
        free(table);
    }
    printf("%lu\n", cases);
    return 0;
}
