// SPDX-License-Identifier: Apache-2.0
/* The network of options, as a job makes it first, without measurement and report. */
#pragma once

#include "quantize/search/candidate.h"

struct made_network {
    struct qc_setup *setup;
    struct qc_candidate *c;
};

static inline bool make_network(struct made_network *m, const struct qc_options *o, const struct qc_job_inputs *in,
                                struct qc_progress *progress, struct qc_status *st)
{
    struct qc_warnings *warnings;
    struct qc_scheme scheme;
    *m = (struct made_network){NULL, NULL};
    return qc_setup_begin(&m->setup, o, in, progress, false, st) && qc_warnings_new(&warnings, st) &&
           qc_candidate_new(&m->c, m->setup, warnings, st) && qc_setup_open(m->setup, &m->c->quiet, st) &&
           qc_evidence_new(&m->c->evidence, m->setup, st) &&
           qc_scheme_of(&scheme, m->setup, o, warnings, m->c->arena, st) && qc_candidate_make(m->c, &scheme, NULL, st);
}

static inline void free_network(struct made_network *m)
{
    qc_candidate_free(m->c);
    qc_setup_free(m->setup);
}
#define MADE_NETWORK __attribute__((cleanup(free_network), unused)) struct made_network
