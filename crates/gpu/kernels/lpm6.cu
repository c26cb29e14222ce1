/* Longest prefix match of an IPv6 address. Not written yet. */
#ifndef MILLRACE_H
#include "millrace.h"
#endif

KERNEL(lpm6, launch, slot, row)
{
    set_result(launch, slot, row, NONE);
}
