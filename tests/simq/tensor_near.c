// SPDX-License-Identifier: Apache-2.0
#include "tensor_near.h"

#include <math.h>

#include "graph/types/number_format.h"

static struct tolerance tolerance_of(enum qc_dtype t)
{
    switch (t) {
    case QC_F16: return (struct tolerance){1e-3, 1e-3};
    case QC_BF16: return (struct tolerance){1e-2, 1e-2};
    case QC_F32: return (struct tolerance){1e-5, 2e-6};
    case QC_F64: return (struct tolerance){1e-6, 1e-7};
    case QC_NONE:
    case QC_U8:
    case QC_I8:
    case QC_U16:
    case QC_I16:
    case QC_I32:
    case QC_I64:
    case QC_BOOL:
    case QC_U32:
    case QC_U64:
    case QC_U4:
    case QC_I4:
    case QC_U2:
    case QC_I2:
    QC_CASE_SMALL_FLOATS:
    case QC_DTYPE_COUNT: break;
    }
    return (struct tolerance){0, 0};
}

static bool near(double got, double want, struct tolerance t)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return want == got;
    return fabs(got - want) <= t.absolute + t.relative * fabs(want);
}

bool tensor_within(const struct qc_tensor *got, const struct qc_tensor *want, struct tolerance t, struct qc_status *st)
{
    char a[QC_SHAPE_TEXT], b[QC_SHAPE_TEXT];
    const bool is_float = qc_dtype_info(want->dtype)->is_float;
    if (got->dtype != want->dtype || !qc_shape_equal(&got->shape, &want->shape))
        return qc_fail(st, QC_DEMAND, "is %s%s, expected %s%s", qc_dtype_info(got->dtype)->name,
                       qc_shape_text(a, &got->shape), qc_dtype_info(want->dtype)->name, qc_shape_text(b, &want->shape));
    for (size_t i = 0; i < want->count; i++) {
        const double x = qc_tensor_float(got, i), y = qc_tensor_float(want, i);
        if (is_float ? near(x, y, t) : qc_tensor_int(got, i) == qc_tensor_int(want, i)) continue;
        return qc_fail(st, QC_DEMAND, "element %zu is %.9g, expected %.9g", i, x, y);
    }
    return true;
}

bool tensor_near(const struct qc_tensor *got, const struct qc_tensor *want, double relative, struct qc_status *st)
{
    struct tolerance t = tolerance_of(want->dtype);
    if (relative > 0) t.relative = relative;
    return tensor_within(got, want, t, st);
}
