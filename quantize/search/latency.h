// SPDX-License-Identifier: Apache-2.0
/* The latency of model files, as the user's command measures it (--benchmark), or ONNX Runtime in Python. */
#pragma once

#include "quantize/setup/setup.h"

struct qc_latency {
    const struct qc_setup *setup;
    const char **words; /* of the command */
    size_t word_count;
    bool together;             /* the command measures all files in one process (python/qcalib/benchmark.py) */
    const char *file, *so_far; /* with --checkpoint: "CHECKPOINT.benchmark", and what it holds; else NULL */
};

struct qc_milliseconds {
    double least, second; /* of the rounds */
};

/* Splits the command, and reads the latencies that an interrupted job has measured. Fails with QC_USAGE if the command
   is malformed, with QC_BAD_INPUT if the file has another format. */
bool qc_latency_begin(struct qc_latency *l, const struct qc_setup *s, struct qc_arena *a, struct qc_status *st);

/* Runs the command once. */
bool qc_latency_try(const struct qc_latency *l, const char *file, struct qc_status *st);

/* Measures each file in turn, for three rounds. With `race`, files that are 10 % slower than the first are not measured
   again. Latencies in the checkpoint are not measured again. Errors: those of the command (base/command.h); QC_MACHINE
   if it prints no number above 0; QC_INTERRUPTED. */
bool qc_latency_measure(struct qc_milliseconds *out, struct qc_latency *l, const char *const *files, size_t count,
                        bool race, struct qc_status *st);

/* Returns true if a is less than b by more than 2 %, and by more than the two fastest rounds of either file differ. */
bool qc_latency_less(const struct qc_milliseconds *a, const struct qc_milliseconds *b);

/* Removes the file of the checkpoint. */
void qc_latency_forget(const struct qc_options *o);
