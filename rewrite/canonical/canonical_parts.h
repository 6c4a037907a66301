// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: the analysis of the integers of a file (canonical_classes.c) and the construction of the canonical
   graph (canonical_build.c). */
#pragma once

#include "base/index.h"
#include "graph/core/qlinear.h"
#include "graph/core/rebuild.h"
#include "rewrite/canonical/canonical.h"

/* Integers that KEEP and JOIN ops connect form a class with one set of qparams. A class is literal if an operator reads
   its integers as numbers, if its parameters differ, or if they cannot be read. */
struct qc_canon {
    const struct qc_graph *g;
    const struct qc_rules *rules;
    struct qc_lines *notes;
    struct qc_arena *arena;
    struct qc_rebuild r;
    qc_id *parent;  /* [value_count + 1]: union-find */
    qc_id *qparams; /* [value_count + 1] by representative: qparams in the new graph, 0: none recorded yet */
    int *axis;      /* [value_count + 1] by representative: axis of the qparams */
    bool *literal;  /* [value_count + 1] by representative */
    qc_id *affine;  /* [value_count + 1]: the new affine value of an integer value, once built; of a literal one, the
                       value read from it */
    qc_id *own;  /* [value_count + 1] by result of a QuantizeLinear or DequantizeLinear: the qparams of its parameters,
                    if they have one scale; 0: none */
    bool *taken; /* [value_count + 1]: a node uses the value */
    qc_id *want; /* [value_count + 1]: the qparams to which all users quantize a float value; 0: none yet */
    bool *mixed; /* [value_count + 1]: users quantize it differently, or one reads it as real */
    bool merges[QC_OP_COUNT];   /* a pattern quantizes this op */
    struct qc_index by_numbers; /* quantizers of the new graph by their parameters */
};

/* Fills parent to mixed, except affine. */
bool qc_canon_classify(struct qc_canon *c, struct qc_status *st);

/* Returns the qparams of parameters given as inputs (zero_point may be QC_ABSENT) for integers of type t. Equal
   parameters give the same qparams. 0 if the scale is not constant, not float32, in blocks, not positive or not
   normal. */
qc_id qc_canon_qparams(struct qc_canon *c, qc_id scale, qc_id zero_point, enum qc_dtype t, const char *name,
                       struct qc_status *st);
/* The same for an operand or result of a quantized operator. */
qc_id qc_canon_port_qparams(struct qc_canon *c, const struct qc_qlinear_port *p, struct qc_status *st);
/* Returns the qparams of the class of an integer value, or 0 if it is literal. */
qc_id qc_canon_qparams_of(const struct qc_canon *c, qc_id value);
/* Returns the axis of the channels of the class of an integer value. */
int qc_canon_axis_of(const struct qc_canon *c, qc_id value);
/* Returns true if this quantized operator becomes an affine one. */
bool qc_canon_turns(struct qc_canon *c, const struct qc_node *n, const struct qc_qlinear *q, struct qc_status *st);
/* Returns the name of a quantized value without the suffixes that exporters add, in the arena; "" if memory is
   out. */
const char *qc_canon_base(struct qc_canon *c, qc_id value, struct qc_status *st);
