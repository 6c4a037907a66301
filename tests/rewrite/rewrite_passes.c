// SPDX-License-Identifier: Apache-2.0
#include "rewrite_passes.h"

#include <dirent.h>

#include "base/file.h"
#include "graph/core/verify.h"
#include "graph/text/text.h"
#include "rewrite/passes/dynamic.h"
#include "rewrite/passes/functions.h"
#include "simq/plan/plan.h"

struct qc_rules *passes_rules(const char *more, struct qc_status *st)
{
    struct qc_rules *r = qc_rules_new(st);
    if (r && qc_rules_add_builtin(r, "normalise.rules", st) && qc_rules_add_builtin(r, "patterns.rules", st) &&
        qc_rules_add_builtin(r, "islands.rules", st) && qc_rules_add_builtin(r, "allow.rules", st) &&
        (!more || qc_rules_parse(r, "more.rules", more, strlen(more), st)))
        return r;
    qc_rules_free(r);
    return NULL;
}

struct qc_rules *passes_rules_of(const char *text)
{
    struct qc_rules *r = qc_rules_new(ST);
    MUST(qc_rules_parse(r, "my.rules", text, strlen(text), ST));
    return r;
}

bool passes_text_returns(const struct qc_graph *g, const char *pass, struct qc_status *st)
{
    OWN(qc_graph) *parsed = NULL;
    QC_FREED char *again = NULL, *text = qc_graph_print(g, &QC_TEXT_ALL, st);
    bool ok = text && qc_graph_parse(&parsed, text, strlen(text), st) &&
              (again = qc_graph_print(parsed, &QC_TEXT_ALL, st)) != NULL;
    if (ok && strcmp(text, again) != 0) ok = qc_fail(st, QC_BAD_INPUT, "the text that was parsed back differs");
    return ok || qc_where(st, "text of the graph after pass '%s'", pass);
}

size_t passes_elements(const struct qc_graph *g)
{
    size_t n = 0;
    for (qc_id v = 1; v <= g->value_count; v++) n += g->values[v].constant ? g->values[v].constant->count : 0;
    return n;
}

static bool check(const struct qc_graph *g, const char *pass, struct qc_op_counts *heavy,
                  const struct pass_setup *setup, struct qc_status *st)
{
    if (!qc_graph_verify(g, st) || (heavy && !qc_graph_verify_heavy(g, heavy, pass, st)))
        return qc_where(st, "after pass '%s'", pass);
    return passes_elements(g) > setup->text_elements || passes_text_returns(g, pass, st);
}

static size_t channels_of(const struct qc_graph *g, qc_id quantizer)
{
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_type *t = &g->values[v].type;
        if (t->qparams == quantizer && g->qparams_of[quantizer].per_channel) return (size_t)t->shape.dim[t->axis];
    }
    return 1;
}

static bool bind_quantizer(struct qc_graph *g, qc_id quantizer, const struct pass_setup *setup, struct qc_status *st)
{
    const struct qc_qparams *s = &g->qparams_of[quantizer];
    struct qc_levels levels = qc_qparams_levels(s);
    size_t count = channels_of(g, quantizer);
    float scale = s->is_weight ? 0.0078125f : 0.0625f;
    int32_t zero_point = s->is_weight ? 0 : (levels.lo + levels.hi + 1) / 2;
    for (size_t i = 0; i < setup->binding_count; i++)
        if (strcmp(setup->bindings[i].quantizer, s->name) == 0) {
            scale = setup->bindings[i].scale;
            zero_point = setup->bindings[i].zero_point;
        }
    QC_FREED float *scales = calloc(count, sizeof *scales);
    QC_FREED int32_t *zeros = calloc(count, sizeof *zeros);
    bool ok = scales && zeros ? true : qc_fail_memory(st, count * sizeof *scales);
    for (size_t i = 0; ok && i < count; i++) {
        scales[i] = scale;
        zeros[i] = zero_point;
    }
    ok = ok && qc_graph_bind_quantizer(g, quantizer, count, scales, zeros, st);
    return ok;
}

static bool check_bindings(const struct qc_graph *g, const struct pass_setup *setup, struct qc_status *st)
{
    for (size_t i = 0; i < setup->binding_count; i++) {
        bool known = false;
        for (qc_id s = 1; s <= g->qparams_count; s++)
            known = known || strcmp(g->qparams_of[s].name, setup->bindings[i].quantizer) == 0;
        if (!known) return qc_fail(st, QC_BAD_INPUT, "bind: there is no quantizer '%s'", setup->bindings[i].quantizer);
    }
    return true;
}

static bool set_apart(struct passes *p, const char *rules_file, struct qc_status *st)
{
    OWN(qc_rules) *rules = qc_rules_new(st);
    OWN(qc_graph) *joined = p->normalised;
    p->normalised = NULL;
    bool ok = rules && qc_rules_add_builtin(rules, rules_file, st) &&
              qc_normalise(&p->normalised, joined, rules, qc_evaluate, st);
    return ok;
}

bool passes_run(struct passes *out, const struct qc_graph *g, const struct pass_setup *setup, struct qc_status *st)
{
    struct passes *p = out;
    struct qc_op_counts heavy;
    *p = (struct passes){0};
    if (!(p->rules = passes_rules(setup->rules, st)) || !(p->fold_rules = qc_rules_new(st)) ||
        !qc_rules_add_builtin(p->fold_rules, "requantize.rules", st) ||
        !qc_rules_add_builtin(p->fold_rules, "requantize_once.rules", st) ||
        !qc_rules_add_target(p->rules, setup->target, st))
        return false;
    if (setup->costs && !qc_rules_add_builtin(p->rules, "costs.rules", st)) return false;
    if (setup->narrows_bias && !qc_rules_add_builtin(p->rules, "bias_narrowed.rules", st)) return false;
    if (!qc_normalise(&p->normalised, g, p->rules, qc_evaluate, st) ||
        (setup->scheme.activation.dtype != QC_NONE && !set_apart(p, "as_convs.rules", st)) ||
        (setup->narrows_bias && !set_apart(p, "bias_apart.rules", st)) ||
        !check(p->normalised, "normalise", NULL, setup, st))
        return false;
    qc_graph_count_ops(&heavy, p->normalised);
    if (!qc_join_functions(&p->joined, p->normalised, p->rules, &setup->scheme, st) ||
        !check(p->joined, "functions", &heavy, setup, st) ||
        !qc_partition_new(&p->partition, p->joined, p->rules, &setup->scheme, st) ||
        !qc_simulate(&p->simulated, p->partition, st) || !check(p->simulated, "simulate", &heavy, setup, st) ||
        !(p->unbound = qc_graph_print(p->simulated, &QC_TEXT_SHORT, st)) || !check_bindings(p->simulated, setup, st))
        return false;
    for (qc_id s = 1; s <= p->simulated->qparams_count; s++)
        if (p->simulated->qparams_of[s].kind == QC_QPARAMS_QUANTIZER && !bind_quantizer(p->simulated, s, setup, st))
            return false;
    return check(p->simulated, "calibrate", &heavy, setup, st) &&
           qc_store_weights(&p->stored, p->simulated, QC_FORMS_NOT_KEPT, qc_evaluate, st) &&
           check(p->stored, "round", &heavy, setup, st) && qc_make_dynamic(&p->dynamic, p->stored, p->partition, st) &&
           (!p->dynamic || check(p->dynamic, "dynamic", &heavy, setup, st)) &&
           qc_propagate_qdq(&p->expanded, p->dynamic ? p->dynamic : p->simulated, p->rules,
                            setup->scheme.one_scale_joins, st) &&
           check(p->expanded, "expand", &heavy, setup, st) && qc_fold(&p->folded, p->expanded, p->fold_rules, st) &&
           check(p->folded, "fold", &heavy, setup, st) && qc_to_integer(&p->produced, p->folded, qc_evaluate, st) &&
           check(p->produced, "realise", &heavy, setup, st);
}

void passes_free(struct passes *p)
{
    qc_graph_free(p->produced);
    qc_graph_free(p->stored);
    qc_graph_free(p->folded);
    qc_graph_free(p->expanded);
    qc_graph_free(p->dynamic);
    qc_graph_free(p->simulated);
    qc_partition_free(p->partition);
    qc_graph_free(p->joined);
    qc_graph_free(p->normalised);
    qc_rules_free(p->rules);
    qc_rules_free(p->fold_rules);
    free(p->unbound);
    *p = (struct passes){0};
}

size_t passes_count(const struct qc_graph *g, enum qc_op op)
{
    struct qc_op_counts counts;
    qc_graph_count_ops(&counts, g);
    return counts.of[op];
}

static int is_float_model(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot && strcmp(dot, ".onnx") == 0 && !strstr(d->d_name, "_qdq");
}

void passes_given_models(void (*of)(const char *path, const char *name))
{
    const char *data = getenv("QCALIB_DATA");
    char folder[512], path[1024];
    QC_FREED struct dirent **names = NULL;
    if (!data || !*data) cr_skip_test("QCALIB_DATA is not set");
    qc_text(folder, sizeof folder, "%s/models", data);
    const int count = scandir(folder, &names, is_float_model, alphasort);
    cr_assert_gt(count, 0, "no models in %s", folder);
    for (int i = 0; i < count; i++) {
        qc_text(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if ((size_t)i % test_one_of(1, 4) == 0) of(path, names[i]->d_name);
        free(names[i]);
    }
}

static int is_case(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot && strcmp(dot, ".txt") == 0;
}

void passes_each_case(void (*of)(const char *name, int number))
{
    QC_FREED struct dirent **names = NULL;
    const int count = scandir(QC_TEST_SOURCE "/tests/rewrite/cases", &names, is_case, alphasort);
    cr_assert_geq(count, 30);
    for (int i = 0; i < count; i++) {
        of(names[i]->d_name, i);
        free(names[i]);
    }
}

struct qc_graph *passes_case_graph(const char *name)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_graph *g = NULL;
    char path[512];
    void *text = NULL;
    size_t size;
    qc_text(path, sizeof path, "%s/tests/rewrite/cases/%s", QC_TEST_SOURCE, name);
    MUST(qc_file_read(&text, &size, path, a, ST));
    const char *from = strstr(text, "== graph\n"), *to = from ? strstr(from + 9, "\n== ") : NULL;
    cr_assert(from, "%s", name);
    from += 9;
    cr_assert(qc_graph_parse(&g, from, to ? (size_t)(to + 1 - from) : strlen(from), ST), "%s: %s", name,
              failure.message);
    return g;
}
