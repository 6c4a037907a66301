// SPDX-License-Identifier: Apache-2.0
/* Decides what is quantized and where: matches of the patterns, and the quantizers of their templates.

   Values that KEEP, BOUND and JOIN ops of the allow-list connect form a class with one quantizer: parameters pass
   through such ops, so a quantize may move up to the op that computes the class (docs/architecture.md, "Quantizers").
   An input of a BOUND or JOIN op belongs to the class of the result only if no other node uses it. It does not if a
   join only leads to outputs and its inputs are of very different sizes. Values that no other
   of the class covers determine the quantizer: inputs of KEEP ops rather than results, results of BOUND ops rather than
   inputs (values that a relu clips need no levels), results of JOIN ops.

   A pattern may have a quantization scheme (scheme ..., docs/rules.md). If patterns that share a quantizer have
   different schemes, the first in topological order is used - the pattern that makes a value before its readers - with
   a warning. A type that the options give to nodes by name overrides the pattern's scheme. */
#pragma once

#include "base/words.h"
#include "graph/core/uses.h"
#include "rewrite/language/rewriter.h"
#include "rewrite/language/target.h"
#include "rewrite/passes/given.h"

struct qc_type_scheme {
    enum qc_dtype dtype;
    enum qc_symmetry symmetry;
    bool restricted, per_channel;
    unsigned bits;                         /* of the levels; 0: all of the type */
    const struct qc_number_format *format; /* of weights in blocks that have the type, or of inputs of products, which
                                              are rounded at run time (dtype QC_NONE); NULL: none */
};

/* --activation-type T:GLOB: a type for the nodes that match a glob. */
struct qc_type_choice {
    enum qc_dtype dtype; /* QC_NONE: not quantized */
    unsigned bits;       /* of its levels; 0: all of the type */
    bool dynamic;        /* with QC_NONE: products quantize their inputs at run time (rewrite/passes/dynamic.h) ... */
    const struct qc_number_format *format; /* ... or round them to this format */
    const char *glob;                      /* as in options.skip */
};

/* Prevents weights from saturating the 16-bit sums of two products of x86 without VNNI (graph/core/pair_order.h): by a
   limit on pairs, by levels of 7 bits, or not at all. */
enum qc_overflow_fix { QC_OVERFLOW_FIX_OFF, QC_OVERFLOW_FIX_PAIRS, QC_OVERFLOW_FIX_REDUCE_RANGE };

/* SPEED: ops that the target computes faster in float stay float (rewrite/passes/costs.h); SIZE: except those with
   weights; INTEGERS: as many integer ops as possible. */
enum qc_prefer { QC_PREFER_SPEED, QC_PREFER_SIZE, QC_PREFER_INTEGERS };

/* Kinds of processors that times of operators are known of (rewrite/passes/operator_times.h). QC_PROCESSORS: any. */
enum qc_processor { QC_PROCESSOR_AVX512_VNNI, QC_PROCESSOR_AVX2, QC_PROCESSOR_AMX, QC_PROCESSORS };

struct qc_partition_options {
    struct qc_type_scheme activation, weight; /* .dtype QC_NONE: not quantized. If only activations are not: weight-only
                                            quantization, around float ops */
    bool dynamic; /* activations are not stored, but products quantize their inputs (rewrite/passes/dynamic.h) */
    size_t activation_type_count, weight_type_count;
    const struct qc_type_choice *activation_types,
        *weight_types; /* override schemes of patterns; the last that fits a node counts */
    /* With activations of fewer than 8 bits: types of layers that no layer precedes or follows; QC_NONE: as the others.
       Types by name override them. */
    enum qc_dtype edge_activation, edge_weight;
    bool one_scale_joins; /* a join that only leads to outputs has one scale, even if small inputs lose precision
                           */
    size_t only_count, skip_count;
    const char *const *only;          /* names of patterns or ops; none: all */
    const char *const *skip;          /* node names, op names or globs of node names */
    size_t asked_skips;               /* the first ones of skip are the caller's; others serve a demand */
    const struct qc_model_ops *model; /* for op names of the model that rules have rewritten, or NULL */
    size_t kept_count;
    const char *const *kept; /* prefixes of names of nodes that stay as the model has them */
    size_t unfed_count;
    const char *const *unfed; /* names of values without elements in any sample: not quantized */
    size_t stored_count;
    bool unplaced;  /* by time: inputs or outputs have to be integers, or the file is for another runtime */
    bool qoperator; /* the file has operators on integers, also of LSTM quantized dynamically (--format qoperator) */
    const char *const *stored;           /* names of inputs and outputs that are stored in integers (--io-type) */
    const struct qc_given_values *given; /* parameters that the model has already, or NULL */
    enum qc_dtype cache;                 /* of key/value caches (graph/core/uses.h); QC_NONE: as activations */
    int64_t weight_block;   /* number of elements of a product's weight with one scale, along the summed axis; 0: per
                               channel */
    bool blocks_restricted; /* as weight.restricted, for weights in blocks */
    bool few_have_zeros;    /* weights in blocks of fewer than 8 bits are asymmetric, whatever weight.symmetry is */
    bool dynamic_int4; /* dynamic quantization of products with int4 weights: all formats have an operator for it */
    enum qc_overflow_fix overflow_fix;
    bool simulates_hardware; /* sums or biases are not those of the target, so its times are not known */
    enum qc_prefer prefer;
    enum qc_processor processor;
    const struct qc_target *target; /* NULL: qc_target_plain */
    const struct qc_shape *shapes; /* [value_count + 1] of the graph: shapes in the largest sample, for estimated times;
                                      NULL: those of the graph */
    bool part;                     /* the graph is part of a model: names may be those of nodes in other parts */
};
#define QC_PARTITION_INIT                                                                                              \
    ((struct qc_partition_options){                                                                                    \
        .activation = {.dtype = QC_U8, .symmetry = QC_ASYMMETRIC},                                                     \
        .weight = {.dtype = QC_I8, .symmetry = QC_SYMMETRIC, .restricted = true, .per_channel = true}})

/* The source of the scheme of a quantizer (class) or of a weight. */
struct qc_scheme_source {
    const struct qc_rule *rule; /* the pattern */
    const char *node;           /* the node with its own type, or NULL: the pattern's scheme */
    struct qc_scheme_clause activation, weight;
};

struct qc_partition {
    struct qc_arena *arena;
    const struct qc_graph *graph; /* borrowed */
    struct qc_partition_options options;
    struct qc_matches matches;
    qc_id *class_of;                           /* [value_count + 1]: representative of the value's class */
    const struct qc_given **given;             /* [value_count + 1] by class: given parameters of its quantizer */
    size_t cache_count;                        /* caches that have their own type */
    int *cached;                               /* [value_count + 1]: 2 + the axis of the heads of a cache that has its
                                                  own type; 1: one scale; 0: no cache */
    bool *requested;                           /* [value_count + 1]: a pattern quantizes the value where it is made */
    const char **reason;                       /* [node_count + 1]: why no match contains the node, or NULL */
    const struct qc_scheme_source **scheme_of; /* [value_count + 1]: scheme of the quantizer of this class (by
                                                  representative) or of this weight; NULL: the options */
    int *channel_axis; /* [value_count + 1]: axis of the channels if the value's quantizer has a scale per channel; -1:
                          one scale */
    const char **one_scale; /* [value_count + 1] by class: why its quantizer has one scale although one per channel was
                               requested, or NULL */
    qc_id *weight_of;       /* [node_count + 1]: the weight, if only it is quantized of the node, else 0 ... */
    int *weight_axis;       /* ... and the axis of its output channels */
    bool *at_load;          /* [value_count + 1]: such a weight is converted to float when the file is loaded */
    bool *logarithm;        /* [value_count + 1]: a logarithm follows the value before the next product; it turns small
                               errors of small values into large ones */
    struct qc_type_choice edge_type[2]; /* of activations and of weights at the edges */
    bool *edge;                         /* [node_count + 1]: a product that no product precedes, or none follows */
    const struct qc_type_choice **weight_type; /* [value_count + 1]: type of such a weight by the name of its node, or
                                                  NULL */
    size_t weight_only_count;
    size_t cost_count; /* nodes left in float for speed (rewrite/passes/costs.h) */
    size_t
        placed_count; /* of these, matches that estimated times leave in float (rewrite/passes/placed_by_time.h) ... */
    double placed_gain, placed_time; /* ... the time that it saves and the time that is left, in microseconds */
    bool *weights_only;              /* [node_count + 1]: the match at this node quantizes only its weights */
    int *block_axis; /* [value_count + 1]: 1 + the axis of the blocks of this weight; 0: not in blocks */
    size_t slight;   /* product weights with at most this number of elements have 8 bits if larger ones are in blocks of
                        fewer */
    size_t slight_table; /* tables with at most this number of elements have 16 bits if products have 8 bits in
                            blocks */
    bool *real_product;  /* [node_count + 1]: the match at this node multiplies real numbers, because no accumulator can
                            sum over blocks of a weight */
    bool *dynamic;       /* [node_count + 1]: only the weight is quantized, and the input at run time */
    const struct qc_number_format **input_format; /* [node_count + 1]: or the input is rounded to this format in
                                                     blocks; NULL: none */
    struct qc_lines warnings;
};

/* The operators of a model that have become others by rules, by the names of the nodes that stand for them: PRelu as
   convolutions, MatMul and Add as Gemm, calls (graph/core/source_call.h). */
struct qc_model_ops {
    const struct qc_graph *model; /* borrowed, as it was read */
    size_t count;
    struct qc_model_op {
        const char *name; /* of a node, or of its result */
        const char *op;
    } * of; /* [count], sorted by name */
};

/* *out: in the arena. g: made from the model by rules. */
bool qc_model_ops_of(const struct qc_model_ops **out, const struct qc_graph *model, const struct qc_graph *g,
                     struct qc_arena *a, struct qc_status *st);

/* Returns true if s is the node's op or the op of the model that it stands for, or a glob that matches its name, its
   result's, or that of the operator of the file that the node is a part of (graph/core/source_call.h). */
bool qc_node_fits(const char *s, const struct qc_partition_options *o, const struct qc_graph *g,
                  const struct qc_node *n);

/* Returns true if the node is a part of an operator of the file that is held as a function. */
bool qc_node_is_of_call(const struct qc_graph *g, const struct qc_node *n);

/* Returns the glob that matches only this name, in the arena; NULL if memory is out. */
const char *qc_glob_of_name(const char *name, struct qc_arena *a, struct qc_status *st);

/* The reason of ops that read a value of options.unfed. */
extern const char qc_partition_unfed[];

/* Returns true if options.skip excludes the node. used (may be NULL): [skip_count], set for entries that match. */
bool qc_partition_skips(const struct qc_partition_options *o, const struct qc_graph *g, const struct qc_node *n,
                        bool *used);

/* Returns true if options.only is empty or names the pattern, or the op of its product (or, without one, of its
   result). */
bool qc_partition_chooses(const struct qc_partition_options *o, const struct qc_graph *g, const struct qc_match *m);

/* Decides which quantizers have a scale per channel: --per-channel=activations, scheme activation per_channel. Inside
   rewrite/. */
bool qc_partition_channels(struct qc_partition *p, const struct qc_rules *rules, struct qc_status *st);

/* Fails (QC_USAGE) if --only names no pattern, or --skip or a type's glob matches no node. */
bool qc_partition_new(struct qc_partition **out, const struct qc_graph *g, const struct qc_rules *rules,
                      const struct qc_partition_options *options, struct qc_status *st);
void qc_partition_free(struct qc_partition *p);

/* Returns the value whose quantizer also stores the result of a match, if the template says so - dq(q(... q(x : X) ...)
   : X) or dq(F(q(x : X), ...) : X) -, or 0. */
qc_id qc_partition_stored_as(const struct qc_match *m);

/* Returns true if the template stores the result as integers, whatever reads it. */
bool qc_partition_stores(const struct qc_partition *p, const struct qc_match *m);

/* Returns true for a float32 value: only those are observed and get quantizers. */
static inline bool qc_is_quantizable(const struct qc_graph *g, qc_id v)
{
    return v && g->values[v].type.dtype == QC_F32;
}

/* Returns true for the first form, in which the result is a clamp of that value and covers it. In the second form both
   determine the range, together with constants stored with the same qparams. */
bool qc_partition_covers(const struct qc_match *m);

/* Returns the scheme of a quantizer (class: a representative) or of a weight: the options', overridden by that of the
   pattern used. */
struct qc_type_scheme qc_partition_scheme(const struct qc_partition *p, qc_id class_or_weight, bool weight);

/* Returns "match NAME: node, node ..." and "quantizer ..." lines for --dump partition; the caller frees them. */
char *qc_partition_print(const struct qc_partition *p, struct qc_status *st);

/* Inside rewrite/: types that options give to nodes by name, and ops with only quantized weights. */

/* The choices of the options that fitted a node. */
struct qc_types_used {
    bool *activation, *weight; /* [activation_type_count], [weight_type_count] */
};

/* Finds the number of elements below which a weight is slight (struct qc_partition). */
bool qc_types_find_slight(struct qc_partition *p, struct qc_status *st);
/* Finds the layers at the edges, if they have types of their own. */
bool qc_types_find_edges(struct qc_partition *p, struct qc_status *st);
/* Returns the number of quantized layers that have the types of edges. */
size_t qc_types_count_edges(const struct qc_partition *p);

/* Fails (QC_USAGE) if --only names no pattern or op, or --skip or a type's glob fitted no node. skip_used:
   [skip_count]. */
bool qc_partition_check_names(const struct qc_partition *p, const struct qc_rules *rules, const bool *skip_used,
                              const struct qc_types_used *types_used, struct qc_status *st);

/* Returns true if the types let the match be quantized. Else notes the reason, and the weight if it alone is
   quantized. */
bool qc_types_accept(struct qc_partition *p, const struct qc_match *m, struct qc_types_used *used);

/* Notes that the weight of a match that is computed in float is stored in integers, if that is smaller, and that
   `reason` is why. Not of operators of the file that are held as functions: the file could not have them again.
   Nor of operators that a logarithm follows. by_rule: a rule of costs keeps the match in float. */
bool qc_types_store_weight(struct qc_partition *p, const struct qc_match *m, bool by_rule, const char *reason,
                           struct qc_status *st);
/* Finds p->logarithm. */
bool qc_types_find_logarithms(struct qc_partition *p, struct qc_status *st);
/* Weights that others read too, such as matches, are in float. */
void qc_types_keep_shared(struct qc_partition *p, const struct qc_uses *uses);

/* Returns true if the template quantizes weights only (an embedding, an LSTM). */
bool qc_types_weights_alone(const struct qc_partition *p, const struct qc_match *m);

/* Returns true if the match reads floats of few bits: it computes in float32, and only its readers round the result. */
bool qc_types_small_floats(const struct qc_partition *p, const struct qc_match *m);

/* Returns true for the table of an embedding: only weights, of which the op copies elements. */
bool qc_types_is_table(const struct qc_partition *p, const struct qc_match *m);

/* Returns the pattern's scheme with the types of the matched nodes. NULL and a status if memory is out. */
const struct qc_scheme_source *qc_scheme_source_of(struct qc_partition *p, const struct qc_match *m,
                                                   struct qc_status *st);

/* Fails (QC_USAGE) if a glob fitted no node. */
bool qc_types_check(const struct qc_partition_options *o, const struct qc_types_used *used, struct qc_status *st);

/* Fails (QC_UNSUPPORTED), naming the ops, if factors have more than 24 bits together. A product of 16 by 16 bits fills
   the 32-bit accumulator; of 16 by 8 bits, 256 of the largest fit. */
bool qc_types_check_products(const struct qc_graph *g, struct qc_status *st);

/* Inside rewrite/: JOIN ops (Concat) whose inputs keep scales of their own, and Pads that add a number.

   If a quantized op reads the result, all inputs have one set of qparams: the result has one scale in any case. A join
   that only leads to outputs of the model is read in float, and one scale would ruin inputs that are much smaller than
   others. A detector joins boxes in pixels and logits, or scores in [0, 1], for its output: scores would become 0 or 1.
   A vision transformer joins a constant token and the results of a convolution on the image. */

/* Returns [node_count + 1], by id, in arena a: JOIN ops whose result no match reads, also not through ops that pass
   parameters on, if their inputs have very different bounds (graph/core/bounds.h: less than a sixteenth), or if bounds
   are unknown and only outputs of the model read the result, also through arithmetic with constants. And Pads of
   another number than 0 whose result no match reads. through: also not through matches of patterns that only join (an
   Add of constants whose result is read in float). matches NULL: none. Returns NULL and sets a status if memory is out.
 */
bool *qc_joins_apart(const struct qc_graph *g, const struct qc_rules *rules, const struct qc_matches *matches,
                     bool through, struct qc_arena *a, struct qc_status *st);
