// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/round_options.h"

#include <string.h>

bool qc_narrows_bias(const struct qc_options *o)
{
    return strcmp(o->bias, "narrowed") == 0;
}

bool qc_corrects_bias(const struct qc_options *o)
{
    return strcmp(o->bias_correction, "on") == 0 && !qc_narrows_bias(o);
}

bool qc_rounds_weights(const struct qc_options *o)
{
    return strcmp(o->weight_rounding, "compensated") == 0 || qc_corrects_bias(o);
}

struct qc_round_weights_options qc_round_weights_options_of(const struct qc_pipeline *p)
{
    const struct qc_options *o = p->options;
    return (struct qc_round_weights_options){.compensate = strcmp(o->weight_rounding, "compensated") == 0,
                                             .correct_bias = qc_corrects_bias(o),
                                             .add_ops = !o->require_integer,
                                             .accumulator_bits = p->how.accumulator.bits,
                                             .known = p->rounded_layers,
                                             .file = p->rounded_file,
                                             .run = qc_run_options_of(o, p->progress)};
}

const struct qc_second_moments *qc_moments_of(const struct qc_pipeline *p)
{
    return p->second_moments ? p->second_moments : p->seen ? p->seen->second_moments : NULL;
}
