/* Where the fields of millrace.h are, for the test that compares them with src/kernel.rs. */
#include <stddef.h>
#include "millrace.h"

#define HEADER(field) offsetof(struct header, field), sizeof ((struct header *)0)->field
#define COLUMN(field) offsetof(struct column, field), sizeof ((struct column *)0)->field
#define CONDITION(field) offsetof(struct condition, field), sizeof ((struct condition *)0)->field
#define LAUNCH(field) offsetof(struct launch, field), sizeof ((struct launch *)0)->field

static const u32 layout[] = {
    sizeof(struct header), HEADER(rows), HEADER(sequence), HEADER(payload), HEADER(reserved), HEADER(table),
    sizeof(struct column), COLUMN(at), COLUMN(tile), COLUMN(stride),
    sizeof(struct condition), CONDITION(mask), CONDITION(value),
    sizeof(struct launch), LAUNCH(input), LAUNCH(valid), LAUNCH(offset), LAUNCH(length), LAUNCH(predicate),
    LAUNCH(result), LAUNCH(payload), LAUNCH(table), LAUNCH(constants), LAUNCH(conditions), LAUNCH(condition),
    LAUNCH(field_shift), LAUNCH(field_mask),
    TILE, MAX_INPUTS, MAX_CONDITIONS, MAX_TABLES, MAX_EXTENSIONS, NONE, DROP,
};

u32 mr_layout(u32 index);

/* Number `index` of the layout; NONE behind the last. */
u32 mr_layout(u32 index)
{
    return index < sizeof layout / sizeof *layout ? layout[index] : NONE;
}
