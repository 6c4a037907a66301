// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "graph/core/graph.h"

const struct qc_attr *qc_attr_find(const struct qc_node *n, const char *name)
{
    for (unsigned i = 0; i < n->attr_count; i++)
        if (strcmp(n->attrs[i].name, name) == 0) return &n->attrs[i];
    return NULL;
}

int64_t qc_attr_int(const struct qc_node *n, const char *name, int64_t otherwise)
{
    const struct qc_attr *a = qc_attr_find(n, name);
    return a && a->kind == QC_ATTR_INT ? a->i : otherwise;
}

float qc_attr_float(const struct qc_node *n, const char *name, float otherwise)
{
    const struct qc_attr *a = qc_attr_find(n, name);
    return a && a->kind == QC_ATTR_FLOAT ? a->f : otherwise;
}

const char *qc_attr_string(const struct qc_node *n, const char *name, const char *otherwise)
{
    const struct qc_attr *a = qc_attr_find(n, name);
    return a && a->kind == QC_ATTR_STRING ? a->s : otherwise;
}

size_t qc_attr_ints(const struct qc_node *n, const char *name, const int64_t **out)
{
    const struct qc_attr *a = qc_attr_find(n, name);
    if (!a || a->kind != QC_ATTR_INTS) return 0;
    *out = a->ints;
    return a->count;
}

enum qc_affine_behaviour qc_node_affine(const struct qc_node *n)
{
    if (n->op == QC_OP_ReduceMean && n->input_count > 1) return QC_AFFINE_NONE; /* its axes are computed */
    if (n->op == QC_OP_Resize && strcmp(qc_attr_string(n, "mode", "nearest"), "nearest") == 0 &&
        strcmp(qc_attr_string(n, "coordinate_transformation_mode", "half_pixel"), "tf_crop_and_resize") != 0)
        return QC_AFFINE_KEEP;
    return qc_op_info(n->op)->affine;
}
