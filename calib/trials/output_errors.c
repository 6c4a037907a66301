// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/output_errors.h"

enum { QUANTIZED, REAL, PLANS };

struct erring {
    const struct qc_graph *real, *quantized;
    struct qc_known_outputs *known;
    struct qc_error *units; /* [units][output_count] */
};

static bool skips_known_unit(void *user, const struct qc_unit *at)
{
    const struct erring *e = user;
    return qc_known_outputs_find(e->known, at->key) != NULL;
}

static bool finish_compared_unit(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                                 struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    const struct erring *e = user;
    const struct qc_known *known = qc_known_outputs_find(e->known, at->key);
    bool comparable;
    (void)scratch;
    if (!known && !qc_known_outputs_keep(e->known, at->key, runners[REAL], st)) return false;
    for (size_t o = 0; o < e->real->output_count; o++) {
        const struct qc_view r = known ? qc_known_view(known, o) : qc_runner_output(runners[REAL], o),
                             x = qc_runner_output(runners[QUANTIZED], o);
        if (!qc_compare_output(&comparable, &e->units[at->unit * e->real->output_count + o], e->real, e->quantized, o,
                               &r, &x, st))
            return false;
    }
    return true;
}

static bool known_keys(struct qc_known_outputs *known, const uint64_t *keys, size_t units)
{
    for (size_t u = 0; u < units; u++)
        if (!keys || !keys[u] || !qc_known_outputs_find(known, keys[u])) return false;
    return true;
}

static bool run_output_errors(const struct erring *e, uint64_t *keys, const struct qc_dataset *data,
                              const struct qc_measure_options *o, struct qc_status *st)
{
    const struct qc_plan_options how[PLANS] = {[QUANTIZED] = {.accumulator = o->accumulator, .rounding = o->rounding},
                                               [REAL] = {.rounding = QC_CONTRACT_ONNX}};
    struct qc_plan *plans[PLANS] = {NULL};
    struct qc_stream stream = {.data = data,
                               .input_count = e->real->input_count,
                               .plan_count = known_keys(e->known, keys, qc_dataset_units(data)) ? REAL : PLANS,
                               .keyed = true,
                               .keys = keys,
                               .skips = skips_known_unit,
                               .unit = finish_compared_unit,
                               .user = (void *)(uintptr_t)e,
                               .progress = o->run.progress,
                               .progress_user = o->run.progress_user};
    bool ok = true;
    size_t each = 0;
    for (size_t k = 0; ok && k < stream.plan_count; k++) {
        ok = qc_stream_plan(&plans[k], k == REAL ? e->real : e->quantized, data, &how[k], st);
        stream.plans[k] = plans[k];
        each += ok ? qc_plan_runner_bytes(plans[k]) : 0;
    }
    ok = ok && qc_stream_fit(&stream.workers, &o->run, data, each, st) && qc_stream_run(&stream, st);
    for (size_t k = 0; k < PLANS; k++) qc_plan_free(plans[k]);
    return ok;
}

bool qc_output_errors(struct qc_error *sums, struct qc_known_outputs *known, uint64_t *keys,
                      const struct qc_graph *real, const struct qc_graph *quantized, const struct qc_dataset *data,
                      const struct qc_measure_options *options, struct qc_status *st)
{
    const size_t units = qc_dataset_units(data), outputs = real->output_count;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct erring e = {.real = real, .quantized = quantized, .known = known};
    bool ok = a || qc_fail_memory(st, 1);
    if (ok && (quantized->output_count != outputs || quantized->input_count != real->input_count))
        ok = qc_fail(st, QC_BAD_INPUT, "the graphs differ: %zu and %zu inputs, %zu and %zu outputs", real->input_count,
                     quantized->input_count, outputs, quantized->output_count);
    ok = ok && (e.units = QC_NEW_ARRAY(a, struct qc_error, units * outputs, st)) &&
         run_output_errors(&e, keys, data, options, st);
    for (size_t i = 0; ok && i < outputs; i++) sums[i] = (struct qc_error){0};
    for (size_t i = 0; ok && i < units * outputs; i++) qc_error_add(&sums[i % outputs], &e.units[i]);
    return ok;
}
