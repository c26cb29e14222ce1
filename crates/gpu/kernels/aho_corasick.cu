/* Lowest rule that alerts. Not written yet. */
#ifndef MILLRACE_H
#include "millrace.h"
#endif

SPLIT_KERNEL(aho_corasick, launch, slot, row, lane, lanes)
{
    (void)launch, (void)slot, (void)row, (void)lane, (void)lanes;
    return NONE;
}

FINISH(aho_corasick, launch, slot, row, lowest)
{
    set_result(launch, slot, row, lowest);
}
