// SPDX-License-Identifier: Apache-2.0
/* An idea for free changes (quantize/search/free_ideas.h): operators that stay in float at no loss of latency.

   Their bits differ between processors. If the outputs have QC_FREE_OPERATORS_BELOW_DB, or if the network takes less
   than QC_FREE_LEAST_TIME, operators stay in float only if that lowers the latency and the file is no larger. */
#pragma once

#include "quantize/search/candidate.h"

enum { QC_FLOAT_OPERATORS = 8 };

struct qc_float_operators {
    size_t count;
    bool must_save;                        /* latency, and no bytes more */
    const char *globs[QC_FLOAT_OPERATORS]; /* for --skip; in the arena of the candidate; most noise per latency first */
};

/* Finds operators of the candidate's network that add noise to the outputs, and whose estimated latency in float is at
   most QC_FREE_LATENCY above that in integers, or lower if it must save. None if integers are demanded, if the estimate
   is not for the target, or if the outputs could gain less than twice QC_FREE_GAIN_DB. Selects the samples of --data
   that the options ask for. Errors: those of runs. */
bool qc_find_float_operators(struct qc_float_operators *out, const struct qc_candidate *c, struct qc_status *st);

/* Returns true if a network costs neither latency nor bytes beyond QC_FREE_LATENCY and QC_FREE_BYTES of another one.
   must_save: if it takes less by QC_FREE_LATENCY, and no more bytes. */
bool qc_costs_nothing(bool *out, const struct qc_network *is, const struct qc_network *was, bool must_save,
                      struct qc_status *st);
