// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/quantize_report.h"

#include <string.h>

#include "quantize/make/bodies.h"
#include "quantize/report/layer_detail.h"

static const char *inside(const struct qc_network *net, const struct qc_body *b, const char *name, struct qc_status *st)
{
    return name ? qc_arena_printf(net->arena, st, "%s/%s", b->name, name) : NULL;
}

bool qc_body_layers(struct qc_report *r, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_body_set *set = net->bodies;
    for (size_t i = 0; set && i < set->count; i++) {
        const struct qc_body *b = &set->of[i];
        struct qc_report own = {0};
        if (!b->network) continue;
        if (!qc_fill_layers(&own, b->network, b->measurement, st) || !qc_body_layers(&own, b->network, st))
            return false;
        struct qc_layer *all = QC_NEW_ARRAY(net->arena, struct qc_layer, r->layer_count + own.layer_count, st);
        if (!all) return false;
        if (r->layer_count) memcpy(all, r->layers, r->layer_count * sizeof *all);
        for (size_t k = 0; k < own.layer_count; k++) {
            struct qc_layer *l = &all[r->layer_count + k];
            *l = own.layers[k];
            l->in_body = true;
            l->name = inside(net, b, l->name, st);
            l->node = inside(net, b, l->node, st);
            l->accumulator_of = inside(net, b, l->accumulator_of, st);
            if (st->code != QC_OK) return false;
        }
        r->layers = all;
        r->layer_count += own.layer_count;
    }
    return !set || !set->count || qc_layers_index(r, net->arena, st);
}

bool qc_body_float_ops(struct qc_json *list, size_t *quantized, const struct qc_network *net, const char *in,
                       struct qc_status *st)
{
    const struct qc_body_set *set = net->bodies;
    for (size_t i = 0; set && i < set->count; i++) {
        const struct qc_body *b = &set->of[i];
        const char *own = in ? qc_arena_printf(net->arena, st, "%s/%s", in, b->name) : b->name;
        if (b->network && (!own || !qc_float_ops(list, quantized, b->network, own, st) ||
                           !qc_body_float_ops(list, quantized, b->network, own, st)))
            return false;
    }
    return true;
}
