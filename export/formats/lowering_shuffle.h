// SPDX-License-Identifier: Apache-2.0
/* Inside export/: a shuffle of stored channels as ONNX Runtime moves it fast (export/formats/lowering_shuffle.c). */
#ifndef QC_EXPORT_FORMATS_LOWERING_SHUFFLE_H
#define QC_EXPORT_FORMATS_LOWERING_SHUFFLE_H

#include "export/formats/lowering.h"

struct qc_shuffled {
    struct qc_node node;
    struct qc_attr attr;
    qc_id shape; /* a Reshape takes this shape in place of its own; 0: its own */
};

/* The node as it is written: n itself, or in s a Transpose of fewer axes. NULL and a status on failure. */
const struct qc_node *qc_lower_shuffle(struct qc_shuffled *s, struct qc_lowering *x, const struct qc_node *n,
                                       struct qc_status *st);

#endif
