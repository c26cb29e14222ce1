/* A run-time compiler that compiles nothing: its machine code is a list of the kernels' names, for the driver in libcuda.c, which
 * has them compiled for the processor. With FAKE_NVRTC=fail it finds an error in every program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct program {
    char *source, *image;
    const char *log;
};

EXPORT int nvrtcCreateProgram(struct program **program, const char *source, const char *name, int headers,
                              const char *const *texts, const char *const *names)
{
    (void)name, (void)texts, (void)names;
    if (headers != 0)
        return 3;
    *program = calloc(1, sizeof **program);
    (*program)->source = strdup(source);
    (*program)->log = "";
    return 0;
}

EXPORT int nvrtcCompileProgram(struct program *program, int count, const char *const *options)
{
    const char *architecture = NULL;
    for (int i = 0; i < count; i++)
        if (!strncmp(options[i], "--gpu-architecture=sm_", 22))
            architecture = options[i] + 22;
    if (!architecture)
        return 5;
    if (getenv("FAKE_NVRTC")) {
        program->log = "kernel.cu(1): error: as it was told";
        return 6;
    }
    program->image = calloc(1, strlen(program->source) + 100);
    char *end = program->image + sprintf(program->image, "FAKE CUBIN sm_%s\n", architecture);
    for (const char *line = program->source; line; line = strchr(line, '\n')) {
        char name[64];
        line += *line == '\n';
        if (sscanf(line, "KERNEL(%63[a-z0-9_],", name) == 1 || sscanf(line, "SPLIT_KERNEL(%63[a-z0-9_],", name) == 1)
            end += sprintf(end, ".entry mr_%s\n", name);
    }
    return 0;
}

EXPORT int nvrtcGetProgramLogSize(struct program *program, size_t *bytes)
{
    *bytes = strlen(program->log) + 1;
    return 0;
}

EXPORT int nvrtcGetProgramLog(struct program *program, char *log)
{
    strcpy(log, program->log);
    return 0;
}

EXPORT int nvrtcGetCUBINSize(struct program *program, size_t *bytes)
{
    *bytes = program->image ? strlen(program->image) : 0;
    return program->image ? 0 : 4;
}

EXPORT int nvrtcGetCUBIN(struct program *program, char *image)
{
    memcpy(image, program->image, strlen(program->image));
    return 0;
}

EXPORT int nvrtcDestroyProgram(struct program **program)
{
    free((*program)->source);
    free((*program)->image);
    free(*program);
    *program = NULL;
    return 0;
}
