// SPDX-License-Identifier: Apache-2.0
#include "export/report/type_word.h"

#include <stdbool.h>
#include <string.h>

#include "export/report/report.h"
#include "graph/types/dtype.h"

const char *qc_type_word(const char *type)
{
    const enum qc_dtype t = qc_dtype_from_name(type);
    return t == QC_NONE ? type : qc_dtype_long_name(t);
}

/* Returns the type of most layers of a kind, or NULL if there are none. */
static const char *most_common(const struct qc_report *r, const char *kind)
{
    size_t count[QC_DTYPE_COUNT] = {0};
    enum qc_dtype most = QC_NONE;
    for (size_t i = 0; i < r->layer_count; i++)
        if (strcmp(r->layers[i].kind, kind) == 0) count[qc_dtype_from_name(r->layers[i].type)]++;
    for (int t = QC_NONE + 1; t < QC_DTYPE_COUNT; t++)
        if (count[t] > (most == QC_NONE ? 0 : count[most])) most = (enum qc_dtype)t;
    return most == QC_NONE ? NULL : qc_dtype_long_name(most);
}

const char *qc_report_type(const struct qc_report *r)
{
    const char *type = r->size ? NULL : r->weight_type; /* --size chooses the types itself */
    if (!type || strcmp(type, "none") == 0) type = most_common(r, "weight");
    if (!type) type = most_common(r, "activation");
    if (!type) return "quantized";
    if (strncmp(type, "float8", strlen("float8")) == 0) return "fp8";
    if (strncmp(type, "float4", strlen("float4")) == 0) return "fp4";
    return type + (*type == 'u');
}
