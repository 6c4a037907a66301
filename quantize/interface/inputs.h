// SPDX-License-Identifier: Apache-2.0
/* What a job works on: a model, samples, statistics; in files or in memory. Everything is borrowed and has to live as
 * long as the job. */
#pragma once

#include "base/file.h"
#include "calib/statistics/collection.h"
#include "datasets/samples/dataset.h"
#include "onnx/read/import.h"
#include "quantize/interface/team.h"

/* A model that was read before: as qc_onnx_import gives it, with what the report says of its bytes. */
struct qc_model_at_hand {
    const struct qc_graph *graph;
    const struct qc_model_info *info;
    const char *sha256;
    bool from_file; /* its name is the path that it was read from */
    size_t bytes;
};

/* An ONNX model: a file, or what was read. */
struct qc_model_source {
    const char *file;                       /* path; or what messages and the report call it */
    const struct qc_model_at_hand *at_hand; /* NULL: read from the file */
    /* Files that will be written: none may be one that the model has its weights in (QC_USAGE). */
    size_t output_count;
    const struct qc_named_file *outputs;
};

/* Samples: a file, or what someone else opens. */
struct qc_data_source {
    const char *file; /* FILE[:DATASET]; NULL beside `open`, or when there are none */
    /* As qc_dataset_open, without a file; NULL: read from the file. */
    bool (*open)(struct qc_dataset **out, const void *user, const struct qc_input_spec *inputs, size_t input_count,
                 const struct qc_dataset_options *options, struct qc_status *st);
    /* SHA-256 of what is opened so, for statistics and the report. */
    bool (*sha256)(char hex[65], const void *user, struct qc_status *st);
    const void *user;
};

/* Statistics of a file, or at hand; neither: there are none. */
struct qc_statistics_source {
    const char *file;
    const struct qc_collection *collection;
};

struct qc_job_inputs {
    struct qc_model_source model;
    struct qc_data_source data, eval; /* eval: with labels or target */
    struct qc_statistics_source statistics;
    const struct qc_team *team; /* the processes that share the work; NULL: this one alone */
    const char *scratch;        /* folder for temporary files where TMPDIR is not set; NULL: the current one */
};

static inline bool qc_has_data(const struct qc_data_source *s)
{
    return s->file || s->open;
}

static inline bool qc_has_statistics(const struct qc_job_inputs *in)
{
    return in->statistics.file || in->statistics.collection;
}

/* What messages call the statistics. */
static inline const char *qc_statistics_name(const struct qc_job_inputs *in)
{
    return in->statistics.file ? in->statistics.file : "the statistics";
}

/* SHA-256 of the model's bytes; of what ds was opened from. */
bool qc_model_sha256(char hex[65], const struct qc_model_source *m, struct qc_status *st);
bool qc_data_sha256(char hex[65], const struct qc_data_source *s, const struct qc_dataset *ds, struct qc_status *st);
