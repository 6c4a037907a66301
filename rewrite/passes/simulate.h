// SPDX-License-Identifier: Apache-2.0
/* From a partition to the simulated graph, and the passes behind it. All of them build a new graph. */
#pragma once

#include "rewrite/passes/partition.h"

/* Every match becomes quantize -> op -> dequantize with qparams (unbound variables) for parameters; the observed values
   of each quantizer are set. The result has .simulated set: affine values are held in float32. */
bool qc_simulate(struct qc_graph **out, const struct qc_partition *p, struct qc_status *st);

/* Pushes quantize up and dequantize down through the ops of the allow-list. one_scale_joins: as the partition's option;
   constants join in whatever space the other inputs are stored. */
bool qc_propagate_qdq(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                      bool one_scale_joins, struct qc_status *st);
/* The same for a model that is quantized already: nothing is rounded that is float in it, so that dequantize moves down
   only where the operator computes the same on integers. */
bool qc_propagate_exactly(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                          struct qc_status *st);

/* Once parameters are bound: where a value is brought from one quantizer to another of equal parameters the two become
   one (the quantizer that was made first), and dequantize -> quantize becomes requantize by the rules of
   requantize.rules. */
bool qc_fold(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules, struct qc_status *st);

/* Evaluates a node whose inputs are all constants (simq/plan/plan.h: qc_evaluate). */
typedef bool qc_eval_fn(struct qc_tensor **outputs, const struct qc_graph *g, qc_id node, struct qc_status *st);

/* The same graph in integers; quantized constants become affine constants, with the name of the real one. */
bool qc_to_integer(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st);

/* Nodes with constant inputs become constants, shapes that are known too. What is over the budget of folding
   (base/budget.h) stays a node; `within` takes it from what several passes have together. */
bool qc_fold_constants(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st);
bool qc_fold_constants_within(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval,
                              struct qc_folding *left, struct qc_status *st);

/* The graph for inputs of fixed shapes (one per input, as the data have them): shape arithmetic is folded away. Qparams
   keep their ids. QC_BAD_INPUT: a shape that the model does not admit. */
bool qc_fix_shapes(struct qc_graph **out, const struct qc_graph *g, const struct qc_shape *shapes, qc_eval_fn *eval,
                   struct qc_status *st);

/* The canonical real graph: constants folded and the rules of normalise.rules applied until nothing changes. */
bool qc_normalise(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules, qc_eval_fn *eval,
                  struct qc_status *st);
