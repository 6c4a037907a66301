// SPDX-License-Identifier: Apache-2.0
#include "cli/options/file_names.h"

#include <string.h>

const char *qc_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

char *qc_stem(struct qc_arena *a, const char *path, struct qc_status *st)
{
    const char *base = qc_base_name(path), *dot = strrchr(base, '.');
    return qc_arena_strndup(a, base, dot && dot > base ? (size_t)(dot - base) : strlen(base), st);
}

char *qc_placement_file(struct qc_arena *a, const char *model, struct qc_status *st)
{
    const char *base = qc_base_name(model), *dot = strrchr(base, '.');
    const size_t length = dot && dot > base ? (size_t)(dot - model) : strlen(model);
    return qc_arena_printf(a, st, "%.*s.placement.json", (int)length, model);
}
