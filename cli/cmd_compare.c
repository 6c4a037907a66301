// SPDX-License-Identifier: Apache-2.0
/* qcalib compare REFERENCE MODEL --data X.h5 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calib/compare.h"
#include "cli/cmd.h"
#include "cli/interrupt.h"
#include "cli/model.h"
#include "cli/progress.h"
#include "cli/screen.h"

enum { SHOWN = 8 };

struct comparison {
    struct qc_model first, second;
    struct qc_dataset *data;
    size_t pair_count;
    struct qc_pair *pairs;
    struct qc_comparison *result;
};

/* Scale of a value that a DequantizeLinear with one constant scale makes; 0 otherwise. */
static double step_of(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = qc_node_of(g, v);
    const struct qc_tensor *t = n && n->op == QC_OP_DequantizeLinear ? qc_constant_of(g, n->inputs[1]) : NULL;
    return t && t->count == 1 ? qc_tensor_float(t, 0) : 0;
}

/* The value of the model that stands for one of the reference: its dequantized form, else that of the same name. */
static qc_id partner(const struct qc_graph *g, const char *name, struct qc_arena *a, struct qc_status *st)
{
    const char *stored = name ? qc_arena_printf(a, st, "%s_dequantized", name) : NULL;
    qc_id v = stored ? qc_graph_find_value(g, stored) : 0;
    return v || !name ? v : qc_graph_find_value(g, name);
}

/* Behind a value that only a clamp uses: the clamp's result, else 0. */
static qc_id clamped(const struct qc_graph *g, const uint32_t *uses, qc_id v)
{
    for (qc_id id = g->values[v].node; uses[v] == 1 && id <= g->node_count; id++)
        if (g->nodes[id].inputs[0] == v) return qc_op_info(g->nodes[id].op)->affine == QC_AFFINE_BOUND ? g->nodes[id].outputs : 0;
    return 0;
}

/* A stored value of the model may hold what its name says behind a clamp that saturation does: it is compared with the clamp's result. */
static bool find_pairs(struct comparison *c, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = c->first.graph, *h = c->second.graph;
    const uint32_t *uses = qc_graph_uses(g, a, st);
    c->pairs = QC_NEW_ARRAY(a, struct qc_pair, g->value_count, st);
    for (qc_id v = 1; c->pairs && uses && v <= g->value_count; v++) {
        const struct qc_value *x = &g->values[v];
        qc_id first = v, w, behind;
        if (x->kind != QC_VALUE_RESULT || x->type.dtype != QC_F32 || !(w = partner(h, x->name, a, st))) continue;
        const struct qc_node *made = qc_node_of(h, w);
        if (!made || h->values[w].type.dtype != QC_F32 || !qc_shape_equal(&h->values[w].type.shape, &x->type.shape)) continue;
        if (made->op == QC_OP_DequantizeLinear && (behind = clamped(g, uses, v)) && !partner(h, g->values[behind].name, a, st)) first = behind;
        c->pairs[c->pair_count++] = (struct qc_pair){.first = first, .second = w};
    }
    return c->pairs && uses && st->code == QC_OK;
}

static bool check_inputs(const struct comparison *c, struct qc_status *st)
{
    const struct qc_graph *g = c->first.graph, *h = c->second.graph;
    bool same = g->input_count == h->input_count;
    for (size_t i = 0; same && i < g->input_count; i++)
        same = strcmp(g->inputs[i].name, h->inputs[i].name) == 0 && g->values[g->inputs[i].value].type.dtype == h->values[h->inputs[i].value].type.dtype;
    return same || qc_fail(st, QC_BAD_INPUT, "%s and %s do not take the same inputs ('qcalib inspect' shows them)", c->first.path, c->second.path);
}

static double steps(const struct comparison *c, size_t i)
{
    double step = step_of(c->second.graph, c->pairs[i].second);
    return step > 0 ? c->result->pairs[i].max_abs / step : (double)NAN;
}

static const char *op_of(const struct comparison *c, size_t i)
{
    return qc_op_info(qc_node_of(c->first.graph, c->pairs[i].first)->op)->name;
}

static bool print_json(const struct comparison *c, struct qc_status *st)
{
    struct qc_json *root = qc_json_object(), *outputs = qc_json_array(), *layers = qc_json_array();
    for (size_t k = 0; k < c->second.graph->output_count; k++) {
        const struct qc_error *e = &c->result->outputs[k];
        struct qc_json *o = qc_json_object();
        qc_json_set(o, "name", qc_json_string(c->second.graph->outputs[k].name));
        qc_json_set(o, "equal", qc_json_bool(c->result->differing[k] == 0));
        qc_json_set(o, "differing", qc_json_integer((int64_t)c->result->differing[k]));
        qc_json_set(o, "elements", qc_json_integer((int64_t)c->result->elements[k]));
        qc_json_set(o, "max_abs", qc_json_number(e->max_abs));
        qc_json_set(o, "sqnr_db", qc_json_number(qc_error_sqnr_db(e)));
        qc_json_set(o, "cosine", qc_json_number(qc_error_cosine(e)));
        qc_json_add(outputs, o);
    }
    for (size_t i = 0; i < c->pair_count; i++) {
        const struct qc_error *e = &c->result->pairs[i];
        struct qc_json *o = qc_json_object();
        qc_json_set(o, "name", qc_json_string(c->first.graph->values[c->pairs[i].first].name));
        qc_json_set(o, "op", qc_json_string(op_of(c, i)));
        qc_json_set(o, "sqnr_db", qc_json_number(qc_error_sqnr_db(e)));
        qc_json_set(o, "cosine", qc_json_number(qc_error_cosine(e)));
        qc_json_set(o, "max_abs", qc_json_number(e->max_abs));
        qc_json_set(o, "max_steps", qc_json_number(steps(c, i)));
        qc_json_add(layers, o);
    }
    qc_json_set(root, "samples", qc_json_integer((int64_t)c->result->samples));
    qc_json_set(root, "outputs", outputs);
    qc_json_set(root, "layers", layers);
    return qc_print_json(root, st);
}

static void print_db(double db)
{
    if (isinf(db)) printf("   equal");
    else if (isnan(db)) printf("       -");
    else printf("%8.2f", db);
}

static void print_layer(const struct comparison *c, size_t i)
{
    const struct qc_error *e = &c->result->pairs[i];
    double s = steps(c, i);
    print_db(qc_error_sqnr_db(e));
    printf("  %9.6f  %9.3g  ", qc_error_cosine(e), e->max_abs);
    if (isnan(s)) printf("%6s", "-");
    else printf("%6.1f", s);
    printf("  %-12s ", op_of(c, i));
    qc_print_safe(stdout, c->first.graph->values[c->pairs[i].first].name);
    putchar('\n');
}

/* Numbers of the worst layers by SQNR, worst first. */
static size_t worst(size_t *list, size_t most, const struct comparison *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->pair_count; i++) {
        double db = qc_error_sqnr_db(&c->result->pairs[i]);
        size_t at = count;
        while (at > 0 && qc_error_sqnr_db(&c->result->pairs[list[at - 1]]) > db) at--;
        if (isnan(db) || at >= most) continue;
        if (count < most) count++;
        memmove(list + at + 1, list + at, (count - at - 1) * sizeof *list);
        list[at] = i;
    }
    return count;
}

static void print_table(const struct comparison *c, const struct qc_cli_options *o)
{
    size_t list[SHOWN];
    for (size_t k = 0; k < c->second.graph->output_count; k++) {
        const struct qc_error *e = &c->result->outputs[k];
        printf("output ");
        qc_print_safe(stdout, c->second.graph->outputs[k].name);
        if (!c->result->differing[k]) printf(": equal, bit for bit, on %zu samples\n", c->result->samples);
        else printf(": SQNR %.2f dB, cosine %.6f, at most %.4g apart on %zu samples\n", qc_error_sqnr_db(e), qc_error_cosine(e), e->max_abs, c->result->samples);
    }
    printf("%s SQNR dB     cosine  max error   steps  op           value%s\n", qc_style(stdout, QC_STYLE_BOLD), qc_style(stdout, QC_STYLE_PLAIN));
    if (o->verbose)
        for (size_t i = 0; i < c->pair_count; i++) print_layer(c, i);
    size_t shown = o->verbose ? 0 : worst(list, SHOWN, c);
    for (size_t i = 0; i < shown; i++) print_layer(c, list[i]);
    if (!o->verbose && c->pair_count > shown) printf("%zu layers compared, the worst shown; -v or --json shows all\n", c->pair_count);
}

static bool check_tolerance(const struct comparison *c, double tolerance, struct qc_status *st)
{
    for (size_t k = 0; !isnan(tolerance) && k < c->second.graph->output_count; k++) {
        const struct qc_error *e = &c->result->outputs[k];
        bool numbers = e->count > 0;
        if (numbers ? !(e->max_abs <= tolerance) : c->result->differing[k] != 0)
            return qc_fail(st, QC_DEMAND, "--tolerance %g: output '%s' differs by %g", tolerance, c->second.graph->outputs[k].name, e->max_abs);
    }
    return true;
}

bool qc_cmd_compare(const struct qc_cli_options *o, struct qc_status *st)
{
    struct comparison c = {.pairs = NULL};
    struct qc_warnings *w = NULL;
    struct qc_progress *progress = NULL;
    bool ok = false;
    if (!o->data) return qc_fail(st, QC_USAGE, "compare needs --data FILE with samples; see 'qcalib help compare'");
    if (!qc_warnings_new(&w, st) || !qc_progress_new(&progress, o, st) || !qc_model_open(&c.first, o->operands.items[0], w, st) ||
        !qc_model_open(&c.second, o->operands.items[1], w, st) || !check_inputs(&c, st) ||
        !qc_model_data(&c.data, c.first.graph, o->data, QC_USE_INPUTS, QC_CHOOSE_SAMPLES, o, w, st) || !find_pairs(&c, o->arena, st))
        goto out;
    struct qc_comparison_job job = {.first = c.first.graph,
                                    .second = c.second.graph,
                                    .pair_count = c.pair_count,
                                    .pairs = c.pairs,
                                    .data = c.data,
                                    .workers = (unsigned)o->threads,
                                    .memory_limit = (size_t)o->memory_limit,
                                    .progress = qc_progress_step,
                                    .progress_user = progress};
    qc_progress_phase(progress, "comparing");
    bool ran = qc_compare(&c.result, &job, st);
    qc_progress_end(progress);
    if (!ran || !qc_interrupt_check(st)) goto out;
    if (o->json) ok = print_json(&c, st);
    else if (!o->quiet) print_table(&c, o);
    ok = (!o->json || ok) && check_tolerance(&c, o->tolerance, st);
    if (!o->quiet) qc_warnings_print(w, o->verbose ? QC_WARNINGS_ALL : QC_WARNINGS_SOME);
out:
    qc_comparison_free(c.result);
    qc_dataset_free(c.data);
    qc_model_close(&c.second);
    qc_model_close(&c.first);
    qc_progress_free(progress);
    qc_warnings_free(w);
    return ok;
}
