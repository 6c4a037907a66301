// SPDX-License-Identifier: Apache-2.0
/* Implementation of the objects of include/qcalib/qcalib.h; private to library/. */
#pragma once

#include <locale.h>

#include "base/status.h"
#include "datasets/arrays/memory_data.h"
#include "graph/core/graph.h"
#include "include/qcalib/qcalib.h"
#include "onnx/read/import.h"
#include "quantize/job.h"

/* A public call: its status, and the thread's locale before it. Every call runs in the C locale, so that numbers in
   texts have a point. */
struct qc_public_call {
    struct qc_status st;
    locale_t before;
};
struct qc_public_call qc_public_begin_call(void);
/* Ends the call. Returns the code and copies the status to *error (may be NULL). */
int qc_public_end(bool ok, const struct qc_public_call *call, struct qcalib_error *error);

/* Structs that begin with their size; name is for messages.
   take: copies the given struct to *own (own_size bytes); members that the caller's version lacks are 0.
   give: copies as much of *own to the caller's *out, whose size is set, as it holds.
   Fails with QC_USAGE if there is no struct or no size, or if members unknown to this library are not 0. */
bool qc_public_take(void *own, size_t own_size, const void *given, const char *name, struct qc_status *st);
bool qc_public_give(void *out, const void *own, size_t own_size, const char *name, struct qc_status *st);

/* Fails with QC_USAGE if the argument is NULL. */
bool qc_public_there(const void *argument, const char *name, struct qc_status *st);
/* Fails with QC_USAGE if i >= count. */
bool qc_public_index(size_t i, size_t count, const char *what, struct qc_status *st);

/* ---- From struct qcalib_job to the job of quantize/ ---- */

struct qcalib_statistics {
    struct qc_collection *collection;
    struct qc_arena *arena;    /* of the list */
    struct qc_file_list files; /* absolute paths of the files that they come from, which are not overwritten */
};

/* The inputs of a job. Names of the model and of data, and strings of the options are in the arena, since a report
   names them after their objects are freed; all else is borrowed. Zeroed before qc_public_begin. */
struct qc_public_job {
    struct qcalib_job call; /* members that the caller's struct lacks are 0 */
    struct qc_arena *arena;
    struct qc_file_list outputs;
    struct qc_options options;
    struct qc_model_at_hand model;
    struct qc_job_inputs in;
    struct qc_progress progress; /* points to this struct, which must not move during the job */
};

/* Fails with QC_USAGE. qc_public_done frees it in any case. */
bool qc_public_begin(struct qc_public_job *out, enum qc_command command, const struct qcalib_model *model,
                     const struct qcalib_job *job, struct qc_status *st);
void qc_public_done(struct qc_public_job *j);

/* The model source of qc_public_begin, for another model of the same job. */
void qc_public_source(struct qc_model_source *out, struct qc_model_at_hand *at_hand, const struct qcalib_model *model);

/* Passes warnings (may be NULL) to the caller's callback. */
void qc_public_warn(const struct qc_public_job *j, const struct qc_warnings *w);

/* Returns the options of a command; those that it does not take are ignored. options may be NULL. */
bool qc_public_options(struct qc_options *out, enum qc_command command, const struct qcalib_options *options,
                       struct qc_arena *a, struct qc_status *st);

/* ---- Members of qcalib_data, qcalib_model and qcalib_options ---- */

struct qcalib_data {
    char *file;                    /* FILE[:DATASET]; NULL: in memory */
    struct qc_memory_data *memory; /* NULL: data of a file */
    size_t waiting;                /* arrays whose rows are to be drawn */
    struct qc_array *arrays;       /* [waiting]; their texts and shapes are owned */
};

struct qcalib_model {
    char *name;
    struct qc_graph *graph;
    struct qc_model_info info;
    size_t bytes; /* of the file */
    char *file;   /* absolute path that it was read from; NULL: from memory */
    char sha256[65];
};
