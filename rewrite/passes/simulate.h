// SPDX-License-Identifier: Apache-2.0
/* Makes the simulated graph from a partition, and runs the passes after it. Each pass builds a new graph. */
#pragma once

#include "rewrite/language/rewriter.h"
#include "rewrite/passes/partition.h"

/* Replaces every match by quantize -> op -> dequantize with unbound qparams, and sets the observed values of each
   quantizer. The result has .simulated set: affine values are held in float32. */
bool qc_simulate(struct qc_graph **out, const struct qc_partition *p, struct qc_status *st);

/* Moves quantize up and dequantize down through the ops of the allow-list. one_scale_joins: as the partition's option.
   Constants of a join take the qparams of its other inputs. */
bool qc_propagate_qdq(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                      bool one_scale_joins, struct qc_status *st);
/* The same for a model that is quantized already. Float values of the model stay float, so dequantize only moves down
   if the operator is exact on integers. */
bool qc_propagate_exactly(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                          struct qc_status *st);

/* Runs once parameters are bound. If a value is converted between quantizers of equal parameters, they become one (the
   first made); dequantize -> quantize becomes requantize by requantize.rules. */
bool qc_fold(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules, struct qc_status *st);

/* Evaluates a node whose inputs are all constants (simq/plan/plan.h: qc_evaluate). */
typedef bool qc_eval_fn(struct qc_tensor **outputs, const struct qc_graph *g, qc_id node, struct qc_status *st);

/* Makes the same simulated graph with weights in integers: affine constants with the name of the real one, rounded to
   nearest. Trials and the file share them. Forms (graph/types/tensor.h) are kept as long as a graph has the weight. */
enum qc_constant_forms { QC_FORMS_NOT_KEPT, QC_FORMS_KEPT };
bool qc_store_weights(struct qc_graph **out, const struct qc_graph *g, enum qc_constant_forms forms, qc_eval_fn *eval,
                      struct qc_status *st);

/* Makes the same graph in integers. Quantized constants become affine constants with the name of the real one. */
bool qc_to_integer(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st);

/* Folds nodes with constant inputs, and known shapes, to constants. A result over the budget of folding (base/budget.h)
   stays a node; `within` uses a budget that several passes share. */
bool qc_fold_constants(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st);

/* Makes the graph for inputs of fixed shapes (one per input, as the data have them) and folds shape arithmetic. Qparams
   keep their ids. Fails (QC_BAD_INPUT) if the model does not admit a shape. */
bool qc_fix_shapes(struct qc_graph **out, const struct qc_graph *g, const struct qc_shape *shapes, qc_eval_fn *eval,
                   struct qc_status *st);
/* Sets of[value_count + 1] to the shapes that values of g then have. Those that no output needs keep theirs. */
bool qc_shapes_of_values(struct qc_shape *of, const struct qc_graph *g, const struct qc_shape *shapes, qc_eval_fn *eval,
                         struct qc_status *st);

/* Makes the canonical real graph: folds constants and applies the rules of normalise.rules until nothing changes. */
bool qc_normalise(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules, qc_eval_fn *eval,
                  struct qc_status *st);

/* Finds every float32 value of a canonical graph (qc_normalise) that has a name and is no constant. Excluded are values
   that others of their class (rewrite/passes/partition.h) cover with any --only and --skip: results of an op of the
   allow-list that copies and that no pattern names, and inputs that only a clamp reads. Ascending ids, array from the
   arena. */
bool qc_observable_values(size_t *count, qc_id **values, const struct qc_graph *g, const struct qc_rules *rules,
                          struct qc_arena *a, struct qc_status *st);

/* Returns true if a dequantize moves down through the node without rounding: Pad writes zeros and Relu cuts at zero,
   which are levels of all qparams. A bound of Clip, another fill value of Pad and a float constant of Concat may lie
   between two levels. */
bool qc_moves_exactly(const struct qc_rules *rules, const struct qc_graph *g, const struct qc_node *n);
