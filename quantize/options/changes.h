// SPDX-License-Identifier: Apache-2.0
/* Changes of options. */
#pragma once

#include "quantize/interface/inputs.h"
#include "quantize/options/options.h"

/* --name=value; value NULL: --name */
struct qc_option_text {
    const char *name, *value;
};

/* Options to add, and an option to leave out: the difference of two schemes. */
struct qc_change {
    size_t count, room;                   /* room: of `options`; 0: they are not from qc_change_add */
    const struct qc_option_text *options; /* [count] */
    const char *without;                  /* name of an option, or NULL */
    bool met;                             /* leave out --max-drop, --min-sqnr and --max-nll, too */
    bool first; /* types by name precede those of the options, which so take precedence over them */
};

/* Adds an option. name and value are borrowed. Fails if memory is out, or if value is NULL because it was. */
bool qc_change_add(struct qc_change *change, const char *name, const char *value, struct qc_arena *a,
                   struct qc_status *st);
/* Adds the options of another change. */
bool qc_change_join(struct qc_change *change, const struct qc_change *more, struct qc_arena *a, struct qc_status *st);

/* Sets *out to the options with the change; lists are copied into the arena. Fails with QC_USAGE. */
bool qc_options_change(struct qc_options *out, const struct qc_options *from, const struct qc_change *change,
                       struct qc_arena *a, struct qc_status *st);

/* Whether options agree with each other and with the inputs, and short questions about several of them. */

/* The value of --benchmark that measures in ONNX Runtime for Python. */
#define QC_BENCHMARK_OWN "onnxruntime"

/* Fails with QC_USAGE if options and inputs of 'quantize' contradict each other; the message says what to do. */
bool qc_options_agree(const struct qc_options *o, const struct qc_job_inputs *in, struct qc_status *st);

/* Returns true for --scale-channels awq, smooth and free. */
bool qc_options_scale(const struct qc_options *o);
