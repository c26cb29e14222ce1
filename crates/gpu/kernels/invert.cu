/* Turns every bit of the slice that is there, in place. The result is how many bytes these are. */
#ifndef MILLRACE_H
#include "millrace.h"
#endif

KERNEL(invert, launch, slot, row)
{
    u8 *bytes = cell(&launch->input[0], slot, row);
    const u32 stride = launch->input[0].stride;
    const u32 there = valid_bytes(launch, slot, 0, row);
    const u32 length = there < stride ? there : stride;
    for (u32 i = 0; i < length; i++)
        bytes[i] = (u8)~bytes[i];
    set_result(launch, slot, row, length);
}
