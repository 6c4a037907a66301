// SPDX-License-Identifier: Apache-2.0
/* What a caller gives a job, and how it hears of its progress. Nothing is printed here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/file.h"
#include "base/status.h"
#include "calib/statistics/collection.h"
#include "datasets/arrays/memory_data.h"
#include "onnx/read/import.h"

/* Progress of a running job, and requests to stop it.

   phase: such as "calibrating"; NULL: no phase is running. `done` of `count` units are finished; a phase begins with
   count 0. Returns false to stop the job, which ends with QC_INTERRUPTED. Calls come one at a time, from any thread of
   the job. */
typedef bool qc_progress_fn(void *user, const char *phase, size_t done, size_t count);

enum { QC_PHASE = 41 };

struct qc_progress {
    qc_progress_fn *tell; /* may be NULL */
    /* called when the job begins to save statistics on a stop, so that its end must be awaited; may be NULL */
    void (*saves)(void *user);
    void *user;
    char phase[QC_PHASE]; /* name of the current phase; set by the job */
};

/* p may be NULL in all of them. */

/* Begins a phase; the name is cut to 40 characters. */
void qc_progress_phase(struct qc_progress *p, const char *fmt, ...) QC_PRINTF(2, 3);

/* A qc_pool_progress_fn; user is the struct qc_progress. Returns false to stop. */
bool qc_progress_step(void *user, size_t done, size_t count);

void qc_progress_end(struct qc_progress *p);

/* Call between phases. Fails with QC_INTERRUPTED if the job is to stop. */
bool qc_progress_check(struct qc_progress *p, struct qc_status *st);

/* The inputs of a job: a model, samples, statistics; in files or in memory. Everything is borrowed and must outlive the
   job. */

/* A model in memory, as qc_onnx_import_with returns it; sha256 and bytes are for the report. */
struct qc_model_at_hand {
    const struct qc_graph *graph;
    const struct qc_model_info *info;
    const char *sha256;
    const char *file; /* the absolute path of the file that it was read from; NULL: it was given as bytes */
    size_t bytes;
};

/* A model: a file, or in memory. */
struct qc_model_source {
    const char *file;                       /* path, or the name in messages and the report */
    const struct qc_model_at_hand *at_hand; /* NULL: read from the file */
    bool only_run;                          /* labels that are texts may become indices (struct qc_import_options) */
    /* Files that will be written; none may be an input or hold external data of the model (QC_USAGE). */
    size_t output_count;
    struct qc_named_file *outputs;
};

/* Samples: a file, or in memory. */
struct qc_data_source {
    const char *file; /* FILE[:DATASET]; NULL with `memory`, or if there are none */
    const struct qc_memory_data *memory;
};

/* Statistics in a file or in memory; both NULL: none. */
struct qc_statistics_source {
    const char *file;
    const struct qc_collection *collection;
};

struct qc_job_inputs {
    struct qc_model_source model;
    struct qc_data_source data, eval; /* eval: with labels or target */
    struct qc_statistics_source statistics;
    size_t file_count; /* further files that must not be written */
    const struct qc_named_file *files;
    const struct qc_team *team; /* the processes that share the work; NULL: this process alone */
    const char *scratch;        /* folder for temporary files if TMPDIR is not set; NULL: /tmp */
    size_t word_count;          /* words of the command line that name output files, for commands to try */
    const char *const *words;
};

static inline bool qc_has_data(const struct qc_data_source *s)
{
    return s->file || s->memory;
}

static inline bool qc_has_statistics(const struct qc_job_inputs *in)
{
    return in->statistics.file || in->statistics.collection;
}

/* Returns the name of the statistics in messages. */
static inline const char *qc_statistics_name(const struct qc_job_inputs *in)
{
    return in->statistics.file ? in->statistics.file : "the statistics";
}

/* Puts the model's name before the message of a job that failed on its input, unless the message begins with an option
   or names a file of the job. Returns false. */
bool qc_where_in_job(const struct qc_job_inputs *in, struct qc_status *st);

/* Compute the SHA-256 of the model, and of the data that ds was opened from. */
bool qc_model_sha256(char hex[65], const struct qc_model_source *m, struct qc_status *st);
bool qc_data_sha256(char hex[65], const struct qc_data_source *s, const struct qc_dataset *ds, struct qc_status *st);

/* Processes that share one job, each with a part of the samples. The transport is elsewhere (cli/main_mpi.c). */

struct qc_team {
    unsigned rank, size; /* 0 <= rank < size; rank 0 continues with the statistics of all */
    /* Every other rank sends once, rank 0 receives from each. *bytes are owned by the caller (free). */
    bool (*send)(const void *bytes, size_t size, struct qc_status *st);
    bool (*receive)(void **bytes, size_t *size, unsigned from, struct qc_status *st);
};
