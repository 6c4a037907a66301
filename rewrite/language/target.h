// SPDX-License-Identifier: Apache-2.0
/* Targets: the conventions of a runtime, as a file of rules that begins with the statement `target`
   (docs/targets.md):

   target NAME "SUMMARY"
     [like NAME]                       all of that target, and its rules, hold too
     { scheme activation|weight WORD ... | option NAME VALUE | TRAIT WORD }

   The rules behind it are read after the built-in ones and those of `like`. */
#pragma once

#include "rewrite/language/rule.h"

enum { QC_TARGET_OPTIONS = 16, QC_TARGET_DEPTH = 8 };

/* An option of the job, by name, that holds unless the user gives it. */
struct qc_target_option {
    const char *name, *value;
};

/* fixed tflite|qnn: results of some operators have parameters that the runtime fixes (quantize/trials/target_limits.h)
 */
enum qc_fixed_results { QC_FIXED_NONE, QC_FIXED_TFLITE, QC_FIXED_QNN };

struct qc_target {
    const char *name, *summary;
    const char *file; /* as it was given; of a built-in one its name */
    bool builtin;
    const char *like; /* NULL: none */
    struct qc_scheme_clause activation, weight;
    unsigned option_count;
    struct qc_target_option options[QC_TARGET_OPTIONS];
    /* Traits */
    bool onnxruntime;   /* runtime onnxruntime: ONNX Runtime's CPU kernels run the file; reports name them */
    bool wide_is_float; /* wide float: types of more than 8 bits are computed in float */
    bool float_results; /* results float: integer kernels give float results too, so nothing is stored for an output */
    bool pads_channels; /* pairs each_position: kernels begin pairs anew at each position of a Conv */
    bool no_blocks;     /* blocks none: weights have no blocks of scales */
    bool power_of_two;  /* scales power_of_two */
    enum qc_fixed_results fixed;
    bool float_bias; /* bias float: biases of QDQ files are float initializers, multiples of their step */
    int opset;       /* opset N: the newest that the runtime reads; 0: any */
};

/* Reads the target of a name, or of a file (a name with a '.' or '/'), with what it is like. In the arena. Errors:
   QC_USAGE: there is no such target; as qc_rules_add_file. */
bool qc_target_load(const struct qc_target **out, const char *name, struct qc_arena *a, struct qc_status *st);

/* Name of the i-th built-in target, the first of which is the default; in the arena. NULL: there is none, or no memory.
 */
const char *qc_builtin_target(size_t i, struct qc_arena *a, struct qc_status *st);

/* Reads the rules of the target behind those of what it is like. Templates, islands, costs and entries of the
   allow-list for any of these names hold. */
bool qc_rules_take_target(struct qc_rules *r, const struct qc_target *t, struct qc_status *st);
/* Reads the rules of its file alone. */
bool qc_rules_add_target_file(struct qc_rules *r, const struct qc_target *t, struct qc_status *st);
