// SPDX-License-Identifier: Apache-2.0
#include "cli/integer_options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool read_accumulator(struct qc_accumulator *out, const char *text, struct qc_status *st)
{
    char *end;
    const unsigned long bits = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    if (bits < 2 || bits > 32 || (strcmp(end, "") != 0 && strcmp(end, ":wrap") != 0 && strcmp(end, ":saturate") != 0))
        return qc_fail(st, QC_USAGE, "--accumulator: '%s' is not BITS, BITS:wrap or BITS:saturate with 2 to 32 bits",
                       text);
    out->bits = (unsigned)bits;
    out->overflow = strcmp(end, ":saturate") == 0 ? QC_OVERFLOW_SATURATE : QC_OVERFLOW_WRAP;
    return true;
}

bool qc_integer_options(struct qc_plan_options *out, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_plan_options p = {.rounding = QC_CONTRACT_ONNX};
    if (o->rounding && !qc_contract_from_name(&p.rounding, o->rounding, st)) return qc_where(st, "--rounding");
    if (o->accumulator && !read_accumulator(&p.accumulator, o->accumulator, st)) return false;
    *out = p;
    return true;
}

void qc_warn_overflows(struct qc_warnings *w, const struct qc_plan *p, const uint64_t *counts, unsigned bits)
{
    for (size_t k = 0; k < qc_plan_overflow_count(p); k++) {
        const char *name = qc_plan_overflow_name(p, k);
        if (counts[k])
            qc_warn(w, "%" PRIu64 " result%s of '%s' left the range of an accumulator of %u bits", counts[k],
                    counts[k] == 1 ? "" : "s", name ? name : "a layer without a name", bits);
    }
}
