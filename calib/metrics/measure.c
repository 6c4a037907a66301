// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/measure.h"

#include <stdlib.h>

#include "base/scope.h"
#include "graph/core/uses.h"

/* Returns the value of the float graph that a quantizer is named after; 0 if it does not exist any more. */
static qc_id quantizer_value(const struct qc_graph *real, const struct qc_qparams *quantizer)
{
    qc_id v = qc_graph_find_value(real, quantizer->name);
    if (v || quantizer->name[0] != '%') return v;
    unsigned long id = strtoul(quantizer->name + 1, NULL, 10); /* label of a value without a name */
    return id <= real->value_count ? (qc_id)id : 0;
}

/* Returns the value of a quantized graph that holds a quantizer's (observed) value with its qparams: the one of the
   same name, else the first of the same shape, else the first; 0 if there is none. */
static qc_id stored_value(const struct qc_graph *quantized, const struct qc_stored_values *stored, qc_id quantizer,
                          const struct qc_graph *real)
{
    const struct qc_qparams *s = &quantized->qparams_of[quantizer];
    qc_id named = qc_graph_find_value(quantized, s->name), r = quantizer_value(real, s), first = 0;
    if (named && quantized->values[named].type.qparams == quantizer) return named;
    for (size_t i = stored->first[quantizer]; i < stored->first[quantizer + 1]; i++) {
        const qc_id v = stored->value[i];
        if (quantized->values[v].kind != QC_VALUE_RESULT) continue;
        if (r && qc_shape_equal(&quantized->values[v].type.shape, &real->values[r].type.shape)) return v;
        if (!first) first = v;
    }
    return first;
}

unsigned qc_bits_for(double max)
{
    unsigned bits = 1;
    for (double limit = 1; limit <= max && bits < 64; limit *= 2) bits++;
    return bits;
}

/* Values to compare, and accumulators whose largest magnitude is measured. */
struct wanted {
    size_t pair_count, peak_count;
    struct qc_pair *pairs;
    qc_id *quantizers; /* [pair_count] */
    qc_id *peaks;
};

/* Makes an empty measurement and finds the values to compare. */
static bool prepare_measurement(struct qc_measurement **out, struct wanted *w, const struct qc_graph *real,
                                const struct qc_graph *quantized, struct qc_status *st)
{
    struct qc_measurement *r;
    if (!QC_NEW_OWNER(r, st)) return false;
    *out = r;
    r->qparams_count = quantized->qparams_count;
    r->output_count = quantized->output_count;
    r->quantizers = QC_NEW_ARRAY(r->arena, struct qc_error, r->qparams_count + 1, st);
    r->stored = QC_NEW_ARRAY(r->arena, qc_id, r->qparams_count + 1, st);
    r->accumulator_max = QC_NEW_ARRAY(r->arena, double, r->qparams_count + 1, st);
    r->outputs = QC_NEW_ARRAY(r->arena, struct qc_error, r->output_count, st);
    if (!r->quantizers || !r->stored || !r->accumulator_max || !r->outputs) return false;
    struct qc_stored_values stored;
    w->pairs = QC_NEW_ARRAY(r->arena, struct qc_pair, quantized->qparams_count + 1, st);
    w->quantizers = QC_NEW_ARRAY(r->arena, qc_id, quantized->qparams_count + 1, st);
    w->peaks = QC_NEW_ARRAY(r->arena, qc_id, quantized->value_count + 1, st);
    if (!w->pairs || !w->quantizers || !w->peaks || !qc_stored_values_of(&stored, quantized, r->arena, st))
        return false;
    for (qc_id s = 1; s <= quantized->qparams_count; s++) {
        if (quantized->qparams_of[s].kind != QC_QPARAMS_QUANTIZER || quantized->qparams_of[s].is_weight) continue;
        struct qc_pair p = {.first = quantizer_value(real, &quantized->qparams_of[s]),
                            .second = stored_value(quantized, &stored, s, real)};
        if (!p.first || !p.second || qc_constant_of(real, p.first) ||
            !qc_shape_equal(&real->values[p.first].type.shape, &quantized->values[p.second].type.shape))
            continue;
        r->stored[s] = p.second;
        w->quantizers[w->pair_count] = s;
        w->pairs[w->pair_count++] = p;
    }
    for (qc_id v = 1; v <= quantized->value_count; v++) {
        const struct qc_node *n = qc_node_of(quantized, v);
        if (n && n->op != QC_OP_Quantize && quantized->values[v].type.qparams &&
            quantized->qparams_of[quantized->values[v].type.qparams].kind == QC_QPARAMS_PRODUCT)
            w->peaks[w->peak_count++] = v;
    }
    return true;
}

static struct qc_comparison_job job_of(const struct wanted *w, const struct qc_plan_options *how,
                                       const struct qc_graph *real, const struct qc_graph *quantized,
                                       const struct qc_dataset *data, const struct qc_settings *settings)
{
    return (struct qc_comparison_job){.first = real,
                                      .second = quantized,
                                      .pair_count = w->pair_count,
                                      .pairs = w->pairs,
                                      .peak_count = w->peak_count,
                                      .peaks = w->peaks,
                                      .data = data,
                                      .how = {NULL, how},
                                      .settings = settings};
}

bool qc_measure_bytes(size_t *out, const struct qc_graph *real, const struct qc_graph *quantized,
                      const struct qc_dataset *data, const struct qc_settings *settings, const struct qc_budget *budget,
                      struct qc_status *st)
{
    const struct qc_plan_options plain = {.budget = budget};
    struct qc_plan_options how = settings->plan;
    struct qc_measurement *r = NULL;
    struct wanted w = {0};
    bool ok = prepare_measurement(&r, &w, real, quantized, st);
    struct qc_comparison_job job = job_of(&w, &how, real, quantized, data, settings);
    how.budget = budget;
    job.how[0] = &plain;
    ok = ok && qc_compare_bytes(out, &job, st);
    qc_measurement_free(r);
    return ok;
}

bool qc_measure(struct qc_measurement **out, const struct qc_graph *real, const struct qc_graph *quantized,
                const struct qc_dataset *data, const struct qc_settings *settings, struct qc_status *st)
{
    struct qc_measurement *r = NULL;
    struct qc_comparison *c = NULL;
    struct wanted w = {0};
    bool ok = prepare_measurement(&r, &w, real, quantized, st);
    const struct qc_comparison_job job = job_of(&w, &settings->plan, real, quantized, data, settings);
    if (ok && (ok = qc_compare(&c, &job, st))) {
        for (size_t i = 0; i < w.pair_count; i++) r->quantizers[w.quantizers[i]] = c->pairs[i];
        for (size_t k = 0; k < r->output_count; k++)
            r->outputs[k] = c->of_parts[qc_worst_part(c->parts, k, c->of_parts)];
        for (size_t i = 0; i < w.peak_count; i++) {
            double *max = &r->accumulator_max[quantized->values[w.peaks[i]].type.qparams];
            if (c->peaks[i] > *max) *max = c->peaks[i];
        }
        r->overflows = c->overflows[1];
        r->samples = c->samples;
        r->seconds = c->seconds;
        r->comparison = c;
        *out = r;
    } else {
        qc_measurement_free(r);
    }
    return ok;
}

void qc_measurement_free(struct qc_measurement *m)
{
    if (!m) return;
    qc_comparison_free(m->comparison);
    qc_arena_free(m->arena);
    free(m);
}

enum { QUANTIZED, REAL, PLANS };

struct erring {
    const struct qc_graph *real, *quantized;
    struct qc_known_outputs *known;
    struct qc_output_parts parts;
    struct qc_error *units; /* [units][parts] */
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
    if (!known && !qc_known_outputs_keep(e->known, at->key, runners[REAL], st)) return false;
    for (size_t o = 0; o < e->real->output_count; o++) {
        if (e->real->outputs[o].judging == QC_NOT_JUDGED) continue;
        const struct qc_view r = known ? qc_known_view(known, o) : qc_runner_output(runners[REAL], o),
                             x = qc_runner_output(runners[QUANTIZED], o);
        const size_t first = e->parts.first[o], end = e->parts.first[o + 1];
        struct qc_error *errors = &e->units[at->unit * e->parts.count], whole = {0};
        if (!qc_compare_output(&comparable, end > first + 1 ? &whole : &errors[first], e->real, e->quantized, o, &r, &x,
                               st))
            return false;
        for (size_t i = first; comparable && end > first + 1 && i < end; i++)
            qc_compare_part(&e->parts.of[i], &r, &x, qc_part_error, &errors[i]);
    }
    return true;
}

bool qc_output_errors(struct qc_error *sums, struct qc_known_outputs *known, uint64_t *keys,
                      const struct qc_graph *real, const struct qc_graph *quantized, const struct qc_dataset *data,
                      const struct qc_settings *settings, struct qc_status *st)
{
    const size_t units = qc_dataset_units(data), outputs = real->output_count;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct erring e = {.real = real, .quantized = quantized, .known = known};
    const struct qc_plan_options plain = {.rounding = QC_CONTRACT_ONNX};
    struct qc_plan *plans[PLANS] = {NULL};
    struct qc_error *of_parts = NULL;
    size_t each = 0;
    bool all_known = true; /* then the float network does not run */
    for (size_t u = 0; all_known && u < units; u++)
        all_known = keys && keys[u] && qc_known_outputs_find(known, keys[u]);
    struct qc_stream stream = {.data = data,
                               .input_count = real->input_count,
                               .plan_count = all_known ? REAL : PLANS,
                               .keyed = true,
                               .keys = keys,
                               .skips = skips_known_unit,
                               .unit = finish_compared_unit,
                               .user = &e,
                               .progress = settings->progress,
                               .progress_user = settings->progress_user};
    bool ok = a || qc_fail_memory(st, 1);
    if (ok && (quantized->output_count != outputs || quantized->input_count != real->input_count))
        ok = qc_fail(st, QC_BAD_INPUT, "the graphs differ: %zu and %zu inputs, %zu and %zu outputs", real->input_count,
                     quantized->input_count, outputs, quantized->output_count);
    ok = ok && qc_output_parts_of(&e.parts, real, a, st) &&
         (of_parts = QC_NEW_ARRAY(a, struct qc_error, e.parts.count, st)) &&
         (e.units = QC_NEW_ARRAY(a, struct qc_error, units * e.parts.count, st));
    for (size_t k = 0; ok && k < stream.plan_count; k++) {
        ok = qc_stream_plan(&plans[k], k == REAL ? real : quantized, data, k == REAL ? &plain : &settings->plan, st);
        stream.plans[k] = plans[k];
        each += ok ? qc_plan_runner_bytes(plans[k]) : 0;
    }
    ok = ok && qc_stream_fit(&stream.workers, settings, data, each, st) && qc_stream_run(&stream, st);
    for (size_t k = 0; k < PLANS; k++) qc_plan_free(plans[k]);
    for (size_t i = 0; ok && i < units * e.parts.count; i++) qc_error_add(&of_parts[i % e.parts.count], &e.units[i]);
    for (size_t o = 0; ok && o < outputs; o++) sums[o] = of_parts[qc_worst_part(&e.parts, o, of_parts)];
    return ok;
}
