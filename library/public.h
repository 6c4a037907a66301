// SPDX-License-Identifier: Apache-2.0
/* What stands behind the objects of include/qcalib/qcalib.h; private to library/. */
#pragma once

#include <locale.h>

#include "base/status.h"
#include "datasets/arrays/memory_data.h"
#include "graph/core/graph.h"
#include "include/qcalib/qcalib.h"
#include "onnx/read/import.h"
#include "quantize/job.h"

/* Every public call runs in the C locale: numbers in texts have a point, whatever locale the program has chosen.
   Returns the thread's own, for qc_public_end. */
locale_t qc_public_begin_call(void);

/* The end of every public call: the code, and *error (NULL: nobody asks) as the status has it. */
int qc_public_end(bool ok, const struct qc_status *st, locale_t before, struct qcalib_error *error);

/* Structs that begin with their size. name is what messages call them.
   take: *own (own_size bytes) becomes what was given, members that the caller's version has not are 0.
   give: the caller's *out, whose size is set, gets as much of *own as it holds.
   Errors: QC_USAGE: no struct, no size, or one with members that this library does not know and that are not 0. */
bool qc_public_take(void *own, size_t own_size, const void *given, const char *name, struct qc_status *st);
bool qc_public_give(void *out, const void *own, size_t own_size, const char *name, struct qc_status *st);

/* Errors: QC_USAGE: an argument that is NULL. */
bool qc_public_there(const void *argument, const char *name, struct qc_status *st);
/* Errors: QC_USAGE: i >= count. */
bool qc_public_index(size_t i, size_t count, const char *what, struct qc_status *st);

/* ---- From struct qcalib_job to what quantize/ works with ---- */

struct qcalib_statistics {
    struct qc_collection *collection;
};

/* What a public call hands to a job. Texts of the options live in the arena, all else is borrowed. Zeroed before
   qc_public_begin. */
struct qc_public_job {
    struct qcalib_job call;
    struct qc_arena *arena;
    struct qc_options options;
    struct qc_model_at_hand model;
    struct qc_job_inputs in;
    struct qc_progress progress; /* of this struct's address: it must not move while work goes on */
};

/* Errors: QC_USAGE. qc_public_done frees it in any case. */
bool qc_public_begin(struct qc_public_job *out, enum qc_command command, const struct qcalib_model *model,
                     const struct qcalib_job *job, struct qc_status *st);
void qc_public_done(struct qc_public_job *j);

/* As of qc_public_begin, for another model of the same job. */
void qc_public_source(struct qc_model_source *out, struct qc_model_at_hand *at_hand, const struct qcalib_model *model);

/* Gives warnings (NULL: none) to who listens. */
void qc_public_warn(const struct qc_public_job *j, const struct qc_warnings *w);

/* What was set, for a command: options that it does not take are left alone. options may be NULL. */
bool qc_public_options(struct qc_options *out, enum qc_command command, const struct qcalib_options *options,
                       struct qc_arena *a, struct qc_status *st);

/* ---- qcalib_data, qcalib_model and qcalib_options inside ---- */

struct qcalib_data {
    char *file;                    /* FILE[:DATASET]; NULL: in memory */
    struct qc_memory_data *memory; /* NULL: of a file */
    size_t waiting;                /* arrays whose rows are to be drawn */
    struct qc_array *arrays;       /* [waiting]; their texts and shapes are owned */
};

struct qcalib_model {
    char *name;
    struct qc_graph *graph;
    struct qc_model_info info;
    size_t bytes;   /* of the file */
    bool from_file; /* its name is the path that it was read from */
    char sha256[65];
};
