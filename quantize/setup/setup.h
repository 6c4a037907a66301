// SPDX-License-Identifier: Apache-2.0
/* What a job is given: the model in normal form, its samples, the rules and observers. Shared by all networks of the
   job, and const after qc_setup_open, but for the selection of samples, and for samples that are dropped. */
#pragma once

#include "export/formats/exporter.h"
#include "graph/core/graph.h"
#include "observers/plugin.h"
#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"
#include "quantize/setup/model.h"
#include "quantize/setup/passes.h"
#include "rewrite/passes/given.h"

struct qc_setup {
    const struct qc_options *options; /* as the user gave them; borrowed, like the next two */
    const struct qc_job_inputs *in;
    struct qc_progress *progress; /* may be NULL */
    struct qc_arena *arena;
    struct qc_rules *rules, *fold_rules; /* fold_rules: for the pass "fold" (rewrite/rules/requantize*.rules) */
    struct qc_plugins *plugins;
    size_t format_count;
    const struct qc_exporter **exporters; /* [format_count], in the order of the options */
    struct qc_model model;
    struct qc_dataset *data; /* NULL without --data */
    struct qc_dataset *eval; /* with labels or targets; NULL without --eval, or if accuracy cannot be measured */
    struct qc_graph *plain;  /* NULL, or the model without its own quantization, which is in `given` */
    struct qc_given_values given;
    struct qc_graph *normalised;
    struct qc_memo_budget *budget; /* of all memos of the job: samples, outputs of float networks, rounded layers */
    const struct qc_model_ops
        *model_ops; /* what rules have made of the model's operators (rewrite/passes/partition.h) */
    bool of_body;   /* the model is the body of an If, Loop or Scan */
    struct qc_shared_weights
        *shared_weights; /* of a body: those that its own bodies share; else NULL (quantize/search) */
    double seconds;      /* of opening */
};

/* Returns the parameters that the model has and those of --encodings; NULL: none. */
static inline const struct qc_given_values *qc_setup_given(const struct qc_setup *s)
{
    return s->given.count ? &s->given : NULL;
}

/* Checks options and inputs against each other, and reads rules and observers. Nothing else is read. of_body: the model
   is a body. o and in are borrowed. Fails with QC_USAGE, or if rules or observers cannot be read. */
bool qc_setup_begin(struct qc_setup **out, const struct qc_options *o, const struct qc_job_inputs *in,
                    struct qc_progress *progress, bool of_body, struct qc_status *st);
/* Opens model and data and normalises the graph: passes "import" and "normalise". */
bool qc_setup_open(struct qc_setup *s, const struct qc_listener *l, struct qc_status *st);
void qc_setup_free(struct qc_setup *s); /* NULL-safe */

/* --encodings FILE: given parameters of tensors by name (docs/encodings.md). */

/* Adds the parameters of a JSON file for values and constants of g to *given; of a tensor that has some already they
   take their place. The file has encodings of AIMET (0.6.1, 1.0, 2.0) or QNN, or tensor overrides of ONNX Runtime.
   Warns of entries that cannot be used: unknown names, floats, widths other than 4, 8 and 16 bits, blocks, types
   without a range. Biases of 32 bits are left out silently. Arrays are in the arena. Fails with QC_BAD_INPUT if the
   file is none of these forms, or an entry is not valid, naming the tensor. */
bool qc_add_encodings(struct qc_given_values *given, const char *file, const struct qc_graph *g, struct qc_arena *a,
                      struct qc_warnings *w, struct qc_status *st);

/* Outputs that rounding reorders. TopK, NonMaxSuppression and ArgMax choose rows by their size, so a rounded network
   has other rows at the same places, and the error of such an output says nothing. It is judged by the values that
   enter the ordering and by those from which rows are taken: these become outputs of the job's graphs, but not of the
   file. */

/* Makes a graph with these values as further outputs and marks the outputs that are not judged (enum qc_judging).
   *out: NULL if no output is reordered. An output with a product after the ordering stays as it is: the error of that
   product must count. All values of g that nodes compute have names. */
bool qc_judge_before_ordering(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st);
