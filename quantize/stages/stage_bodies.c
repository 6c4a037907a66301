// SPDX-License-Identifier: Apache-2.0
#include "quantize/stages/stage_bodies.h"

#include <stdlib.h>
#include <string.h>

#include "datasets/arrays/memory_data.h"
#include "graph/core/body.h"
#include "quantize/stages/body_samples.h"
#include "rewrite/passes/simulate.h"

/* --- Listing bodies --- */

static bool name_of(const char **out, const struct qc_pipeline *p, const struct qc_node *n, const char *attr,
                    struct qc_status *st)
{
    char label[QC_LABEL];
    const char *node = qc_node_label(label, p->real, n);
    return (*out = qc_arena_printf(p->arena, st, "%s/%s", node, attr)) != NULL;
}

static bool list_bodies(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_graph *g = p->real;
    size_t most = 0;
    for (qc_id id = 1; id <= g->node_count; id++) most += qc_op_has_bodies(g->nodes[id].op) ? QC_BODIES : 0;
    p->bodies = QC_NEW_ARRAY(p->arena, struct qc_body_job, most, st);
    if (!p->bodies) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        struct qc_bodies b;
        if (!qc_op_has_bodies(n->op)) continue;
        if (!qc_bodies_of(&b, n, st)) return false;
        for (unsigned k = 0; k < b.count; k++) {
            struct qc_body_job *job = &p->bodies[p->body_count++];
            job->body = b.graph[k];
            if (!name_of(&job->name, p, n, b.attr[k], st)) return false;
        }
    }
    return true;
}

/* --- Quantizing them --- */

static const char *no_samples(const struct qc_pipeline *p)
{
    if (!p->quantize_body) return "bodies are not quantized here";
    if (!p->from->data) return "its samples are computed from those of the model: give --data";
    return p->in->team ? "several processes share the work" : NULL;
}

/* Returns true if the body has a product that could be quantized. Other bodies get no warning: exporters write branches
   for shapes that never occur. Recursion is bounded by QC_BODY_DEPTH_MAX. */
static bool multiplies(const struct qc_graph *g)
{
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (qc_node_affine(n) == QC_AFFINE_PRODUCT) return true;
        for (unsigned i = 0; i < n->attr_count; i++)
            if (n->attrs[i].kind == QC_ATTR_GRAPH && multiplies(n->attrs[i].graph)) return true;
    }
    return false;
}

static bool quantize(struct qc_pipeline *p, struct qc_body_samples *samples, struct qc_status *st)
{
    for (size_t i = 0; i < p->body_count; i++) {
        struct qc_body_job *job = &p->bodies[i];
        job->runs = qc_body_samples_runs(samples, i);
        if (!job->runs) {
            job->reason = "never run on these samples";
            if (multiplies(job->body))
                qc_warn(p->warnings, "'%s' is never run on these samples and stays in float", job->name);
            continue;
        }
        if (!p->quantize_body(job, p, samples, i, st)) return qc_where(st, "body '%s'", job->name);
    }
    return true;
}

static bool quantize_all(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_body_samples *samples = NULL;
    const char *reason = no_samples(p);
    if (!list_bodies(p, st)) return false;
    for (size_t i = 0; reason && i < p->body_count; i++) p->bodies[i].reason = reason;
    if (reason || !p->body_count) return true;
    qc_progress_phase(p->progress, "scanning bodies");
    bool ok = qc_body_samples_take(&samples, p, st);
    qc_progress_end(p->progress);
    ok = ok && quantize(p, samples, st);
    qc_body_samples_free(samples);
    return ok;
}

/* --- Putting them in place --- */

static const struct qc_graph *quantized(const struct qc_pipeline *p, const struct qc_graph *body)
{
    for (size_t i = 0; i < p->body_count; i++)
        if (p->bodies[i].body == body && p->bodies[i].p) return p->bodies[i].p->produced;
    return NULL;
}

typedef bool replace_fn(struct qc_graph **out, const void *user, const struct qc_graph *body, struct qc_status *st);

/* Copies the graph with other bodies. `replace` sets *out to the new body, which is owned, or leaves NULL to keep it.
 */
static bool replace_bodies(struct qc_graph **out, const struct qc_graph *g, replace_fn *replace, const void *user,
                           struct qc_status *st)
{
    struct qc_rebuild r = {0};
    bool ok = qc_rebuild_begin(&r, g, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (!qc_op_has_bodies(n->op)) {
            ok = qc_rebuild_node(&r, id, st) != 0;
            continue;
        }
        struct qc_attr *attrs = calloc(n->attr_count + 1, sizeof *attrs);
        if (!attrs) ok = qc_fail_memory(st, n->attr_count * sizeof *attrs);
        for (unsigned i = 0; ok && i < n->attr_count; i++) {
            struct qc_graph *body = NULL;
            attrs[i] = n->attrs[i];
            if (attrs[i].kind != QC_ATTR_GRAPH) continue;
            ok = replace(&body, user, attrs[i].graph, st);
            attrs[i].graph = body ? body : qc_graph_ref(attrs[i].graph);
        }
        ok = ok && qc_rebuild_node_with(&r, id, attrs, st) != 0;
        if (attrs) qc_bodies_release(attrs, n->attr_count);
        free(attrs);
    }
    ok = ok && qc_rebuild_finish(out, &r, st);
    qc_rebuild_free(&r);
    return ok;
}

static bool take_quantized(struct qc_graph **out, const void *user, const struct qc_graph *body, struct qc_status *st)
{
    const struct qc_graph *q = quantized(user, body);
    (void)st;
    if (q) *out = qc_graph_ref(q);
    return true;
}

bool qc_stage_bodies(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_graph *g = p->rounded ? p->rounded : p->simulated;
    size_t count = 0;
    if (!p->bodies && !quantize_all(p, st)) return false;
    for (size_t i = 0; i < p->body_count; i++) count += p->bodies[i].p != NULL;
    if (!count && !p->partition->matches.count && !p->partition->weight_only_count && !p->partition->cache_count &&
        !p->may_be_float)
        return qc_fail(
            st, QC_UNSUPPORTED,
            "nothing to quantize: no pattern of 'qcalib list rules' matches, neither in the graph nor in its bodies");
    return !count || replace_bodies(&p->with_bodies, g, take_quantized, p, st);
}

const struct qc_graph *qc_graph_with_bodies(const struct qc_pipeline *p)
{
    return p->with_bodies ? p->with_bodies : p->rounded ? p->rounded : p->simulated;
}

struct body_lowering {
    const struct qc_exporter *exporter;
    const struct qc_lower_options *options;
};

static bool lower_body(struct qc_graph **out, const void *user, const struct qc_graph *body, struct qc_status *st)
{
    const struct body_lowering *l = user;
    return l->exporter->lower(out, body, l->options, st) && qc_lower_bodies(out, l->exporter, l->options, st);
}

/* Recursion is bounded by QC_BODY_DEPTH_MAX. */
bool qc_lower_bodies(struct qc_graph **io, const struct qc_exporter *e, const struct qc_lower_options *options,
                     struct qc_status *st)
{
    const struct body_lowering l = {.exporter = e, .options = options};
    struct qc_graph *lowered;
    if (!(*io)->depth) return true;
    if (!replace_bodies(&lowered, *io, lower_body, &l, st)) return false;
    qc_graph_free(*io);
    *io = lowered;
    return true;
}
