// SPDX-License-Identifier: Apache-2.0
#include "export/report/type_word.h"

#include "graph/types/dtype.h"

const char *qc_type_word(const char *type)
{
    const enum qc_dtype t = qc_dtype_from_name(type);
    return t == QC_NONE ? type : qc_dtype_long_name(t);
}
