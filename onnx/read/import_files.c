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

bool qc_import_files(struct qc_importer *im, struct qc_model_info *info, struct qc_status *st)
{
    const Onnx__GraphProto *g = im->proto;
    size_t count = g->n_initializer;
    if (!im->beside.folder) return true;
    for (size_t i = 0; i < g->n_node; i++) count += g->node[i]->n_attribute;
    info->files = QC_NEW_ARRAY(im->g->arena, const char *, count, st);
    if (!info->files) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < g->n_initializer; i++) ok = add(im, info, g->initializer[i], st);
    for (size_t i = 0; ok && i < g->n_node; i++)
        for (size_t k = 0; ok && k < g->node[i]->n_attribute; k++) ok = add(im, info, g->node[i]->attribute[k]->t, st);
    return ok;
}
