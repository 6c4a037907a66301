// SPDX-License-Identifier: Apache-2.0
/* Which files besides its own a model is made of. */
#include <string.h>

#include "onnx/read/importing.h"

static bool add(struct qc_importer *im, struct qc_model_info *info, const Onnx__TensorProto *t, struct qc_status *st)
{
    if (!t || !t->has_data_location || t->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) return true;
    const char *location = "";
    for (size_t i = 0; i < t->n_external_data; i++)
        if (strcmp(qc_proto_text(t->external_data[i]->key), "location") == 0)
            location = qc_proto_text(t->external_data[i]->value);
    const char *path = qc_arena_printf(im->g->arena, st, "%s/%s", im->beside.folder, location);
    if (!path) return false;
    /* Tensors of one file stand behind each other, so that looking at the last one is enough to keep the list short. */
    if (info->file_count && strcmp(info->files[info->file_count - 1], path) == 0) return true;
    info->files[info->file_count++] = path;
    return true;
}

/* Tensors of a graph and of the bodies in it; recursion is bounded: import_outside.c. */
static bool add_all(struct qc_importer *im, struct qc_model_info *info, const Onnx__GraphProto *g, struct qc_status *st)
{
    bool ok = true;
    for (size_t i = 0; ok && i < g->n_initializer; i++) ok = add(im, info, g->initializer[i], st);
    for (size_t i = 0; ok && i < g->n_node; i++)
        for (size_t k = 0; ok && k < g->node[i]->n_attribute; k++) {
            const Onnx__AttributeProto *a = g->node[i]->attribute[k];
            ok = add(im, info, a->t, st) && (!a->g || add_all(im, info, a->g, st));
        }
    return ok;
}

static size_t tensor_count(const Onnx__GraphProto *g)
{
    size_t count = g->n_initializer;
    for (size_t i = 0; i < g->n_node; i++) {
        count += g->node[i]->n_attribute;
        for (size_t k = 0; k < g->node[i]->n_attribute; k++)
            if (g->node[i]->attribute[k]->g) count += tensor_count(g->node[i]->attribute[k]->g);
    }
    return count;
}

bool qc_import_files(struct qc_importer *im, struct qc_model_info *info, struct qc_status *st)
{
    if (!im->beside.folder) return true;
    info->files = QC_NEW_ARRAY(im->g->arena, const char *, tensor_count(im->proto), st);
    return info->files && add_all(im, info, im->proto, st);
}
