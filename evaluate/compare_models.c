// SPDX-License-Identifier: Apache-2.0
#include "evaluate/compare_models.h"

#include <string.h>

#include "evaluate/canonical_model.h"
#include "quantize/options/integer_options.h"

/* Splits "A,B" into the values of both models, *two is then true; a single word is the second model's. A missing value
   is NULL. */
static bool split_pair(bool *two, const char *out[2], const char *text, struct qc_arena *a, struct qc_status *st)
{
    const char *comma = text ? strchr(text, ',') : NULL;
    out[0] = NULL;
    out[1] = comma ? comma + 1 : text;
    *two = comma != NULL;
    return !comma || (out[0] = qc_arena_strndup(a, text, (size_t)(comma - text), st));
}

/* Reads --rounding and --accumulator. */
static bool read_arithmetic(struct qc_compared_models *c, const struct qc_options *o, struct qc_status *st)
{
    const char *rounding[2], *accumulator[2];
    bool widths;
    if (!split_pair(&c->contracts, rounding, o->rounding, o->arena, st) ||
        !split_pair(&widths, accumulator, o->accumulator, o->arena, st))
        return false;
    c->both = c->contracts || widths;
    if (!c->contracts) rounding[0] = rounding[1]; /* a runtime runs both */
    for (int k = 0; k < 2; k++) {
        struct qc_options one = *o;
        one.rounding = rounding[k];
        one.accumulator = accumulator[k];
        if (!qc_integer_options(&c->how[k], &one, st)) return false;
    }
    return true;
}

/* Returns the batch of a graph with a fixed first axis; 0 if it is free. */
static int64_t batch_of(const struct qc_graph *g)
{
    const struct qc_shape *s = g->input_count ? &g->values[g->inputs[0].value].type.shape : NULL;
    return s && s->rank > 0 && s->dim[0] > 0 ? s->dim[0] : 0;
}

/* Returns the graph whose inputs samples are read for: a fixed batch fits a free one, but not the reverse. */
static const struct qc_graph *narrower(const struct qc_compared_models *c)
{
    return !batch_of(c->first.graph) && batch_of(c->second.graph) ? c->second.graph : c->first.graph;
}

static bool check_batches(const struct qc_compared_models *c, struct qc_status *st)
{
    const int64_t one = batch_of(c->first.graph), other = batch_of(c->second.graph);
    return !one || !other || one == other ||
           qc_fail(st, QC_BAD_INPUT,
                   "%s takes %lld samples at a time and %s takes %lld; export one of them with the other's batch, or "
                   "with a free one",
                   c->first.path, (long long)one, c->second.path, (long long)other);
}

static bool check_inputs(const struct qc_compared_models *c, struct qc_status *st)
{
    const struct qc_graph *g = c->first.graph, *h = c->second.graph;
    bool same = g->input_count == h->input_count;
    for (size_t i = 0; same && i < g->input_count; i++)
        same = strcmp(g->inputs[i].name, h->inputs[i].name) == 0 &&
               g->values[g->inputs[i].value].type.dtype == h->values[h->inputs[i].value].type.dtype;
    return same || qc_fail(st, QC_BAD_INPUT, "%s and %s do not take the same inputs ('qcalib inspect' shows them)",
                           c->first.path, c->second.path);
}

static bool open_both(struct qc_compared_models *c, const struct qc_model_source sources[2], const struct qc_options *o,
                      struct qc_warnings *w, struct qc_status *st)
{
    return qc_model_open(&c->first, &sources[0], o, w, st) && qc_model_open(&c->second, &sources[1], o, w, st) &&
           qc_model_check_whole(&c->first, st) && qc_model_check_whole(&c->second, st) &&
           qc_model_widen(&c->first, QC_WIDEN_PORTS, st) && qc_model_widen(&c->second, QC_WIDEN_PORTS, st) &&
           check_inputs(c, st) && check_batches(c, st) && qc_model_canonicalise(&c->first, st) &&
           qc_model_canonicalise(&c->second, st);
}

bool qc_compare_models(struct qc_compared_models *c, const struct qc_model_source sources[2],
                       const struct qc_data_source *data, const struct qc_options *o, struct qc_progress *progress,
                       struct qc_warnings *w, struct qc_status *st)
{
    const struct qc_data_request request = {.use = QC_USE_INPUTS, .choose = QC_CHOOSE_SAMPLES};
    if (!read_arithmetic(c, o, st) || !open_both(c, sources, o, w, st) ||
        !qc_model_data(&c->data, narrower(c), data, &request, o, w, st) ||
        !qc_match_layers(&c->pairs, c->first.graph, c->second.graph, o->arena, st))
        return false;
    const struct qc_comparison_job job = {.first = c->first.graph,
                                          .second = c->second.graph,
                                          .how = {&c->how[0], &c->how[1]},
                                          .count_steps = true,
                                          .pair_count = c->pairs.count,
                                          .pairs = c->pairs.values,
                                          .data = c->data,
                                          .run = qc_run_options_of(o, progress)};
    qc_progress_phase(progress, "comparing");
    const bool ok = qc_compare(&c->result, &job, st);
    qc_progress_end(progress);
    return ok && qc_progress_check(progress, st);
}

void qc_compared_models_close(struct qc_compared_models *c)
{
    qc_comparison_free(c->result);
    qc_dataset_free(c->data);
    qc_model_close(&c->second);
    qc_model_close(&c->first);
}
