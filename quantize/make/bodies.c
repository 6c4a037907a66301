// SPDX-License-Identifier: Apache-2.0
#include "quantize/make/bodies.h"

#include "graph/core/body.h"

static bool take_quantized(struct qc_graph **out, const void *user, const struct qc_graph *body, struct qc_status *st)
{
    const struct qc_body_set *b = user;
    (void)st;
    for (size_t i = 0; i < b->count && !*out; i++)
        if (b->of[i].graph == body && (b->of[i].network || b->of[i].sharing))
            *out = qc_graph_ref(b->of[i].network ? b->of[i].network->produced : b->of[i].sharing);
    return true;
}

bool qc_body_set_apply(struct qc_graph **out, const struct qc_body_set *bodies, const struct qc_graph *g,
                       struct qc_status *st)
{
    size_t count = 0;
    for (size_t i = 0; bodies && i < bodies->count; i++)
        count += bodies->of[i].network != NULL; /* others share with these */
    return !count || qc_bodies_replace(out, g, take_quantized, bodies, st);
}

struct lowering {
    const struct qc_body_set *bodies; /* may be NULL */
    const struct qc_exporter *exporter;
    const struct qc_lower_options *options;
};

static bool lower_body(struct qc_graph **out, const void *user, const struct qc_graph *body, struct qc_status *st)
{
    const struct lowering *l = user;
    const struct qc_network *net = NULL;
    struct qc_lower_options o = *l->options;
    for (size_t i = 0; l->bodies && i < l->bodies->count; i++)
        if (l->bodies->of[i].network && l->bodies->of[i].network->produced == body) net = l->bodies->of[i].network;
    o.real = net ? net->setup->normalised : body;
    o.own = NULL; /* bodies stay in float32 */
    return l->exporter->lower(out, body, &o, st) &&
           qc_body_set_lower(out, net ? net->bodies : NULL, l->exporter, &o, st);
}

/* Recursion is bounded by QC_BODY_DEPTH_MAX. */
bool qc_body_set_lower(struct qc_graph **io, const struct qc_body_set *bodies, const struct qc_exporter *e,
                       const struct qc_lower_options *options, struct qc_status *st)
{
    const struct lowering l = {.bodies = bodies, .exporter = e, .options = options};
    struct qc_graph *lowered;
    if (!(*io)->depth) return true;
    if (!qc_bodies_replace(&lowered, *io, lower_body, &l, st)) return false;
    qc_graph_free(*io);
    *io = lowered;
    return true;
}
