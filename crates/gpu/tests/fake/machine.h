/* The device behind the fake driver in libcuda.c, which is the only one that includes this: memory, handles, the thread that
 * works, and the faults. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "millrace.h"

typedef int CUresult;
typedef int CUdevice;
typedef u64 CUdeviceptr;

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, OPERATING_SYSTEM = 304, INVALID_HANDLE = 400, NOT_FOUND = 500,
    NOT_READY = 600, HOST_MEMORY_ALREADY_REGISTERED = 712, HOST_MEMORY_NOT_REGISTERED = 713,
    STREAM_CAPTURE_UNSUPPORTED = 900, STREAM_CAPTURE_INVALIDATED = 901, STREAM_CAPTURE_WRONG_THREAD = 908,
};

#define EXPORT __attribute__((visibility("default")))
#define RED 256
#define ALIGN 256
#define ARENA (1ull << 33)
/* What kernels are given for registered memory of the host lies this much higher: mistaking one for the other shows. */
#define MAPPED (1ull << 60)
#define ARCHITECTURE 90

/* ---- everything there is, under one lock ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int violations;

enum kind { CONTEXT = 0x5170, STREAM, EVENT, GRAPH, EXEC, MODULE, FUNCTION };

struct object {
    enum kind kind;
    int alive;
    struct object *context, *next;
};

enum work { COPY_IN, COPY_OUT, COPY_WITHIN, KERNEL_RUN, MARK };

struct op {
    enum work work;
    struct op *next;
    u8 *host, *staged;
    u64 device, bytes;
    struct function *function;
    u32 blocks;
    struct launch launch;
    u64 arguments[2];
    struct event *event;
};

struct list {
    struct op *first, **last;
};

struct context { struct object object; CUresult broken; };
struct stream { struct object object; struct list ops; int busy, hangs, gone; struct graph *capture; pthread_t capturer; };
struct event { struct object object; int pending; };
struct graph { struct object object; struct list ops; int invalid; };
struct module { struct object object; char *image; size_t bytes; };
struct function { struct object object; struct module *module; char name[64]; int is_loaded; };

static struct object *objects;
static struct context *primary;
static int retained, initialised;
static __thread struct context *current;
static __thread struct graph *capturing;

struct memory { u64 address, bytes; int alive, is_drivers; struct memory *next; };
static struct memory *allocations, *registrations;
static u8 *arena;
static u64 arena_used, in_use, limit = 1ull << 28;

static void violation(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "fake driver: ");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    violations++;
}

static u64 number(const char *variable, u64 otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static u32 dice(u32 sides)
{
    static u64 state;
    if (state == 0)
        state = number("FAKE_CUDA_SEED", 1) * 0x9e3779b97f4a7c15ull | 1;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (u32)(state >> 33) % sides;
}

/* ---- faults ---- */

struct fault { char kind[8], name[64]; long when, value; struct fault *next; };
static struct fault *faults;
struct count { char name[80]; long count; struct count *next; };
static struct count *counts;

__attribute__((constructor)) static void read_faults(void)
{
    char *text = strdup(getenv("FAKE_CUDA") ? getenv("FAKE_CUDA") : ""), *left = NULL;
    for (char *one = strtok_r(text, ";", &left); one; one = strtok_r(NULL, ";", &left)) {
        struct fault *fault = calloc(1, sizeof *fault);
        if (sscanf(one, " %7s %63s %ld %ld", fault->kind, fault->name, &fault->when, &fault->value) < 3) {
            violation("no fault: %s", one);
            continue;
        }
        fault->next = faults, faults = fault;
    }
    free(text);
}

static long next_count(const char *what, const char *name)
{
    char full[80];
    snprintf(full, sizeof full, "%s %s", what, name);
    struct count *count = counts;
    while (count && strcmp(count->name, full))
        count = count->next;
    if (!count) {
        count = calloc(1, sizeof *count);
        strcpy(count->name, full);
        count->next = counts, counts = count;
    }
    return ++count->count;
}

static struct fault *fault_of(const char *name, long when, int is_call)
{
    for (struct fault *fault = faults; fault; fault = fault->next)
        if (fault->when == when && !strcmp(fault->name, name) && is_call == !strcmp(fault->kind, "call"))
            return fault;
    return NULL;
}

/* ---- objects and memory ---- */

static void *create(enum kind kind, size_t bytes)
{
    struct object *object = calloc(1, bytes);
    object->kind = kind;
    object->alive = 1;
    object->context = kind == CONTEXT ? NULL : &current->object;
    object->next = objects, objects = object;
    return object;
}

/* The object that a handle names, in the current context; NULL for what is none, or is none any more. */
static void *object_of(void *handle, enum kind kind, const char *call)
{
    for (struct object *object = objects; object; object = object->next) {
        if (object != handle)
            continue;
        if (object->kind != kind || !object->alive)
            break;
        if (kind != CONTEXT && object->context != &current->object) {
            violation("%s: a handle of another context", call);
            return NULL;
        }
        return object;
    }
    violation("%s: bad handle %p", call, handle);
    return NULL;
}

static struct memory *memory_at(struct memory *list, u64 address, u64 bytes)
{
    for (struct memory *memory = list; memory; memory = memory->next)
        if (memory->alive && address >= memory->address && address - memory->address <= memory->bytes &&
            bytes <= memory->bytes - (address - memory->address))
            return memory;
    return NULL;
}

/* Memory of the host is no longer the device's. What the driver allocated is nobody's. */
static void forget(struct memory *memory)
{
    if (memory->alive && memory->is_drivers)
        munmap((void *)memory->address, memory->bytes);
    memory->alive = 0;
}

static int is_arena(u64 address)
{
    return arena && address - (u64)arena < ARENA;
}

static void check_red_zones(const char *what)
{
    for (struct memory *memory = allocations; memory; memory = memory->next) {
        u8 *before = (u8 *)memory->address - RED, *behind = (u8 *)memory->address + memory->bytes;
        for (int i = 0; memory->alive && i < RED; i++) {
            if (before[i] == 0xc3 && behind[i] == 0xc3)
                continue;
            violation("%s wrote beside an allocation of %llu bytes", what, (unsigned long long)memory->bytes);
            memset(before, 0xc3, RED), memset(behind, 0xc3, RED);
        }
    }
}

static int uses(const struct op *op, u64 address, u64 bytes)
{
    const u64 places[] = {op->device, (u64)op->host, op->arguments[0], op->arguments[1] - MAPPED};
    for (int i = 0; i < 4; i++)
        if (places[i] && places[i] >= address && places[i] - address < bytes)
            return 1;
    return 0;
}

/* Whether something under way uses this memory. */
static int is_in_use(u64 address, u64 bytes)
{
    for (struct object *object = objects; object; object = object->next)
        if (object->kind == STREAM && !((struct stream *)object)->gone)
            for (struct op *op = ((struct stream *)object)->ops.first; op; op = op->next)
                if (uses(op, address, bytes))
                    return 1;
    return 0;
}

/* ---- the device's thread ---- */

static void put(struct list *list, struct op *op)
{
    if (!list->last)
        list->last = &list->first;
    op->next = NULL;
    *list->last = op;
    list->last = &op->next;
}

static void run_kernel(struct op *op)
{
    const char *name = op->function->name;
    if (!strcmp(name, "mr_complete")) {
        const u64 word = op->arguments[1] - MAPPED;
        pthread_mutex_lock(&lock);
        const int good = memory_at(allocations, op->arguments[0], 16) && memory_at(registrations, word, 4);
        if (!good)
            violation("mr_complete: bad addresses");
        else
            __atomic_store_n((u32 *)word, *(u32 *)(op->arguments[0] + 4), __ATOMIC_RELEASE);
        pthread_mutex_unlock(&lock);
        return;
    }
    static void *self;
    Dl_info info;
    if (!self && dladdr((void *)run_kernel, &info))
        self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void (*kernel)(const struct launch *, u8 *, u32, u32) = (void (*)(const struct launch *, u8 *, u32, u32))dlsym(self, name);
    /* As many rows as the blocks have threads for, block by block in any order. */
    const u32 rows = TILE / (strcmp(name, "mr_aho_corasick") ? 1 : lanes_of(&op->launch));
    const u32 first = dice(op->blocks);
    for (u32 i = 0; i < op->blocks; i++)
        kernel(&op->launch, (u8 *)op->arguments[0], (first + i) % op->blocks * rows, rows);
}

static void run(struct stream *stream, struct op *op)
{
    struct context *context = (struct context *)stream->object.context;
    struct fault *fault = NULL;
    if (op->work == KERNEL_RUN)
        fault = fault_of(op->function->name, next_count("run", op->function->name), 0);
    if (fault && !strcmp(fault->kind, "hang")) {
        stream->hangs = 1;
        return;
    }
    stream->busy = 1;
    pthread_mutex_unlock(&lock);
    if (dice(4) == 0)
        usleep(dice(60));
    if (fault && !strcmp(fault->kind, "late"))
        usleep((unsigned)fault->value * 1000);
    pthread_mutex_lock(&lock);
    stream->busy = 0;
    if (stream->gone)
        return;
    if (op->work == COPY_IN || op->work == COPY_OUT) {
        const int host = op->staged || memory_at(registrations, (u64)op->host, op->bytes);
        if (!host || !memory_at(allocations, op->device, op->bytes))
            violation("memory was freed before a copy of it");
        else if (op->work == COPY_IN)
            memcpy((void *)op->device, op->staged ? op->staged : op->host, op->bytes);
        else
            memcpy(op->host, (void *)op->device, op->bytes);
    } else if (op->work == COPY_WITHIN) {
        if (!memory_at(allocations, op->device, op->bytes) || !memory_at(allocations, op->arguments[0], op->bytes))
            violation("memory was freed before a copy of it");
        else
            memcpy((void *)op->device, (void *)op->arguments[0], op->bytes);
    } else if (op->work == MARK) {
        op->event->pending--;
    } else if (fault && !strcmp(fault->kind, "kernel")) {
        context->broken = (CUresult)fault->value;
    } else if (!(fault && !strcmp(fault->kind, "skip"))) {
        if (!memory_at(allocations, op->arguments[0], sizeof(struct header))) {
            violation("%s: the slot's memory was freed", op->function->name);
        } else {
            stream->busy = 1;
            pthread_mutex_unlock(&lock);
            run_kernel(op);
            pthread_mutex_lock(&lock);
            stream->busy = 0;
            check_red_zones(op->function->name);
        }
    }
    if (stream->ops.first == op) {
        stream->ops.first = op->next;
        if (!op->next)
            stream->ops.last = &stream->ops.first;
    }
    if (op->staged)
        free(op->staged);
    if (context->broken)
        for (struct object *object = objects; object; object = object->next)
            if (object->kind == STREAM && object->context == &context->object)
                ((struct stream *)object)->ops = (struct list){0};
}

static void *device(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct stream *ready[256];
        u32 count = 0;
        for (struct object *object = objects; object; object = object->next) {
            struct stream *stream = (struct stream *)object;
            if (object->kind == STREAM && !stream->gone && stream->ops.first && !stream->hangs && count < 256)
                ready[count++] = stream;
        }
        if (count == 0) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        struct stream *stream = ready[dice(count)];
        run(stream, stream->ops.first);
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

/* ---- what every call begins with ---- */

/* Whether a call fails before it does anything. With the lock held. */
static CUresult begin(const char *call)
{
    const struct fault *fault = fault_of(call, next_count("call", call), 1);
    if (fault)
        return (CUresult)fault->value;
    if (!initialised) {
        violation("%s before cuInit", call);
        return NOT_INITIALIZED;
    }
    return SUCCESS;
}

static CUresult begin_in_context(const char *call)
{
    const CUresult result = begin(call);
    if (result != SUCCESS)
        return result;
    if (!current || !current->object.alive) {
        violation("%s: no context is current, or one that was destroyed", call);
        return INVALID_CONTEXT;
    }
    return current->broken;
}

/* Calls that a capture on this thread does not allow. */
static CUresult begin_outside_capture(const char *call)
{
    const CUresult result = begin_in_context(call);
    if (result == SUCCESS && capturing) {
        violation("%s during a capture", call);
        capturing->invalid = 1;
        return STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

#define DEFINE(name, parameters, checks, ...)                                                                         \
    EXPORT CUresult name parameters;                                                                                  \
    EXPORT CUresult name parameters                                                                                   \
    {                                                                                                                 \
        pthread_mutex_lock(&lock);                                                                                    \
        CUresult result = checks(#name);                                                                              \
        if (result == SUCCESS) {                                                                                      \
            __VA_ARGS__                                                                                               \
        }                                                                                                             \
        pthread_mutex_unlock(&lock);                                                                                  \
        return result;                                                                                                \
    }
