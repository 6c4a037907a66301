// SPDX-License-Identifier: Apache-2.0
#include "calib_case.h"

#include "calib/ranges/quantizer_channels.h"
#include "calib/statistics/collection.h"
#include "datasets/stream/data_writer.h"
#include "graph/core/rebuild.h"
#include "graph/core/verify.h"
#include "onnx/read/import.h"

static size_t elements(const struct case_data *d)
{
    size_t n = 1;
    for (unsigned i = 0; i < d->rank; i++) n *= (size_t)d->dims[i];
    return n;
}

void case_write(char path[CASE_PATH], const struct case_data *sets, size_t count, size_t samples)
{
    struct qc_writer_output outputs[8];
    OWN(qc_writer) *w = NULL;
    static unsigned number; /* of this process: each case runs in its own */
    cr_assert_leq(count, 8);
    qc_text(path, CASE_PATH, "calib_case_%ld_%u.h5", (long)getpid(), number++);
    for (size_t i = 0; i < count; i++)
        outputs[i] = (struct qc_writer_output){.name = sets[i].name, .dtype = sets[i].dtype};
    MUST(qc_writer_open(&w, path, outputs, count, 1, true, ST));
    for (size_t i = 0; i < count; i++) {
        size_t bytes = elements(&sets[i]) * qc_dtype_size(sets[i].dtype);
        int64_t dims[QC_RANK_MAX + 1] = {1};
        memcpy(dims + 1, sets[i].dims, sets[i].rank * sizeof *dims);
        for (size_t s = 0; s < samples; s++)
            MUST(qc_writer_put(w, i, s, (const char *)sets[i].values + s * bytes, dims, sets[i].rank + 1, ST));
    }
    MUST(qc_writer_commit(w, ST));
}

void case_unlink(const char *path)
{
    cr_expect_eq(unlink(path), 0);
}

struct qc_graph *case_model(const char *path)
{
    struct qc_graph *g = NULL;
    MUST(qc_onnx_import_with(&g, NULL, path, &QC_IMPORT_INIT, ST));
    return g;
}

struct qc_dataset *case_open(const struct qc_graph *g, const char *path, bool truth)
{
    struct qc_dataset *d = NULL;
    struct qc_dataset_options options = QC_DATASET_OPTIONS_INIT;
    options.truth = truth;
    const struct qc_input_spec *specs = qc_stream_specs(g, test_arena(), ST);
    MUST(specs && qc_dataset_open(&d, path, specs, g->input_count, &options, ST));
    return d;
}

const struct qc_settings case_rounds = {.workers = 1, .compensate = true, .correct_bias = true};

bool case_evaluate(struct qc_metric *out, const struct qc_graph *g, const struct qc_dataset *data, unsigned workers,
                   struct qc_status *st)
{
    struct qc_overflows unused;
    return qc_evaluate_sums(out, &unused,
                            &(struct qc_evaluation){.graph = g, .data = data, .settings = CASE_WORKERS(workers)},
                            test_arena(), st);
}

bool case_simulate(struct case_run *r, const struct qc_graph *g, const struct case_setup *s, struct qc_status *st)
{
    return (r->rules = qc_rules_new(st)) && (r->fold_rules = qc_rules_new(st)) &&
           qc_rules_add_builtin(r->rules, "normalise.rules", st) &&
           qc_rules_add_builtin(r->rules, "patterns.rules", st) && qc_rules_add_builtin(r->rules, "allow.rules", st) &&
           qc_rules_add_builtin(r->fold_rules, "requantize.rules", st) &&
           (!s->rules || qc_rules_parse(r->rules, "case", s->rules, strlen(s->rules), st)) &&
           qc_normalise(&r->normalised, g, r->rules, qc_evaluate, st) &&
           qc_partition_new(&r->partition, r->normalised, r->rules, &s->scheme, st) &&
           qc_simulate(&r->simulated, r->partition, st) && qc_graph_verify(r->simulated, st);
}

bool case_choose(struct case_run *r, const struct qc_calibration_options *options, struct qc_status *st)
{
    struct qc_collect_options collect =
        FIELDS(.need = qc_need_of_scan(options->activation->need), .observer = options->activation,
               .observer_values = &options->activation_values, .moments = options->moments,
               .settings = options->settings);
    OWN(qc_collection) *seen = NULL;
    struct qc_collect_cost cost;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_named_values values;
    bool ok =
        a ? qc_observed_values(&values, r->simulated, a, st) &&
                (!options->channels || qc_named_channel_axes(&collect.channel_axes, &values, r->simulated, a, st)) &&
                qc_collect(&seen, &cost, r->simulated, &values, r->data, &collect, st)
          : qc_fail_memory(st, 1);
    struct qc_calibration_options choosing = *options;
    choosing.second_moments = ok ? seen->second_moments : NULL;
    ok = ok && qc_choose(&r->calibration, r->simulated, seen, qc_dataset_file(r->data), &choosing, st);
    if (ok) {
        r->calibration->cost = cost;
        r->second_moments = seen->second_moments;
        seen->second_moments = NULL;
    }
    return ok;
}

bool case_calibrate(struct case_run *out, const struct qc_graph *g, const char *path, const struct case_setup *s,
                    struct qc_status *st)
{
    struct case_run *r = out;
    struct qc_calibration_options o =
        FIELDS(.settings =
                   &(struct qc_settings)FIELDS(.workers = s->workers, .memory_limit = s->memory_limit,
                                               .look_through = s->look_through, .nonfinite_error = s->nonfinite_error),
               .moments = s->moments);
    *r = (struct case_run){0};
    if (!qc_observer_parse(&o.activation, &o.activation_values, s->method, st) ||
        !qc_observer_parse(&o.weight, &o.weight_values, s->weight_method, st) || !case_simulate(r, g, s, st))
        return false;
    o.channels = o.activation->of_output || qc_quantizers_have_channels(r->simulated);
    r->data = case_open(r->simulated, path, false);
    if (s->samples && !qc_dataset_select(r->data, &(struct qc_selection){.samples = s->samples}, st)) return false;
    return case_choose(r, &o, st) && qc_graph_verify(r->simulated, st) &&
           qc_propagate_qdq(&r->expanded, r->simulated, r->rules, false, st) &&
           qc_fold(&r->folded, r->expanded, r->fold_rules, st) && qc_graph_verify(r->folded, st) &&
           qc_to_integer(&r->produced, r->folded, qc_evaluate, st) && qc_graph_verify(r->produced, st);
}

void case_calibrate_skewed(struct case_run *out, const struct qc_graph *g, const char *method, size_t samples)
{
    struct case_setup setup = CASE_SETUP;
    const struct qc_shape *shape = &g->values[g->inputs[0].value].type.shape;
    struct case_data set = {.name = g->inputs[0].name, .dtype = QC_F32, .rank = (unsigned)shape->rank - 1};
    for (unsigned i = 0; i < set.rank; i++) set.dims[i] = shape->dim[i + 1];
    const size_t n = samples * elements(&set);
    uint64_t seed = 7;
    QC_FREED float *x = malloc(n * sizeof *x);
    cr_assert(x);
    for (size_t i = 0; i < n; i++) x[i] = expf(0.8f * case_normal(&seed));
    set.values = x;
    CASE_FILE path[CASE_PATH];
    case_write(path, &set, 1, samples);
    setup.method = method;
    MUST(case_calibrate(out, g, path, &setup, ST));
}

bool case_copy(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct qc_graph *const *graphs = user;
    struct qc_rebuild b;
    const bool ok = qc_rebuild_begin(&b, graphs[k], st) && qc_rebuild_finish(out, &b, st);
    qc_rebuild_free(&b);
    return ok;
}

void case_free(struct case_run *r)
{
    qc_graph_free(r->produced);
    qc_graph_free(r->folded);
    qc_graph_free(r->expanded);
    qc_calibration_free(r->calibration);
    qc_second_moments_free(r->second_moments);
    qc_dataset_free(r->data);
    qc_graph_free(r->simulated);
    qc_partition_free(r->partition);
    qc_graph_free(r->normalised);
    qc_rules_free(r->rules);
    qc_rules_free(r->fold_rules);
    *r = (struct case_run){0};
}

qc_id case_quantizer(const struct qc_graph *g, const char *name)
{
    for (qc_id s = 1; s <= g->qparams_count; s++)
        if (g->qparams_of[s].kind == QC_QPARAMS_QUANTIZER && strcmp(g->qparams_of[s].name, name) == 0) return s;
    cr_assert_fail("there is no quantizer '%s'", name);
    return 0;
}

float case_normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += (double)(test_random(state) >> 11) * 0x1p-53;
    return (float)sum;
}

char *case_numbers(size_t count, float scale, uint64_t seed)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    cr_assert(f);
    for (size_t i = 0; i < count; i++) fprintf(f, "%s%.9g", i ? ", " : "{", (double)(scale * case_normal(&seed)));
    fputs("}", f);
    cr_assert_eq(fclose(f), 0);
    return text;
}
