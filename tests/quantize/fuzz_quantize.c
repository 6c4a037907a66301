// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: any bytes as a model through all passes and the interpreter, with made-up scales and samples, in a
   budget that keeps one execution small. Whatever is refused is refused with a status; graphs of all passes verify, and
   the simulated graph and the produced one give the same bits. cmake with clang, -DQC_FUZZ=ON and
   -DQC_SANITIZE=address,undefined,fuzzer-no-link, then fuzz_quantize CORPUS. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/evaluate.h"
#include "export/formats/exporter.h"
#include "graph/core/verify.h"
#include "graph/infer/folding.h"
#include "onnx/read/import.h"
#include "onnx/write/emit.h"
#include "rewrite/passes/channels.h"
#include "rewrite/passes/functions.h"
#include "simq/plan/plan.h"

enum { LIMIT = 8 << 20, WORK = 1 << 24, INPUT_ELEMENTS = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct all {
    struct qc_graph *imported, *normalised, *equalized, *joined, *simulated, *expanded, *folded, *produced, *fixed,
        *lowered;
    struct qc_partition *partition;
    const struct qc_rules *rules, *fold_rules;
    struct qc_shape *shapes; /* [inputs] */
};

/* What a pass made is sound, or it is a bug. */
static bool sound(const struct qc_graph *g, const char *pass)
{
    struct qc_status st = QC_STATUS_INIT;
    if (qc_graph_verify(g, &st)) return true;
    fprintf(stderr, "after %s: %s\n", pass, st.message);
    abort();
}

static bool made(bool ok, const struct qc_status *st)
{
    if (ok != (st->code == QC_OK)) {
        fprintf(stderr, "%s with code %d: %s\n", ok ? "success" : "failure", (int)st->code, st->message);
        abort();
    }
    return ok;
}

/* A batch of 2, other free dimensions of 3. */
static bool choose_shapes(struct all *a)
{
    const struct qc_graph *g = a->imported;
    size_t all = 0;
    a->shapes = calloc(g->input_count + 1, sizeof *a->shapes);
    for (size_t i = 0; a->shapes && i < g->input_count; i++) {
        struct qc_shape *s = &a->shapes[i];
        size_t n;
        *s = qc_value(g, g->inputs[i].value)->type.shape;
        for (int d = 0; d < s->rank; d++)
            if (s->dim[d] == QC_FREE) s->dim[d] = d ? 3 : 2;
        if (!qc_shape_count(&n, s) || n > INPUT_ELEMENTS) return false;
        all += n;
    }
    return a->shapes && all <= 4 * INPUT_ELEMENTS;
}

static bool bind(struct qc_graph *g, qc_id quantizer)
{
    struct qc_status st = QC_STATUS_INIT;
    const struct qc_qparams *s = &g->qparams_of[quantizer];
    const struct qc_levels levels = qc_qparams_levels(s);
    size_t count = 1;
    for (qc_id v = 1; s->per_channel && v <= g->value_count; v++) {
        const struct qc_type *t = &g->values[v].type;
        if (t->qparams == quantizer && t->axis >= 0 && t->axis < t->shape.rank && t->shape.dim[t->axis] > 0)
            count = (size_t)t->shape.dim[t->axis];
    }
    float *scale = calloc(count, sizeof *scale);
    int32_t *zero = calloc(count, sizeof *zero);
    for (size_t i = 0; scale && zero && i < count; i++) {
        scale[i] = 0.01f * (float)(1 + (quantizer + i) % 7);
        zero[i] = s->is_weight || s->symmetry == QC_SYMMETRIC
                      ? 0
                      : levels.lo + (levels.hi - levels.lo) / (int32_t)(2 + quantizer % 3);
    }
    const bool ok = scale && zero && qc_graph_bind_quantizer(g, quantizer, count, scale, zero, &st);
    free(scale);
    free(zero);
    return ok;
}

/* Is one run of the graph short? */
static bool is_short(struct all *a, const struct qc_graph *g)
{
    struct qc_status st = QC_STATUS_INIT;
    uint64_t all = 0;
    if (!made(qc_fix_shapes(&a->fixed, g, a->shapes, qc_evaluate, &st), &st)) return false;
    for (qc_id id = 1; id <= a->fixed->node_count; id++) {
        size_t bytes;
        uint64_t work;
        qc_node_cost(&bytes, &work, a->fixed, &a->fixed->nodes[id]);
        if (work > WORK - all) return false;
        all += work;
    }
    return true;
}

static void fill(struct qc_view v, size_t seed)
{
    const size_t n = qc_view_count(&v);
    for (size_t i = 0; i < n; i++) {
        const int x = (int)((i * 7919 + seed * 31) % 61) - 30;
        if (v.dtype == QC_F32)
            ((float *)v.data)[i] = (float)x * 0.11f;
        else if (v.dtype == QC_F64)
            ((double *)v.data)[i] = (double)x * 0.11;
        else if (v.dtype == QC_I64)
            ((int64_t *)v.data)[i] = x;
        else
            memset((char *)v.data + i * qc_dtype_size(v.dtype), v.dtype == QC_BOOL ? x & 1 : (x & 3),
                   qc_dtype_size(v.dtype));
    }
}

static bool ran(struct qc_plan **plan, struct qc_runner **r, const struct all *a, const struct qc_graph *g)
{
    struct qc_status st = QC_STATUS_INIT;
    if (!made(qc_plan_new(plan, g, a->shapes, NULL, &st), &st)) return false;
    if (qc_plan_runner_bytes(*plan) > 2 * (size_t)LIMIT) abort(); /* the budget of a run was not asked */
    if (!made(qc_runner_new(r, *plan, &st), &st)) return false;
    for (size_t i = 0; i < g->input_count; i++) fill(qc_runner_input(*r, i), i);
    return made(qc_runner_run(*r, NULL, NULL, &st), &st);
}

static bool same(const struct qc_view *a, const struct qc_view *b)
{
    const size_t n = qc_view_count(a);
    if (a->dtype != b->dtype || n != qc_view_count(b)) return false;
    for (size_t i = 0; a->dtype == QC_F32 && i < n; i++) {
        const float x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
        if (memcmp(&x, &y, sizeof x) != 0 && !(isnan(x) && isnan(y))) return false;
    }
    return a->dtype == QC_F32 || n == 0 || memcmp(a->data, b->data, n * qc_dtype_size(a->dtype)) == 0;
}

/* The simulated graph and the produced one on one sample. */
static void run_both(const struct all *a)
{
    struct qc_plan *plan[2] = {NULL, NULL};
    struct qc_runner *r[2] = {NULL, NULL};
    const bool both = ran(&plan[0], &r[0], a, a->folded) && ran(&plan[1], &r[1], a, a->produced);
    for (size_t k = 0; both && k < a->folded->output_count; k++) {
        const struct qc_view x = qc_runner_output(r[0], k), y = qc_runner_output(r[1], k);
        if (same(&x, &y)) continue;
        fprintf(stderr, "output '%s': the simulated graph and the produced one differ\n", a->folded->outputs[k].name);
        abort();
    }
    for (int i = 0; i < 2; i++) {
        qc_runner_free(r[i]);
        qc_plan_free(plan[i]);
    }
}

static void export_all(struct all *a)
{
    for (size_t i = 0; i < qc_exporter_count(); i++) {
        struct qc_status st = QC_STATUS_INIT;
        void *bytes = NULL;
        size_t n;
        if (!qc_exporter_at(i)->lower || !made(qc_exporter_at(i)->lower(&a->lowered, a->produced, NULL, &st), &st))
            continue;
        if (sound(a->lowered, qc_exporter_name(qc_exporter_at(i))) &&
            made(qc_onnx_emit(&bytes, &n, a->lowered, NULL, &st), &st))
            free(bytes);
        qc_graph_free(a->lowered);
        a->lowered = NULL;
    }
}

static void run_one(struct all *a, const struct qc_graph *g)
{
    struct qc_plan *plan = NULL;
    struct qc_runner *r = NULL;
    ran(&plan, &r, a, g);
    qc_runner_free(r);
    qc_plan_free(plan);
}

static void quantize(struct all *a)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_equalized info;
    if (!made(qc_normalise(&a->normalised, a->imported, a->rules, qc_evaluate, &st), &st) ||
        !sound(a->normalised, "normalise") || !is_short(a, a->normalised))
        return;
    if (!made(qc_equalize(&a->equalized, &info, a->normalised, QC_EQUALIZE_ALL, &st), &st) ||
        !sound(a->equalized, "equalize"))
        return;
    if (!made(qc_join_functions(&a->joined, a->normalised, a->rules, &QC_PARTITION_INIT, &st), &st) ||
        !sound(a->joined, "functions"))
        return;
    if (!made(qc_partition_new(&a->partition, a->joined, a->rules, &QC_PARTITION_INIT, &st), &st) ||
        !made(qc_simulate(&a->simulated, a->partition, &st), &st) || !sound(a->simulated, "simulate"))
        return;
    for (qc_id s = 1; s <= a->simulated->qparams_count; s++)
        if (a->simulated->qparams_of[s].kind == QC_QPARAMS_QUANTIZER && !bind(a->simulated, s)) return;
    if (!made(qc_propagate_qdq(&a->expanded, a->simulated, a->rules, false, &st), &st) ||
        !sound(a->expanded, "expand") || !made(qc_fold(&a->folded, a->expanded, a->fold_rules, &st), &st) ||
        !sound(a->folded, "fold") || !made(qc_to_integer(&a->produced, a->folded, qc_evaluate, &st), &st) ||
        !sound(a->produced, "realise"))
        return;
    run_both(a);
    export_all(a);
}

static void run_quantized(struct all *a)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_canonical_model m;
    if (!is_short(a, a->imported) || !made(qc_canonical_model_of(&m, a->imported, &st), &st)) return;
    a->produced = m.produced;
    m.produced = NULL;
    qc_canonical_model_free(&m);
    run_one(a, a->produced);
    export_all(a);
}

/* The built-in rules for a target, which no pass changes. */
static struct qc_rules *read_rules(const char *const *builtin, const char *target)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_rules *rules = qc_rules_new(&st);
    bool ok = rules != NULL;
    for (; ok && *builtin; builtin++) ok = qc_rules_add_builtin(rules, *builtin, &st);
    if (!ok || !qc_rules_add_target(rules, target, &st)) abort();
    return rules;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const builtin[] = {"normalise.rules", "patterns.rules", "islands.rules", "allow.rules", NULL},
                             *const fold[] = {"requantize.rules", NULL};
    static const struct qc_rules *rules, *fold_rules; /* read once: that takes longer than most models */
    if (!rules) rules = read_rules(builtin, "ort");
    if (!fold_rules) fold_rules = read_rules(fold, NULL);
    struct qc_status st = QC_STATUS_INIT;
    struct all a = {.rules = rules, .fold_rules = fold_rules};
    if (!made(qc_onnx_import_memory_with(&a.imported, NULL, data, size, NULL, &QC_IMPORT_INIT, &st), &st)) return 0;
    a.imported->budget.memory_limit = LIMIT;
    if (choose_shapes(&a)) {
        if (qc_is_quantized(a.imported))
            run_quantized(&a);
        else
            quantize(&a);
    }
    qc_graph_free(a.fixed);
    qc_graph_free(a.produced);
    qc_graph_free(a.folded);
    qc_graph_free(a.expanded);
    qc_graph_free(a.simulated);
    qc_partition_free(a.partition);
    qc_graph_free(a.joined);
    qc_graph_free(a.equalized);
    qc_graph_free(a.normalised);
    qc_graph_free(a.imported);
    free(a.shapes);
    return 0;
}
