// SPDX-License-Identifier: Apache-2.0
/* Targets: the conventions of a runtime, as a rule file that begins with the statement `target` (docs/targets.md):

   target NAME "SUMMARY"
     [like NAME]                       includes that target and its rules
     { scheme activation|weight WORD ... | option NAME VALUE | TRAIT WORD }

   Its rules are read after the built-in ones and those of `like`. */
#pragma once

#include "rewrite/language/rule.h"

enum { QC_TARGET_OPTIONS = 16, QC_TARGET_DEPTH = 8 };

/* An option of the job, by name; the user's value overrides it. */
struct qc_target_option {
    const char *name, *value;
};

/* fixed tflite|qnn: the runtime fixes the result parameters of some operators (quantize/make/make.h). */
enum qc_fixed_results { QC_FIXED_NONE, QC_FIXED_TFLITE, QC_FIXED_QNN };

/* bias int32|float|int8: biases of QDQ files are integers of the accumulator; float initializers, multiples of their
   step; or integers of 8 bits with a step of their own, that of the accumulator times a power of two. */
enum qc_bias_form { QC_BIAS_INT32, QC_BIAS_FLOAT, QC_BIAS_INT8 };

struct qc_target {
    const char *name, *summary;
    const char *file; /* as given; the name of a built-in target */
    bool builtin;
    const char *like; /* NULL: none */
    struct qc_scheme_clause activation, weight;
    unsigned option_count;
    struct qc_target_option options[QC_TARGET_OPTIONS];
    /* Traits */
    bool onnxruntime;   /* runtime onnxruntime: ONNX Runtime's CPU kernels run the file; reports name them */
    bool wide_is_float; /* wide float: types of more than 8 bits are computed in float */
    bool float_results; /* results float: integer kernels can give float results, so outputs need no stored integers */
    bool pads_channels; /* pairs each_position: kernels start new pairs at each position of a Conv */
    bool no_blocks;     /* blocks none: weights have no blocks of scales */
    bool power_of_two;  /* scales power_of_two */
    bool openvino;      /* passes openvino: files avoid operators that OpenVINO computes otherwise */
    bool stores_signed; /* centred int8: symmetric uint8 data with zero point 128 are stored as int8 with 0 */
    enum qc_fixed_results fixed;
    enum qc_bias_form bias;
    int opset; /* opset N: the newest opset that the runtime reads; 0: any */
};

/* A target without traits, but ONNX Runtime's. */
extern const struct qc_target qc_target_plain;

/* Returns true if kernels for x86 run the file, which may saturate pairs of products: not if the target itself sets
   overflow-fix off. */
bool qc_target_is_x86(const struct qc_target *t);

/* Reads the target of a name, or of a file (a name with a '.' or '/'), including the targets that it is like. In the
   arena. Fails if there is no such target (QC_USAGE), or as qc_rules_add_file. */
bool qc_target_load(const struct qc_target **out, const char *name, struct qc_arena *a, struct qc_status *st);

/* Returns the name of the i-th built-in target, in the arena; the first is the default. NULL if there is none or memory
   is out. */
const char *qc_builtin_target(size_t i, struct qc_arena *a, struct qc_status *st);

/* Reads the rules of the target after those of the targets that it is like. Templates, islands, costs and entries of
   the allow-list for any of these names apply. */
bool qc_rules_take_target(struct qc_rules *r, const struct qc_target *t, struct qc_status *st);
/* Reads only the rules of the target's own file. */
bool qc_rules_add_target_file(struct qc_rules *r, const struct qc_target *t, struct qc_status *st);
