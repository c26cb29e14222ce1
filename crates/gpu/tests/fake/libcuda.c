/* A CUDA driver that works on the processor: for tests of how the CUDA backend calls the real one.
 *
 * It has the functions that src/cuda uses, with the signatures and error codes of the driver's manual, and it is strict where a
 * driver is lenient: each handle, address and length is checked, host memory where device memory is wanted is refused, what is
 * used after it was freed is found, and at exit everything must have been freed. What it finds it prints, and the process ends
 * with 97. Streams run on a thread of their own, their steps between one another by chance and late.
 *
 * Not like a real one: nothing runs at the same time as anything else, freeing does not wait, a reset ends whatever hangs, and no
 * time taken means anything.
 *
 * Faults are in FAKE_CUDA, separated by semicolons; N counts from 1:
 *     call NAME N CODE     the Nth call of a function returns an error and does nothing
 *     kernel NAME N CODE   the Nth run of a kernel breaks the context: every later call returns the error
 *     hang NAME N          the Nth run of a kernel never ends
 *     late NAME N MS       the Nth run of a kernel begins later
 *     skip NAME N          the Nth run of a kernel does nothing
 * Beside it: FAKE_CUDA_VERSION (12040), FAKE_CUDA_DEVICES (1), FAKE_CUDA_MEMORY (bytes), FAKE_CUDA_SEED, FAKE_CUDA_NO_PTX (takes
 * none but that of mr_complete).
 */
#include "machine.h"

/* ---- driver and device ---- */

static CUresult begin_anywhere(const char *call)
{
    const struct fault *fault = fault_of(call, next_count("call", call), 1);
    return fault ? (CUresult)fault->value : SUCCESS;
}

static int device_count(void)
{
    return (int)number("FAKE_CUDA_DEVICES", 1);
}

DEFINE(cuDriverGetVersion, (int *version), begin_anywhere, *version = (int)number("FAKE_CUDA_VERSION", 12040);)

DEFINE(cuInit, (unsigned flags), begin_anywhere, {
    if (flags != 0) {
        result = INVALID_VALUE;
    } else if (device_count() == 0) {
        result = NO_DEVICE;
    } else if (!initialised) {
        pthread_t thread;
        initialised = 1;
        limit = number("FAKE_CUDA_MEMORY", limit);
        pthread_create(&thread, NULL, device, NULL);
        pthread_detach(thread);
    }
})

DEFINE(cuDeviceGetCount, (int *count), begin, *count = device_count();)

DEFINE(cuDeviceGet, (CUdevice *device, int ordinal), begin, {
    if (ordinal < 0 || ordinal >= device_count())
        result = INVALID_DEVICE;
    else
        *device = ordinal + 40;
})

static int is_device(CUdevice device)
{
    return device >= 40 && device < 40 + device_count();
}

DEFINE(cuDeviceGetName, (char *name, int length, CUdevice device), begin, {
    if (!is_device(device))
        result = INVALID_DEVICE;
    else
        snprintf(name, (size_t)length, "Fake GPU");
})

DEFINE(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device), begin, {
    if (!is_device(device))
        result = INVALID_DEVICE;
    else
        *bytes = limit;
})

DEFINE(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device), begin, {
    if (!is_device(device))
        result = INVALID_DEVICE;
    else if (attribute == 75)
        *value = ARCHITECTURE / 10;
    else if (attribute == 76)
        *value = ARCHITECTURE % 10;
    else if (attribute == 19)
        *value = 1;
    else
        result = INVALID_VALUE;
})

EXPORT CUresult cuGetErrorName(CUresult error, const char **name);
EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
    static const struct { CUresult code; const char *name; } names[] = {
        {SUCCESS, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"}, {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}, {999, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].code == error) {
            *name = names[i].name;
            return SUCCESS;
        }
    }
    *name = NULL;
    return INVALID_VALUE;
}

/* ---- the primary context ---- */

static void destroy_primary(void)
{
    if (!primary || !primary->object.alive)
        return;
    primary->object.alive = 0;
    for (struct object *object = objects; object; object = object->next) {
        if (object->context != &primary->object || !object->alive)
            continue;
        if (!primary->broken && object->kind != FUNCTION && !(object->kind == STREAM && ((struct stream *)object)->hangs))
            violation("the context goes before an object of kind %x", object->kind);
        object->alive = 0;
    }
    for (struct object *object = objects; object; object = object->next) {
        if (object->kind == STREAM) {
            ((struct stream *)object)->gone = 1;
            ((struct stream *)object)->ops = (struct list){0};
        }
    }
    for (struct memory *memory = allocations; memory; memory = memory->next) {
        if (memory->alive && !primary->broken)
            violation("the context goes before an allocation of %llu bytes", (unsigned long long)memory->bytes);
        if (memory->alive)
            memset((void *)memory->address, 0xdd, memory->bytes);
        memory->alive = 0;
    }
    for (struct memory *memory = registrations; memory; memory = memory->next) {
        if (memory->alive && !primary->broken)
            violation("the context goes before registered memory");
        forget(memory);
    }
    in_use = arena_used = 0;
    pthread_cond_broadcast(&changed);
}

DEFINE(cuDevicePrimaryCtxRetain, (void **context, CUdevice device), begin, {
    if (!is_device(device)) {
        result = INVALID_DEVICE;
    } else {
        /* The handle of a context that was reset serves again, as that of a real driver does. */
        if (!primary)
            primary = create(CONTEXT, sizeof *primary);
        if (!primary->object.alive)
            primary->broken = SUCCESS;
        primary->object.alive = 1;
        retained++;
        *context = primary;
    }
})

DEFINE(cuDevicePrimaryCtxRelease_v2, (CUdevice device), begin, {
    if (!is_device(device) || retained == 0) {
        violation("a context is released that was not retained");
        result = INVALID_CONTEXT;
    } else if (--retained == 0) {
        destroy_primary();
    }
})

/* Everything that a lost device left behind is gone: no violation. */
DEFINE(cuDevicePrimaryCtxReset_v2, (CUdevice device), begin, {
    if (!is_device(device)) {
        result = INVALID_DEVICE;
    } else if (primary && primary->object.alive) {
        primary->broken = primary->broken ? primary->broken : 999;
        destroy_primary();
    }
})

DEFINE(cuCtxSetCurrent, (struct context * context), begin, {
    if (context && !object_of(context, CONTEXT, "cuCtxSetCurrent"))
        result = INVALID_CONTEXT;
    else
        current = context;
})

/* ---- memory ---- */

DEFINE(cuMemAlloc_v2, (CUdeviceptr *address, size_t bytes), begin_outside_capture, {
    if (bytes == 0) {
        result = INVALID_VALUE;
    } else if (bytes > limit - in_use) {
        result = OUT_OF_MEMORY;
    } else {
        if (!arena)
            arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        const u64 all = (RED + bytes + RED + ALIGN - 1) / ALIGN * ALIGN;
        if (all > ARENA - arena_used) {
            result = OUT_OF_MEMORY;
        } else {
            struct memory *memory = calloc(1, sizeof *memory);
            memory->address = (u64)arena + arena_used + RED;
            memory->bytes = bytes;
            memory->alive = 1;
            memory->next = allocations, allocations = memory;
            arena_used += all;
            in_use += bytes;
            memset((u8 *)memory->address - RED, 0xc3, all);
            memset((void *)memory->address, 0xa5, bytes);
            *address = memory->address;
        }
    }
})

DEFINE(cuMemFree_v2, (CUdeviceptr address), begin_outside_capture, {
    struct memory *memory = memory_at(allocations, address, 0);
    if (!memory || memory->address != address) {
        violation("cuMemFree: %llx is no allocation", (unsigned long long)address);
        result = INVALID_VALUE;
    } else {
        if (is_in_use(address, memory->bytes))
            violation("cuMemFree of memory that work under way uses");
        check_red_zones("somebody");
        memset((void *)address, 0xdd, memory->bytes);
        memory->alive = 0;
        in_use -= memory->bytes;
    }
})

DEFINE(cuMemHostRegister_v2, (void *host, size_t bytes, unsigned flags), begin_outside_capture, {
    const u64 address = (u64)host;
    if (getenv("FAKE_CUDA_NO_REGISTER")) {
        result = OPERATING_SYSTEM;
    } else if (bytes == 0 || (flags & ~3u) != 0 || is_arena(address) || address % 4096 || bytes % 4096) {
        violation("cuMemHostRegister: not whole pages of the host");
        result = INVALID_VALUE;
    } else {
        for (struct memory *memory = registrations; memory; memory = memory->next)
            if (memory->alive && address < memory->address + memory->bytes && memory->address < address + bytes)
                result = HOST_MEMORY_ALREADY_REGISTERED;
        if (result == SUCCESS) {
            struct memory *memory = calloc(1, sizeof *memory);
            memory->address = address;
            memory->bytes = bytes;
            memory->alive = 1;
            memory->next = registrations, registrations = memory;
        }
    }
})

/* A container in which memory cannot be registered: OPERATING_SYSTEM. Else as cuMemHostRegister; what is there is not zero. */
DEFINE(cuMemHostAlloc, (void **host, size_t bytes, unsigned flags), begin_outside_capture, {
    if (bytes == 0 || flags != 3) {
        violation("cuMemHostAlloc: write-combined, or not mapped");
        result = INVALID_VALUE;
    } else {
        struct memory *memory = calloc(1, sizeof *memory);
        memory->bytes = (bytes + 4095) / 4096 * 4096;
        *host = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(*host, 0xa5, memory->bytes);
        memory->address = (u64)*host;
        memory->alive = memory->is_drivers = 1;
        memory->next = registrations, registrations = memory;
    }
})

DEFINE(cuMemFreeHost, (void *host), begin_outside_capture, {
    struct memory *memory = memory_at(registrations, (u64)host, 1);
    if (!memory || memory->address != (u64)host || !memory->is_drivers) {
        violation("cuMemFreeHost of what was not allocated");
        result = INVALID_VALUE;
    } else {
        if (is_in_use(memory->address, memory->bytes))
            violation("cuMemFreeHost of memory that work under way uses");
        forget(memory);
    }
})

DEFINE(cuMemHostUnregister, (void *host), begin_outside_capture, {
    struct memory *memory = memory_at(registrations, (u64)host, 1);
    if (!memory || memory->address != (u64)host || memory->is_drivers) {
        violation("cuMemHostUnregister of what is not registered");
        result = HOST_MEMORY_NOT_REGISTERED;
    } else {
        if (is_in_use(memory->address, memory->bytes))
            violation("cuMemHostUnregister of memory that work under way uses");
        memory->alive = 0;
    }
})

DEFINE(cuMemHostGetDevicePointer_v2, (CUdeviceptr *address, void *host, unsigned flags), begin_in_context, {
    if (flags != 0 || !memory_at(registrations, (u64)host, 1)) {
        violation("cuMemHostGetDevicePointer of what is not registered");
        result = INVALID_VALUE;
    } else {
        *address = (u64)host + MAPPED;
    }
})

/* ---- streams ---- */

/* Puts work on a stream, or into the graph that is captured from it. */
static CUresult enqueue(struct stream *stream, struct op op)
{
    struct op *copy = malloc(sizeof *copy);
    *copy = op;
    if (!stream->capture) {
        put(&stream->ops, copy);
        pthread_cond_broadcast(&changed);
        return SUCCESS;
    }
    if (!pthread_equal(stream->capturer, pthread_self())) {
        violation("another thread works on a stream that is captured");
        return STREAM_CAPTURE_WRONG_THREAD;
    }
    put(&stream->capture->ops, copy);
    return SUCCESS;
}

DEFINE(cuStreamCreate, (struct stream * *stream, unsigned flags), begin_in_context, {
    if (flags != 1) {
        violation("a stream that waits for the default stream");
        result = INVALID_VALUE;
    } else {
        *stream = create(STREAM, sizeof **stream);
    }
})

DEFINE(cuStreamDestroy_v2, (struct stream * stream), begin_in_context, {
    if (!object_of(stream, STREAM, "cuStreamDestroy"))
        result = INVALID_HANDLE;
    else
        stream->object.alive = 0;
})

DEFINE(cuStreamQuery, (struct stream * stream), begin_in_context, {
    if (!object_of(stream, STREAM, "cuStreamQuery")) {
        result = INVALID_HANDLE;
    } else if (stream->capture) {
        violation("cuStreamQuery during a capture");
        stream->capture->invalid = 1;
        result = STREAM_CAPTURE_UNSUPPORTED;
    } else if (stream->ops.first || stream->busy) {
        result = NOT_READY;
    }
})

DEFINE(cuStreamSynchronize, (struct stream * stream), begin_outside_capture, {
    if (!object_of(stream, STREAM, "cuStreamSynchronize")) {
        result = INVALID_HANDLE;
    } else {
        while ((stream->ops.first || stream->busy) && !current->broken && current->object.alive)
            pthread_cond_wait(&changed, &lock);
        result = current->broken;
    }
})

static CUresult check_copy(struct stream *stream, void *host, CUdeviceptr device, size_t bytes, int *registered)
{
    if (!object_of(stream, STREAM, "copy"))
        return INVALID_HANDLE;
    if (is_arena((u64)host) || !is_arena(device) || !memory_at(allocations, device, bytes)) {
        violation("a copy that is not between memory of the host and an allocation of the device");
        return INVALID_VALUE;
    }
    *registered = memory_at(registrations, (u64)host, bytes) != NULL;
    return SUCCESS;
}

DEFINE(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, struct stream *stream), begin_in_context, {
    int registered;
    result = check_copy(stream, (void *)from, to, bytes, &registered);
    if (result == SUCCESS) {
        struct op op = {.work = COPY_IN, .host = (u8 *)from, .device = to, .bytes = bytes};
        if (!registered) {
            /* Memory that is not pinned is copied before the call comes back. */
            if (stream->capture)
                violation("a capture of a copy of memory that is not pinned");
            op.staged = malloc(bytes);
            memcpy(op.staged, from, bytes);
            op.host = NULL;
        }
        result = enqueue(stream, op);
    }
})

DEFINE(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, struct stream *stream), begin_in_context, {
    int registered;
    result = check_copy(stream, to, from, bytes, &registered);
    if (result == SUCCESS && !registered) {
        violation("a copy to memory that is not pinned: the call would wait");
        result = INVALID_VALUE;
    }
    if (result == SUCCESS)
        result = enqueue(stream, (struct op){.work = COPY_OUT, .host = to, .device = from, .bytes = bytes});
})

DEFINE(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, struct stream *stream), begin_in_context, {
    if (!object_of(stream, STREAM, "copy")) {
        result = INVALID_HANDLE;
    } else if (!memory_at(allocations, to, bytes) || !memory_at(allocations, from, bytes)) {
        violation("a copy that is not between allocations of the device");
        result = INVALID_VALUE;
    } else {
        result = enqueue(stream, (struct op){.work = COPY_WITHIN, .device = to, .arguments = {from}, .bytes = bytes});
    }
})

/* ---- modules and launches ---- */

/* The length of an image: PTX and the fake compiler's end with zero, machine code says where its last table is. 0: none. */
static size_t image_bytes(const char *image, int *fits)
{
    const char *target = strstr(image, ".target sm_");
    *fits = 1;
    if (!memcmp(image, ELFMAG, SELFMAG)) {
        const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
        const size_t sections = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
        const size_t segments = header->e_phoff + (size_t)header->e_phnum * header->e_phentsize;
        return sections > segments ? sections : segments;
    }
    if (!strncmp(image, "FAKE CUBIN sm_", 14))
        *fits = atoi(image + 14) == ARCHITECTURE;
    else if (target && strstr(image, ".version ") && (strstr(image, "mr_complete") || !getenv("FAKE_CUDA_NO_PTX")))
        *fits = atoi(target + 11) <= ARCHITECTURE;
    else
        return 0;
    return strlen(image);
}

DEFINE(cuModuleLoadDataEx,
       (struct module * *module, const char *image, unsigned options, int *option, void **value),
       begin_outside_capture, {
    int fits;
    if (options != 2 || option[0] != 5 || option[1] != 6)
        violation("cuModuleLoadDataEx without room for what its compiler says");
    const size_t bytes = image_bytes(image, &fits);
    if (bytes == 0) {
        snprintf(value[0], (size_t)value[1], "ptxas fatal: what is this?");
        result = INVALID_IMAGE;
    } else if (!fits) {
        result = NO_BINARY_FOR_GPU;
    } else {
        *module = create(MODULE, sizeof **module);
        (*module)->image = memcpy(calloc(1, bytes + 1), image, bytes);
        (*module)->bytes = bytes;
    }
})

DEFINE(cuModuleUnload, (struct module * module), begin_in_context, {
    if (!object_of(module, MODULE, "cuModuleUnload")) {
        result = INVALID_HANDLE;
    } else {
        module->object.alive = 0;
        for (struct object *object = objects; object; object = object->next) {
            if (object->kind == FUNCTION && ((struct function *)object)->module == module)
                object->alive = 0;
            if (object->kind != STREAM || ((struct stream *)object)->gone)
                continue;
            for (struct op *op = ((struct stream *)object)->ops.first; op; op = op->next)
                if (op->function && op->function->module == module)
                    violation("cuModuleUnload of a module that work under way uses");
        }
    }
})

DEFINE(cuModuleGetFunction, (struct function * *function, struct module *module, const char *name), begin_outside_capture, {
    if (!object_of(module, MODULE, "cuModuleGetFunction")) {
        result = INVALID_HANDLE;
    } else {
        /* As a whole word: in text, or among the symbols of machine code. */
        const size_t length = strlen(name);
        const char *found = memmem(module->image, module->bytes, name, length);
        while (found && (isalnum((u8)found[length]) || found[length] == '_'))
            found = memmem(found + 1, module->bytes - (size_t)(found + 1 - module->image), name, length);
        if (!found) {
            result = NOT_FOUND;
        } else {
            *function = create(FUNCTION, sizeof **function);
            (*function)->module = module;
            snprintf((*function)->name, sizeof (*function)->name, "%s", name);
        }
    }
})

/* Threads of a block, at most; the kernel is loaded with that, at the latest. */
DEFINE(cuFuncGetAttribute, (int *value, int attribute, struct function *function), begin_outside_capture, {
    if (attribute != 0 || !object_of(function, FUNCTION, "cuFuncGetAttribute")) {
        result = INVALID_VALUE;
    } else {
        *value = (int)number("FAKE_CUDA_THREADS", 1024);
        function->is_loaded = 1;
    }
})

DEFINE(cuLaunchKernel,
       (struct function * function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
        unsigned shared, struct stream *stream, void **parameters, void **extra),
       begin_in_context, {
    if (!object_of(function, FUNCTION, "cuLaunchKernel") || !object_of(stream, STREAM, "cuLaunchKernel")) {
        result = INVALID_HANDLE;
    } else {
        const int is_word = !strcmp(function->name, "mr_complete");
        if (stream->capture && !function->is_loaded)
            violation("a capture of %s, which is not loaded", function->name);
        if (x == 0 || y != 1 || z != 1 || bx != (is_word ? 1 : TILE) || by != 1 || bz != 1 || shared != 0 || extra) {
            violation("cuLaunchKernel of %s: %u blocks of %u threads", function->name, x, bx);
            result = INVALID_VALUE;
        } else {
            struct op op = {.work = KERNEL_RUN, .function = function, .blocks = x};
            if (is_word) {
                memcpy(&op.arguments[0], parameters[0], 8);
                memcpy(&op.arguments[1], parameters[1], 8);
            } else {
                memcpy(&op.launch, parameters[0], sizeof op.launch);
                memcpy(&op.arguments[0], parameters[1], 8);
            }
            if (!memory_at(allocations, op.arguments[0], sizeof(struct header)))
                violation("cuLaunchKernel of %s: its slot is no memory of the device", function->name);
            result = enqueue(stream, op);
        }
    }
})

/* ---- events ---- */

DEFINE(cuEventCreate, (struct event * *event, unsigned flags), begin_in_context, {
    if (flags & ~7u)
        result = INVALID_VALUE;
    else
        *event = create(EVENT, sizeof **event);
})

DEFINE(cuEventRecord, (struct event * event, struct stream *stream), begin_in_context, {
    if (!object_of(event, EVENT, "cuEventRecord") || !object_of(stream, STREAM, "cuEventRecord")) {
        result = INVALID_HANDLE;
    } else {
        event->pending++;
        result = enqueue(stream, (struct op){.work = MARK, .event = event});
    }
})

DEFINE(cuEventQuery, (struct event * event), begin_in_context, {
    if (!object_of(event, EVENT, "cuEventQuery"))
        result = INVALID_HANDLE;
    else if (event->pending)
        result = NOT_READY;
})

DEFINE(cuEventDestroy_v2, (struct event * event), begin_in_context, {
    if (!object_of(event, EVENT, "cuEventDestroy"))
        result = INVALID_HANDLE;
    else
        event->object.alive = 0;
})

/* ---- graphs ---- */

DEFINE(cuStreamBeginCapture_v2, (struct stream * stream, int mode), begin_outside_capture, {
    if (!object_of(stream, STREAM, "cuStreamBeginCapture") || stream->capture || mode != 1) {
        result = INVALID_VALUE;
    } else {
        stream->capture = capturing = create(GRAPH, sizeof *capturing);
        stream->capturer = pthread_self();
    }
})

/* A capture has ended also when its end fails. */
static CUresult begin_end_of_capture(const char *call)
{
    const CUresult result = begin_in_context(call);
    if (result == SUCCESS || !capturing)
        return result;
    for (struct object *object = objects; object; object = object->next)
        if (object->kind == STREAM && ((struct stream *)object)->capture == capturing)
            ((struct stream *)object)->capture = NULL;
    capturing->object.alive = 0;
    capturing = NULL;
    return result;
}

DEFINE(cuStreamEndCapture, (struct stream * stream, struct graph **graph), begin_end_of_capture, {
    *graph = NULL;
    if (!object_of(stream, STREAM, "cuStreamEndCapture") || !stream->capture) {
        violation("cuStreamEndCapture without a begin");
        result = INVALID_VALUE;
    } else if (!pthread_equal(stream->capturer, pthread_self())) {
        result = STREAM_CAPTURE_WRONG_THREAD;
    } else {
        struct graph *made = stream->capture;
        stream->capture = capturing = NULL;
        if (made->invalid) {
            made->object.alive = 0;
            result = STREAM_CAPTURE_INVALIDATED;
        } else {
            *graph = made;
        }
    }
})

static void copy_ops(struct list *to, const struct op *from)
{
    for (; from; from = from->next) {
        struct op *copy = malloc(sizeof *copy);
        *copy = *from;
        put(to, copy);
    }
}

DEFINE(cuGraphInstantiateWithFlags, (struct graph * *exec, struct graph *graph, unsigned long long flags),
       begin_outside_capture, {
    if (flags != 0 || !object_of(graph, GRAPH, "cuGraphInstantiate")) {
        result = INVALID_VALUE;
    } else {
        *exec = create(EXEC, sizeof **exec);
        copy_ops(&(*exec)->ops, graph->ops.first);
    }
})

DEFINE(cuGraphDestroy, (struct graph * graph), begin_in_context, {
    if (!object_of(graph, GRAPH, "cuGraphDestroy"))
        result = INVALID_HANDLE;
    else
        graph->object.alive = 0;
})

DEFINE(cuGraphExecDestroy, (struct graph * exec), begin_in_context, {
    if (!object_of(exec, EXEC, "cuGraphExecDestroy"))
        result = INVALID_HANDLE;
    else
        exec->object.alive = 0;
})

DEFINE(cuGraphLaunch, (struct graph * exec, struct stream *stream), begin_outside_capture, {
    if (!object_of(exec, EXEC, "cuGraphLaunch") || !object_of(stream, STREAM, "cuGraphLaunch")) {
        result = INVALID_HANDLE;
    } else {
        copy_ops(&stream->ops, exec->ops.first);
        pthread_cond_broadcast(&changed);
    }
})

/* ---- the end ---- */

__attribute__((destructor)) static void check_end(void)
{
    pthread_mutex_lock(&lock);
    /* In a context that is beyond repair nothing can be freed, nor what a kernel that hangs uses. */
    int stuck = primary && primary->object.alive && primary->broken;
    for (struct object *object = objects; object; object = object->next)
        if (object->kind == STREAM && ((struct stream *)object)->hangs && !((struct stream *)object)->gone)
            stuck = 1;
    if (stuck)
        _exit(violations ? 97 : 0);
    if (retained != 0)
        violation("at exit: the context is retained %d times", retained);
    for (struct memory *memory = allocations; memory; memory = memory->next)
        if (memory->alive)
            violation("at exit: %llu bytes are allocated", (unsigned long long)memory->bytes);
    for (struct memory *memory = registrations; memory; memory = memory->next)
        if (memory->alive)
            violation("at exit: %llu bytes are registered", (unsigned long long)memory->bytes);
    for (struct object *object = objects; object; object = object->next)
        if (object->alive && object->kind != FUNCTION)
            violation("at exit: an object of kind %x is there", object->kind);
    if (violations)
        _exit(97);
    pthread_mutex_unlock(&lock);
}
