// SPDX-License-Identifier: Apache-2.0
/* What was seen of the samples, and what was solved from it: statistics of values, second moments, outputs of the float
   network, and results that several networks share. It belongs to one float network; a scheme that needs more brings
   the samples in again. */
#pragma once

#include "calib/statistics/collection.h"
#include "calib/trials/trials.h"
#include "quantize/setup/setup.h"
#include "rewrite/passes/operator_times.h"

struct qc_rounded_file;
struct qc_body;
struct qc_body_set;

struct qc_evidence {
    bool derived; /* made from other evidence, which owns the sizes */
    bool borrows_layers;
    struct qc_collection *statistics; /* of --stats, or collected; with second moments. NULL: none yet */
    struct qc_collect_cost cost;      /* of collecting */
    double seconds;
    struct qc_known_outputs *known; /* outputs of the graph known_of; NULL: it runs again */
    const struct qc_graph *known_of;
    uint64_t *keys; /* [units of data]: keys of the units that collecting has run, so that trials need not read all
                       again; NULL if several processes collect */
    struct qc_input_steps *steps; /* [inputs]: steps found in the data; NULL until needed */
    struct qc_memo *layers; /* of rounded layers (calib/weights/rounded_layers.h); NULL: each network solves its own */
    struct qc_rounded_file *layer_file; /* with --checkpoint: the same, for continuing an interrupted job */
    struct qc_body_set *bodies;         /* quantized bodies; NULL until made */
    size_t run_bytes;                   /* of a later run with one worker; 0 without --memory-limit */
    size_t later_bytes;                 /* as in struct qc_calibration_options */
    double
        float_times[QC_PROCESSORS]; /* of the model file as quantize/search/cost.h estimates them; 0: not known yet */
    const struct qc_shape *sizes; /* [inputs]: shapes of the largest sample of --data, of the statistics, or of --eval;
                                     NULL: not known, or no size of the model is free but the batch */
    bool sizes_of_eval;           /* then placement does not depend on them */
    bool memory_planned;
    bool moments_dropped; /* second moments were used and freed */
    bool collected;       /* --checkpoint has the statistics of an earlier collection */
};

/* Makes the evidence of a job: empty, or with the statistics that it is given (--stats). Fails if these do not belong
   to model and data. */
bool qc_evidence_new(struct qc_evidence **out, const struct qc_setup *s, struct qc_status *st);
/* Makes evidence for another network of the same job: with the statistics and the rounded layers of `from`. */
bool qc_evidence_share(struct qc_evidence **out, struct qc_evidence *from, struct qc_status *st);
/* The same for another float network, whose statistics must be collected: only what concerns the samples. few: other
   samples are selected, so their keys are not shared. Rounded layers are kept within the budget if `from` keeps them.
 */
bool qc_evidence_beside(struct qc_evidence **out, struct qc_evidence *from, bool few, struct qc_memo_budget *budget,
                        struct qc_status *st);
/* Adds the statistics of `from` and the outputs of its float network, which may be the first of another form. */
void qc_evidence_lend(struct qc_evidence *e, struct qc_evidence *from);
/* Sets *out to g with the shapes of the largest sample. It is NULL if they are not known, or do not fit. */
bool qc_evidence_sized_graph(struct qc_graph **out, const struct qc_evidence *e, const struct qc_graph *g,
                             struct qc_status *st);
void qc_evidence_free(struct qc_evidence *e); /* NULL-safe */

/* Replaces the statistics; the earlier ones are freed, and layers that were rounded by them are forgotten. */
void qc_evidence_set_statistics(struct qc_evidence *e, struct qc_collection *statistics);

/* Returns the known outputs of g, borrowed; NULL if they are not kept. */
struct qc_known_outputs *qc_evidence_outputs(const struct qc_evidence *e, const struct qc_graph *g);

/* Lifetime of bodies (quantize/make/bodies.h), which have evidence of their own. */

/* room: number of bodies that can be added. */
bool qc_body_set_new(struct qc_body_set **out, size_t room, struct qc_status *st);
void qc_body_set_free(struct qc_body_set *b); /* NULL-safe; frees with the last holder */
/* Frees what a body was made of; graph, name, runs and reason stay. */
void qc_body_clear(struct qc_body *b);
