// SPDX-License-Identifier: Apache-2.0
#include "quantize/options/integer_options.h"

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

bool qc_integer_options(struct qc_plan_options *out, const struct qc_options *o, struct qc_status *st)
{
    struct qc_plan_options p = {.rounding = QC_CONTRACT_ONNX};
    if (o->rounding && !qc_contract_from_name(&p.rounding, o->rounding, st)) return qc_where(st, "--rounding");
    if (o->accumulator && !read_accumulator(&p.accumulator, o->accumulator, st)) return false;
    if (o->lowering && strcmp(o->lowering, "int16") == 0) p.lowering = QC_LOWERING_INT16;
    *out = p;
    return true;
}

enum qc_accumulator_bound qc_accumulator_bound(const struct qc_options *o)
{
    static const char *const names[] = {
        [QC_BOUND_AUTO] = "auto", [QC_BOUND_PROVEN] = "proven", [QC_BOUND_SEEN] = "seen"};
    enum qc_accumulator_bound b = QC_BOUND_AUTO;
    while (strcmp(names[b], o->accumulator_bound) != 0) b++;
    return b;
}

void qc_warn_overflows(struct qc_warnings *w, const struct qc_overflows *o, unsigned bits, const char *file)
{
    enum { NAMED = 3 };
    /* layers with most overflows, the most first; equal ones in the order of the graph */
    size_t worst[NAMED] = {0}, named = 0, layers = 0;
    uint64_t overflows = 0, results = 0;
    const char *colon = file ? ": " : "";
    file = file ? file : "";
    for (size_t k = 0; k < o->count; k++) {
        const struct qc_sums *sums = &o->layers[k].sums;
        size_t at = named;
        if (!sums->overflows) continue;
        layers++;
        overflows += sums->overflows;
        results += sums->results;
        while (at && o->layers[worst[at - 1]].sums.overflows < sums->overflows) at--;
        if (at == NAMED) continue;
        named += named < NAMED;
        for (size_t i = named - 1; i > at; i--) worst[i] = worst[i - 1];
        worst[at] = k;
    }
    for (size_t i = 0; i < named; i++) {
        const struct qc_layer_overflow *l = &o->layers[worst[i]];
        overflows -= l->sums.overflows;
        results -= l->sums.results;
        qc_warn(w,
                "%s%s%" PRIu64 " of %" PRIu64
                " results of '%s' overflowed an accumulator of %u bits; %u bits would hold them",
                file, colon, l->sums.overflows, l->sums.results, l->name, bits ? bits : 32, l->bits);
    }
    if (layers > named)
        qc_warn(w, "%s%s%" PRIu64 " of %" PRIu64 " results of %zu more layer%s overflowed; --json lists them", file,
                colon, overflows, results, layers - named, layers - named == 1 ? "" : "s");
}

struct qc_json *qc_overflows_json(const struct qc_overflows *o)
{
    struct qc_json *list = qc_json_array();
    for (size_t k = 0; k < o->count; k++) {
        const struct qc_layer_overflow *l = &o->layers[k];
        struct qc_json *one = qc_json_object();
        qc_json_set(one, "name", qc_json_string(l->name));
        qc_json_set(one, "overflows", qc_json_integer((int64_t)l->sums.overflows));
        qc_json_set(one, "results", qc_json_integer((int64_t)l->sums.results));
        qc_json_set(one, "bits", qc_json_integer(l->bits));
        qc_json_add(list, one);
    }
    return list;
}
