/* A rival in a benchmark: reads its input once, then does what is asked for on standard input, a line each.
 *
 *   results FILE   writes a 32-bit word for each item to the file
 *   run N          treats all items N times, and prints the nanoseconds of processor time that it took
 *
 * Before that it prints one line: "ready", the seconds that it took to build its tables, and their bytes.
 */
#ifndef RIVAL_H
#define RIVAL_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What went wrong, and the end. */
#define FAIL(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

/* A clock, in nanoseconds. */
static inline uint64_t nanoseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* A whole file, 64 zeros behind it. */
static inline uint8_t *whole_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        FAIL("cannot read %s", path);
    long size = ftell(file);
    rewind(file);
    uint8_t *bytes = aligned_alloc(64, ((size_t)size + 191) / 64 * 64);
    if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size)
        FAIL("cannot read %s", path);
    memset(bytes + size, 0, 64);
    fclose(file);
    *length = (size_t)size;
    return bytes;
}

/* Does what is asked for, until nothing more is. `treat` treats all items and puts a word for each into `results`. */
static inline void serve(void (*treat)(uint32_t *results), uint32_t *results, size_t items,
                         uint64_t build_nanoseconds, size_t bytes) {
    printf("ready %f %zu\n", (double)build_nanoseconds / 1e9, bytes);
    fflush(stdout);
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "results ", 8)) {
            treat(results);
            FILE *file = fopen(line + 8, "wb");
            if (!file || fwrite(results, sizeof *results, items, file) != items || fclose(file))
                FAIL("cannot write %s", line + 8);
            printf("done\n");
        } else if (!strncmp(line, "run ", 4)) {
            long times = atol(line + 4);
            uint64_t start = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
            for (long at = 0; at < times; at++)
                treat(results);
            printf("%" PRIu64 "\n", nanoseconds(CLOCK_THREAD_CPUTIME_ID) - start);
        } else {
            FAIL("what is ‘%s’?", line);
        }
        fflush(stdout);
    }
}

#endif
