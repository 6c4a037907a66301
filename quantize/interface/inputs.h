// SPDX-License-Identifier: Apache-2.0
/* The inputs of a job: a model, samples, statistics; in files or in memory. Everything is borrowed and must outlive the
   job. */
#pragma once

#include "base/file.h"
#include "calib/statistics/collection.h"
#include "datasets/samples/dataset.h"
#include "onnx/read/import.h"
#include "quantize/interface/team.h"

/* A model in memory, as qc_onnx_import returns it; sha256 and bytes are for the report. */
struct qc_model_at_hand {
    const struct qc_graph *graph;
    const struct qc_model_info *info;
    const char *sha256;
    bool from_file; /* its name is the path of its file */
    size_t bytes;
};

/* A model: a file, or in memory. */
struct qc_model_source {
    const char *file;                       /* path, or the name in messages and the report */
    const struct qc_model_at_hand *at_hand; /* NULL: read from the file */
    /* Files that will be written; none may hold external data of the model (QC_USAGE). */
    size_t output_count;
    const struct qc_named_file *outputs;
};

/* Samples: a file, or opened by a callback. */
struct qc_data_source {
    const char *file; /* FILE[:DATASET]; NULL with `open`, or if there are none */
    /* As qc_dataset_open, without a file; NULL: read from the file. */
    bool (*open)(struct qc_dataset **out, const void *user, const struct qc_input_spec *inputs, size_t input_count,
                 const struct qc_dataset_options *options, struct qc_status *st);
    /* SHA-256 of the data that `open` opens, for statistics and the report. */
    bool (*sha256)(char hex[65], const void *user, struct qc_status *st);
    const void *user;
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
    const struct qc_team *team; /* the processes that share the work; NULL: this process alone */
    const char *scratch;        /* folder for temporary files if TMPDIR is not set; NULL: the current one */
};

static inline bool qc_has_data(const struct qc_data_source *s)
{
    return s->file || s->open;
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

/* Compute the SHA-256 of the model, and of the data that ds was opened from. */
bool qc_model_sha256(char hex[65], const struct qc_model_source *m, struct qc_status *st);
bool qc_data_sha256(char hex[65], const struct qc_data_source *s, const struct qc_dataset *ds, struct qc_status *st);
