// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: what qc_canonical knows about integers of a file (canonical_classes.c), and how it builds
 * (canonical_build.c, canonical_op.c). */
#pragma once

#include "base/index.h"
#include "graph/core/qlinear.h"
#include "graph/core/rebuild.h"
#include "rewrite/canonical/canonical.h"

/* Integers that KEEP and JOIN ops connect form a class with one set of qparams; a class is literal when something reads
   its integers as numbers, when statements about it differ, or when they cannot be read. */
struct qc_canon {
    const struct qc_graph *g;
    const struct qc_rules *rules;
    struct qc_canonical_notes *notes;
    struct qc_arena *arena;
    struct qc_rebuild r;
    qc_id *parent;  /* [value_count + 1]: union-find */
    qc_id *qparams; /* [value_count + 1] by representative: of the new graph, 0 nothing said yet */
    int *axis;      /* of it */
    bool *literal;  /* [value_count + 1] by representative */
    qc_id *affine;  /* [value_count + 1]: the new affine value of an integer value, once built; of a literal one a
                       reading of it */
    qc_id *own;  /* [value_count + 1] by result of a QuantizeLinear or DequantizeLinear: the qparams of its parameters,
                    of  one scale; 0: none */
    bool *taken; /* [value_count + 1]: some node uses the value */
    qc_id *want; /* [value_count + 1]: the qparams that all users of a float value quantize it to; 0 none seen */
    bool *mixed; /* [value_count + 1]: users differ, or one wants it real */
    bool merges[QC_OP_COUNT];   /* a pattern quantizes this op */
    struct qc_index by_numbers; /* quantizers of the new graph by their parameters */
};

/* Fills parent to mixed, but for affine. */
bool qc_canon_classify(struct qc_canon *c, struct qc_status *st);

/* The qparams of parameters given as inputs (zero_point may be QC_ABSENT) for integers of type t; equal ones are the
   same qparams. *qparams is 0 when there cannot be any: not constant, not float32, blocks, not positive and normal. */
bool qc_canon_qparams(qc_id *qparams, struct qc_canon *c, qc_id scale, qc_id zero_point, enum qc_dtype t,
                      const char *name, struct qc_status *st);
/* The qparams of the class of an integer value, or 0 when it is literal. */
qc_id qc_canon_qparams_of(const struct qc_canon *c, qc_id value);
/* The axis of its channels. */
int qc_canon_axis_of(const struct qc_canon *c, qc_id value);
/* Is this quantized operator turned into an affine one? */
bool qc_canon_turns(struct qc_canon *c, const struct qc_node *n, const struct qc_qlinear *q, struct qc_status *st);
bool qc_canon_is_stored(enum qc_dtype t); /* u8, i8, u16, i16, u4, i4 */
/* Name of what is quantized: without the suffixes that exporters add. In the arena; NULL only when memory is out. */
const char *qc_canon_base(struct qc_canon *c, qc_id value, struct qc_status *st);

bool qc_canon_note(struct qc_canon *c, struct qc_status *st, const char *fmt, ...) QC_PRINTF(3, 4);

/* The new real value of an old float value; integers of literal classes too. */
qc_id qc_canon_real(struct qc_canon *c, qc_id old, struct qc_status *st);
/* The new affine value of an integer operand with these parameters. */
qc_id qc_canon_operand(struct qc_canon *c, const struct qc_qlinear_port *p, int axis, struct qc_status *st);
/* Defines an old integer value: as v, or where its class is literal as its integers. scale, zero_point: as in the file.
 */
bool qc_canon_define(struct qc_canon *c, const struct qc_qlinear_port *p, qc_id v, struct qc_status *st);
/* An op on affine values with result qparams (0: none); name: of the result, may be NULL. */
qc_id qc_canon_add(struct qc_canon *c, enum qc_op op, const struct qc_node *from, unsigned count, const qc_id *inputs,
                   qc_id qparams, int axis, const char *name, struct qc_status *st);

/* Nodes (canonical_op.c). *done is false when the node has no affine form here: then it is copied. */
bool qc_canon_float_op(bool *done, struct qc_canon *c, const struct qc_node *n, struct qc_status *st);
bool qc_canon_qlinear_op(struct qc_canon *c, const struct qc_node *n, const struct qc_qlinear *q, struct qc_status *st);
bool qc_canon_moving_op(struct qc_canon *c, const struct qc_node *n, struct qc_status *st);
