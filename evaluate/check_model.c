// SPDX-License-Identifier: Apache-2.0
#include "evaluate/evaluate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "calib/statistics/stream.h"
#include "export/formats/exporter.h"
#include "graph/core/multiply_adds.h"
#include "graph/core/pair_order.h"
#include "graph/core/qlinear.h"
#include "graph/core/uses.h"
#include "quantize/options/partition_options.h"
#include "quantize/search/cost.h"
#include "quantize/setup/setup.h"

/* A weight is clipped if more than this share of its values, and more than two of each channel, are at the ends. Random
   normal weights of a channel of 64 or more have 3 % there, with a range that ends at their largest value. */
static const double clipped_weights = 0.08;
/* The share of an activation at an end of its range. Observers clip at most 0.1 % of calibration samples. */
static const double clipped_activations = 0.01;

struct checking {
    struct qc_json *findings;
    size_t samples, products, integer_products;
    double integer_share, latency;
    const struct qc_options *o;
    struct qc_model model;          /* as in the file */
    struct qc_canonical_model made; /* its canonical and produced form */
    struct qc_graph *qdq;           /* `made` as QDQ, if the file has other operators; else NULL */
    struct qc_warnings *unsaid;     /* those about quantizing the model */
    struct qc_setup *setup;         /* the float model and the given parameters */
    struct qc_partition *partition; /* what the target computes in integers */
};

QC_PRINTF(5, 6)
static bool find_checked(struct checking *c, struct qc_status *st, const char *kind, const char *name, const char *fmt,
                         ...)
{
    char text[500];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    qc_json_add(c->findings, QC_JSON("kind %s name %s text %s", kind, name, text));
    return qc_json_is_whole(c->findings) || qc_fail_memory(st, 1);
}

/* ---- The file ---- */

static bool check_file(struct checking *c, struct qc_status *st)
{
    const struct qc_model_info *i = &c->model.info;
    for (size_t k = 0; k < i->repeated_count; k++)
        if (!find_checked(c, st, "repeated", i->repeated[k],
                          "computes the same as an earlier node; leave one of them out"))
            return false;
    for (size_t k = 0; k < i->unused_count; k++)
        if (!find_checked(c, st, "unused", i->unused[k], "no output needs this node")) return false;
    for (size_t k = 0; k < c->made.notes.count; k++)
        if (!find_checked(c, st, "form", "", "%s", c->made.notes.lines[k])) return false;
    return true;
}

/* ---- Saturation ---- */

/* Counts the elements of a weight at the ends of its levels, and the levels in use. */
static bool check_weight(struct checking *c, qc_id v, struct qc_status *st)
{
    const struct qc_graph *g = c->made.produced;
    const struct qc_tensor *t = g->values[v].constant;
    const struct qc_qparams *s = qc_graph_parameters(g, v);
    bool used[256] = {false};
    size_t low = 0, high = 0, levels = 0;
    if (!t || !s || s->kind != QC_QPARAMS_QUANTIZER || qc_dtype_info(s->dtype)->bits != 8 || s->block) return true;
    const struct qc_dtype_info *info = qc_dtype_info(s->dtype);
    for (size_t i = 0; i < t->count; i++) {
        const int64_t q = qc_tensor_int(t, i);
        low += q <= info->lo + (info->lo < 0); /* -127 is the end of restricted ranges */
        high += q >= info->hi;
        used[(q - info->lo) & 255] = true;
    }
    for (size_t i = 0; i < 256; i++) levels += used[i];
    const size_t at_ends = low + high;
    if (levels <= 16 || at_ends <= 2 * s->count || (double)at_ends <= clipped_weights * (double)t->count) return true;
    return find_checked(c, st, "saturation", QC_VALUE_LABEL(g, v),
                        "%.1f %% of the weights are at the ends of their range; the scale is too small",
                        100 * (double)at_ends / (double)t->count);
}

/* Values of the float network that the file stores, and how many lie outside of their ranges. */
struct outside {
    const struct qc_graph *g;
    size_t count;
    qc_id *values;
    const struct qc_given **given; /* [count] */
    uint64_t *low, *high, *all;    /* [units][count] */
};

static bool count_outside(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v,
                          struct qc_status *st)
{
    const struct outside *e = user;
    const struct qc_given *p = e->given[index];
    const struct qc_dtype_info *info = qc_dtype_info(p->dtype);
    const float low = ((float)(info->lo - p->zero_point[0]) - 0.5f) * p->scale[0],
                high = ((float)(info->hi - p->zero_point[0]) + 0.5f) * p->scale[0];
    const size_t n = qc_view_count(v), to = at->unit * e->count + index;
    const float *x = v->data;
    if (!qc_view_dense(v) || v->dtype != QC_F32) return true;
    for (size_t i = 0; i < n; i++) {
        e->low[to] += x[i] < low;
        e->high[to] += x[i] > high;
    }
    e->all[to] += n;
    return true;
}

/* Runs the samples through the float network. */
static bool check_activations(struct checking *c, const struct qc_dataset *data, const struct qc_settings *run,
                              struct qc_status *st)
{
    const struct qc_graph *g = c->setup->normalised;
    const size_t units = qc_dataset_units(data);
    struct qc_arena *a = c->o->arena;
    struct outside e = {.g = g,
                        .values = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st),
                        .given = QC_NEW_ARRAY(a, const struct qc_given *, g->value_count + 1, st)};
    for (qc_id v = 1; e.values && e.given && v <= g->value_count; v++) {
        const struct qc_given *p = qc_constant_of(g, v) ? NULL : qc_given_of_value(&c->setup->given, g, v);
        if (!p || p->count != 1 || g->values[v].type.dtype != QC_F32) continue;
        e.given[e.count] = p;
        e.values[e.count++] = v;
    }
    e.low = QC_NEW_ARRAY(a, uint64_t, units * e.count + 1, st);
    e.high = QC_NEW_ARRAY(a, uint64_t, units * e.count + 1, st);
    e.all = QC_NEW_ARRAY(a, uint64_t, units * e.count + 1, st);
    if (!e.values || !e.given || !e.low || !e.high || !e.all) return false;
    const struct qc_plan_options how = {.observed_count = e.count, .observed = e.values};
    struct qc_stream s = {.data = data,
                          .input_count = e.g->input_count,
                          .plan_count = 1,
                          .fed = 1,
                          .observe = count_outside,
                          .user = &e,
                          .progress = run->progress,
                          .progress_user = run->progress_user};
    struct qc_plan *plan = NULL;
    bool ok = qc_stream_plan(&plan, e.g, data, &how, st);
    s.plans[0] = plan;
    ok = ok && qc_stream_fit(&s.workers, run, data, qc_plan_runner_bytes(plan), st) && qc_stream_run(&s, st);
    qc_plan_free(plan);
    c->samples = qc_dataset_samples(data);
    if (!ok) return false;
    for (size_t i = 0; i < e.count; i++) {
        double low = 0, high = 0, all = 0;
        for (size_t u = 0; u < units; u++) {
            low += (double)e.low[u * e.count + i];
            high += (double)e.high[u * e.count + i];
            all += (double)e.all[u * e.count + i];
        }
        const double most = fmax(low, high);
        if (!(most > clipped_activations * all)) continue;
        if (!find_checked(c, st, "saturation", QC_VALUE_LABEL(g, e.values[i]),
                          "%.1f %% of its values in the float network, on %zu samples, are %s its range",
                          100 * most / all, c->samples, low > high ? "below" : "above"))
            return false;
    }
    return true;
}

static bool check_saturation(struct checking *c, struct qc_status *st)
{
    const struct qc_target *t = c->o->graph.runs_on;
    const struct qc_graph *g = c->made.produced;
    struct qc_pair_proof proof = {0};
    char label[QC_LABEL];
    bool ok = true;
    if (t->onnxruntime || t->openvino) qc_prove_pairs(&proof, g);
    if (proof.saturating)
        ok = find_checked(
            c, st, "saturation", proof.first ? qc_node_label(label, g, &g->nodes[proof.first]) : "",
            "%zu of %zu products of int8 weights can saturate on x86 without VNNI, this one first; quantize with "
            "7-bit weights (--overflow-fix)",
            proof.saturating, proof.products);
    for (qc_id v = 1; ok && v <= g->value_count; v++) ok = check_weight(c, v, st);
    return ok;
}

/* ---- Fusion ---- */

static bool is_affine(const struct qc_graph *g, qc_id v)
{
    return g->values[v].type.qparams != QC_REAL;
}

/* Returns true for integers, or real numbers that were integers: quantized data or weights. */
static bool is_quantized(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = qc_node_of(g, v);
    return is_affine(g, v) || (n && n->op == QC_OP_Dequantize);
}

/* Returns true if a result, or that of a clamp or an added bias behind it, is stored in integers. */
static bool is_stored_checked(const struct qc_uses *u, qc_id v)
{
    const struct qc_use_list readers = qc_readers(u, v);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *n = &u->graph->nodes[readers.of[i].node];
        if (n->op == QC_OP_Quantize || n->op == QC_OP_Requantize) return true;
        /* the bias is a constant, perhaps reshaped */
        const qc_id bias = n->op == QC_OP_Add ? n->inputs[1 - readers.of[i].input] : 0;
        const struct qc_node *shape = bias ? qc_node_of(u->graph, bias) : NULL;
        const bool reshaped = shape && shape->op == QC_OP_Reshape;
        const bool biased =
            n->op == QC_OP_Dequantize || (bias && qc_constant_of(u->graph, reshaped ? shape->inputs[0] : bias));
        if ((biased || qc_op_info(n->op)->affine == QC_AFFINE_BOUND) && is_stored_checked(u, n->outputs)) return true;
    }
    return false;
}

/* Checks the type of the data of an integer operator against the one type that the target takes. */
static bool check_type(struct checking *c, qc_id data, const char *name, struct qc_status *st)
{
    const struct qc_target *t = c->o->graph.runs_on;
    const struct qc_scheme_clause *takes = &t->activation;
    const struct qc_qparams *s = qc_graph_parameters(c->made.produced, data);
    if (t->onnxruntime || t->openvino || !s || s->kind != QC_QPARAMS_QUANTIZER || s->count != 1) return true;
    if (takes->dtype != QC_NONE && qc_dtype_info(s->dtype)->bits == 8 && s->dtype != takes->dtype)
        return find_checked(c, st, "type", name, "its data are %s, and target '%s' takes %s",
                            qc_dtype_long_name(s->dtype), t->name, qc_dtype_long_name(takes->dtype));
    if (takes->symmetry_given && takes->symmetry == QC_SYMMETRIC && qc_dtype_info(s->dtype)->lo < 0 && s->zero_point[0])
        return find_checked(c, st, "type", name, "its data have the zero point %d, and target '%s' takes 0",
                            s->zero_point[0], t->name);
    return true;
}

/* Returns why the target has no integer form of an operator, by the name of its result; NULL: it has one, or the float
   network has no such operator. */
static const char *refusal(const struct checking *c, const struct qc_node *n)
{
    const struct qc_partition *p = c->partition;
    const char *name = c->made.produced->values[n->outputs].name;
    const qc_id v = name ? qc_graph_find_value(p->graph, name) : 0;
    const struct qc_node *was = v ? qc_node_of(p->graph, v) : NULL;
    if (!was || was->op != n->op) return NULL;
    const qc_id id = p->graph->values[v].node;
    if (p->matches.at[id] || !p->matches.live[id]) return NULL;
    return p->reason[id] ? p->reason[id] : "no pattern of the target has it";
}

/* Judges a product. *integer: the target computes it in integers. */
static bool check_product(bool *integer, struct checking *c, const struct qc_uses *u, const struct qc_node *n,
                          const char *label, struct qc_status *st)
{
    const struct qc_graph *g = u->graph;
    const struct qc_target *t = c->o->graph.runs_on;
    const char *op = qc_op_info(n->op)->name;
    const qc_id x = n->inputs[0], w = n->inputs[1];
    const bool conv = n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose, stored = is_stored_checked(u, n->outputs);
    *integer = is_affine(g, n->outputs);
    if (*integer && conv && !stored && !t->float_results) {
        *integer = false;
        return find_checked(c, st, "fusion", label,
                            "%s stays in float: no QuantizeLinear is behind its result, which target '%s' needs", op,
                            t->name);
    }
    if (*integer) return check_type(c, x, label, st);
    if (qc_constant_of(g, w) && !is_quantized(g, w))
        return !is_quantized(g, x) || !stored ||
               find_checked(c, st, "fusion", label, "%s stays in float: its weight '%s' is not quantized%s", op,
                            QC_VALUE_LABEL(g, w),
                            t->onnxruntime ? " (ONNX Runtime from 1.20 on may round it with a scale of its own)" : "");
    if (is_quantized(g, x) != is_quantized(g, w) && (stored || is_quantized(g, x)))
        return find_checked(c, st, "fusion", label, "%s stays in float: its input '%s' is not quantized", op,
                            QC_VALUE_LABEL(g, is_quantized(g, x) ? w : x));
    return true;
}

/* Judges arithmetic of several inputs. */
static bool check_arithmetic(struct checking *c, const struct qc_uses *u, const struct qc_node *n, const char *label,
                             struct qc_status *st)
{
    const struct qc_graph *g = u->graph;
    unsigned inputs = 0, quantized = 0;
    if (is_affine(g, n->outputs)) return true;
    for (unsigned i = 0; i < n->input_count; i++) {
        if (!n->inputs[i] || qc_constant_of(g, n->inputs[i])) continue;
        inputs++;
        quantized += is_quantized(g, n->inputs[i]);
    }
    if (!inputs || quantized < inputs || !is_stored_checked(u, n->outputs)) return true;
    return find_checked(
        c, st, "fusion", label,
        "%s stays in float between DequantizeLinear and QuantizeLinear: it has no integer form, or another "
        "operator reads its float result",
        qc_op_info(n->op)->name);
}

static bool check_fusion(struct checking *c, struct qc_status *st)
{
    const struct qc_graph *g = c->made.produced;
    struct qc_uses u;
    struct qc_qlinear q;
    double all = 0, integers = 0;
    bool ok = qc_uses_of(&u, g, c->o->arena, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const enum qc_affine_behaviour how = qc_op_info(n->op)->affine;
        const bool dynamic = qc_qlinear_of(&q, n) && qc_multiplies(q.op), product = qc_multiplies(n->op);
        char text[QC_LABEL];
        const char *label = qc_node_label(text, g, n), *why;
        bool integer = dynamic; /* its data are quantized in every run */
        uint64_t macs = 0;
        if (product) ok = check_product(&integer, c, &u, n, label, st);
        if (how == QC_AFFINE_MERGE) ok = check_arithmetic(c, &u, n, label, st);
        if (ok && (product ? integer : how == QC_AFFINE_MERGE && is_affine(g, n->outputs)) && (why = refusal(c, n))) {
            integer = false;
            ok = find_checked(c, st, "fusion", label,
                              "target '%s' computes %s in float between DequantizeLinear and "
                              "QuantizeLinear: %s",
                              c->o->graph.runs_on->name, qc_op_info(n->op)->name, why);
        }
        if (!product && !dynamic) continue;
        c->products++;
        c->integer_products += integer;
        if (dynamic || !qc_multiply_adds(&macs, g, id)) all = (double)NAN;
        all += (double)macs;
        integers += integer ? (double)macs : 0;
    }
    c->integer_share = integers / all;
    return ok;
}

/* ---- The whole ---- */

/* Opens the model: as in the file, in produced form, and as a float model with given parameters. */
static bool open_checked(struct checking *c, struct qc_job_inputs *in, struct qc_model_at_hand *hand,
                         struct qc_progress *progress, struct qc_status *st)
{
    struct qc_partition_options scheme;
    struct qc_qlinear q;
    if (!qc_model_check_whole(&c->model, st)) return false;
    const struct qc_graph *g = c->model.graph;
    if (!qc_is_quantized(g))
        return qc_fail(st, QC_UNSUPPORTED,
                       "%s is not quantized: check takes a model with QuantizeLinear, DequantizeLinear or QLinear "
                       "operators; 'qcalib quantize' makes one from a float model",
                       in->model.file);
    if (!qc_canonical_model_of(&c->made, g, st)) return qc_where(st, "%s", in->model.file);
    bool linear = false;
    for (qc_id id = 1; id <= g->node_count; id++) linear = linear || qc_qlinear_of(&q, &g->nodes[id]);
    if (linear) { /* with names for all values: parameters are found by name */
        char name[QC_LABEL];
        if (!qc_exporter_find("qdq")->lower(&c->qdq, c->made.produced, NULL, st)) return false;
        for (qc_id v = 1; v <= c->qdq->value_count; v++)
            if (!c->qdq->values[v].name &&
                !qc_graph_name_value(c->qdq, v, qc_text(name, sizeof name, "value_%u", v), st))
                return false;
    }
    *hand = (struct qc_model_at_hand){.graph = c->qdq ? c->qdq : g, .info = &c->model.info, .sha256 = ""};
    in->model.at_hand = hand;
    in->data = (struct qc_data_source){.file = NULL};
    return qc_setup_begin(&c->setup, c->o, in, progress, false, st) &&
           qc_setup_open(c->setup, &(struct qc_listener){.warnings = c->unsaid}, st) &&
           qc_partition_options_of(&scheme, c->o, c->setup->plain ? &c->setup->given : NULL, c->o->arena, st) &&
           qc_partition_new(&c->partition, c->setup->normalised, c->setup->rules, &scheme, st);
}

bool qc_check_model(struct qc_json **out, const char *file, const struct qc_data_source *data,
                    const struct qc_options *o, struct qc_progress *progress, struct qc_warnings *w,
                    struct qc_status *st)
{
    struct checking c = {.o = o, .findings = qc_json_array(), .integer_share = (double)NAN, .latency = (double)NAN};
    struct qc_job_inputs in = {.model = {.file = file}};
    struct qc_model_at_hand hand;
    struct qc_dataset *samples = NULL;
    const struct qc_data_request request = {.use = QC_USE_INPUTS, .choose = QC_CHOOSE_SAMPLES};
    const struct qc_settings run = {.workers = (unsigned)o->run.threads,
                                    .memory_limit = (size_t)o->run.memory_limit,
                                    .progress = qc_progress_step,
                                    .progress_user = progress};
    bool ok = qc_model_open(&c.model, &in.model, o, NULL, st);
    if (!ok && st->code == QC_BAD_INPUT && strstr(st->message, "of scale '")) {
        /* Make a finding of the error that a scale is 0, negative, denormal or not finite: such a model cannot be
           read, so it is the only finding */
        struct qc_status own = QC_STATUS_INIT;
        ok = find_checked(&c, &own, "scale", "", "%s", st->message);
        if (ok) *st = QC_STATUS_INIT;
    } else if (ok) {
        ok = qc_warnings_new(&c.unsaid, st) && open_checked(&c, &in, &hand, progress, st) && check_fusion(&c, st) &&
             check_saturation(&c, st);
        if (ok && qc_has_data(data)) {
            ok = qc_model_data(&samples, c.setup->normalised, data, &request, o, w, st) &&
                 check_activations(&c, samples, &run, st);
            qc_dataset_free(samples);
        }
        const bool wide = o->graph.runs_on->wide_is_float;
        double made, real;
        ok = ok && check_file(&c, st) && qc_estimate_time(&made, QC_PROCESSOR_AVX512_VNNI, c.made.produced, wide, st) &&
             qc_estimate_time(&real, QC_PROCESSOR_AVX512_VNNI, c.setup->normalised, wide, st);
        if (ok) c.latency = made / real;
    }
    qc_partition_free(c.partition);
    qc_setup_free(c.setup);
    qc_warnings_free(c.unsaid);
    qc_graph_free(c.qdq);
    qc_canonical_model_free(&c.made);
    qc_model_close(&c.model);
    struct qc_json *all =
        QC_JSON("file %s target %s products %zu integer_products %zu integer_share %g latency %g samples %zu", file,
                o->graph.runs_on->name, c.products, c.integer_products, c.integer_share, c.latency, c.samples);
    qc_json_set(all, "findings", c.findings);
    if (ok && !qc_json_is_whole(all)) ok = qc_fail_memory(st, 1);
    return QC_HAND_OVER(ok, out, all, qc_json_free);
}
