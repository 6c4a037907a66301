// SPDX-License-Identifier: Apache-2.0
/* Helpers: graphs from text, data files made by the test, and all passes with parameters chosen from the data. */
#pragma once

#include "calib/metrics/accuracy.h"
#include "calib/ranges/calibrate.h"
#include "rewrite/passes/simulate.h"
#include "tests/check.h"

/* Values of one data set: [samples, dims...]. */
struct case_data {
    const char *name;
    enum qc_dtype dtype;
    const void *values;
    unsigned rank; /* without the samples */
    int64_t dims[QC_RANK_MAX];
};

/* Writes a file in the current folder; aborts the test when that fails. The name is unlike that of any other case; it
   is removed by case_unlink. */
enum { CASE_PATH = 64 };
void case_write(char path[CASE_PATH], const struct case_data *sets, size_t count, size_t samples);
void case_unlink(const char *path);
#define CASE_FILE __attribute__((cleanup(case_unlink_file), unused)) char
static inline void case_unlink_file(char (*path)[CASE_PATH])
{
    case_unlink(*path);
}

struct qc_graph *case_model(const char *path); /* ONNX */

/* Data opened for a graph's inputs. */
struct qc_dataset *case_open(const struct qc_graph *g, const char *path, bool truth);

/* The metric of a graph on data that were opened with the truth. */
bool case_evaluate(struct qc_metric *out, const struct qc_graph *g, const struct qc_dataset *data, unsigned workers,
                   struct qc_status *st);

struct case_setup {
    struct qc_partition_options scheme;
    const char *method, *weight_method; /* --method, --weight-method */
    unsigned workers;
    size_t memory_limit, samples; /* 0: none, all */
    bool nonfinite_error;
    bool moments;
    bool look_through;
    const char *rules; /* more patterns, or NULL */
};
#define CASE_SETUP                                                                                                     \
    ((struct case_setup){.scheme = QC_PARTITION_INIT, .method = "minmax", .weight_method = "minmax", .workers = 1})

/* Settings of runs, and those with rounding and corrected biases, of one worker. */
#define CASE_WORKERS(n) (&(struct qc_settings){.workers = (n)})
extern const struct qc_settings case_rounds;

struct case_run {
    struct qc_rules *rules, *fold_rules;
    struct qc_partition *partition;
    struct qc_dataset *data;
    struct qc_calibration *calibration;
    struct qc_second_moments *second_moments; /* with options.moments, else NULL */
    struct qc_graph *normalised, *simulated, *expanded, *folded, *produced;
};

/* Everything but the export. *out is to be freed in either case; g is borrowed. */
bool case_calibrate(struct case_run *out, const struct qc_graph *g, const char *path, const struct case_setup *setup,
                    struct qc_status *st);
/* Collects what the data are like and chooses from it: calibration and second moments of a simulated graph with data.
 */
bool case_choose(struct case_run *r, const struct qc_calibration_options *options, struct qc_status *st);
/* As far as the simulated graph, unbound. *out is zeroed before. */
bool case_simulate(struct case_run *out, const struct qc_graph *g, const struct case_setup *setup,
                   struct qc_status *st);
void case_free(struct case_run *r);
#define CASE_RUN __attribute__((cleanup(case_free), unused)) struct case_run

/* The same of a graph with one float32 input [N, dims...], from few large values and many small ones (log-normal): a
   range that cuts off the large ones leaves a mean error. Aborts the test when it fails. */
void case_calibrate_skewed(struct case_run *out, const struct qc_graph *g, const char *method, size_t samples);
/* For qc_trials_run: a copy of graph number k of `user`, a const struct qc_graph *const *. */
bool case_copy(void *user, struct qc_graph **out, size_t k, struct qc_status *st);

/* The quantizer of a name; aborts the test when there is none. */
qc_id case_quantizer(const struct qc_graph *g, const char *name);

/* Pseudo-random numbers that are about normal (the sum of 12). */
float case_normal(uint64_t *state);

/* A text of `count` such numbers as "{1.5, -0.25, ...}"; free() it. */
char *case_numbers(size_t count, float scale, uint64_t seed);
