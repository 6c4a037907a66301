// SPDX-License-Identifier: Apache-2.0
#include "quantize/options/changes.h"

#include <string.h>

bool qc_change_add(struct qc_change *change, const char *name, const char *value, struct qc_arena *a,
                   struct qc_status *st)
{
    if (!value) return false;
    if (change->count >= change->room) {
        const size_t room = 2 * change->count + 2;
        struct qc_option_text *options = QC_NEW_ARRAY(a, struct qc_option_text, room, st);
        if (!options) return false;
        if (change->count) memcpy(options, change->options, change->count * sizeof *options);
        change->options = options;
        change->room = room;
    }
    ((struct qc_option_text *)change->options)[change->count++] = (struct qc_option_text){name, value};
    return true;
}

bool qc_change_join(struct qc_change *change, const struct qc_change *more, struct qc_arena *a, struct qc_status *st)
{
    for (size_t i = 0; i < more->count; i++)
        if (!qc_change_add(change, more->options[i].name, more->options[i].value, a, st)) return false;
    return true;
}

/* Copies a list, so that adding to it leaves the original as it is. */
static bool copy_list(struct qc_text_list *list, size_t from, size_t end, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_text_list all = *list;
    *list = (struct qc_text_list){.count = 0};
    for (size_t i = from; i < end; i++)
        if (!qc_text_list_add(list, all.items[i], a, st)) return false;
    return true;
}

bool qc_options_change(struct qc_options *out, const struct qc_options *from, const struct qc_change *change,
                       struct qc_arena *a, struct qc_status *st)
{
    *out = *from;
    out->arena = a;
    struct qc_text_list *const types[] = {&out->types.activations, &out->types.weights};
    const struct qc_text_list *const were[] = {&from->types.activations, &from->types.weights};
    for (size_t k = 0; k < 2; k++)
        if (!copy_list(types[k], 0, change->first ? 1 : types[k]->count, a, st)) return false;
    if (!copy_list(&out->graph.skip, 0, out->graph.skip.count, a, st)) return false;
    if (change->without) {
        enum qc_option which;
        if (!qc_options_find(&which, out, change->without, st)) return false;
        out->given[which] = false;
        if (which == QC_OPTION_PER_TENSOR) out->types.per_tensor = false;
        if (which == QC_OPTION_CHECKPOINT) out->run.checkpoint = NULL;
    }
    for (size_t i = 0; i < change->count; i++) {
        enum qc_option which;
        const struct qc_option_text *c = &change->options[i];
        if (!qc_options_find(&which, out, c->name, st)) return false;
        const bool by_name = (which == QC_OPTION_ACTIVATION_TYPE || which == QC_OPTION_WEIGHT_TYPE) && c->value &&
                             strchr(c->value, ':'),
                   was = out->given[which];
        if (!qc_options_set(out, which, c->value, st)) return false;
        if (by_name) out->given[which] = was; /* other nodes keep the type that they would have without the change */
    }
    for (size_t k = 0; change->first && k < 2; k++)
        for (size_t i = 1; i < were[k]->count; i++)
            if (!qc_text_list_add(types[k], were[k]->items[i], a, st)) return false;
    return true;
}
