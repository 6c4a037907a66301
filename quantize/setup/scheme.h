// SPDX-License-Identifier: Apache-2.0
/* What a network is asked to be: options, and what follows from them. A scheme is a small value. Searches change its
   options by struct qc_change; the command of an advice has the given options with that change. */
#pragma once

#include "calib/ranges/calibrate.h"
#include "quantize/options/changes.h"
#include "quantize/setup/setup.h"

struct qc_float_form;

struct qc_scheme {
    const struct qc_options *options; /* those of the user, with changes */
    struct qc_partition_options partition;
    struct qc_calibration_options calibration;
    const struct qc_settings *settings;
    struct qc_float_form *form; /* the float network to quantize (quantize/make/network.h); NULL: made from options */
    bool sized;                 /* --size: the bits are chosen, and weights may be refined */
    bool may_be_float;          /* --benchmark and mending: the network may have no quantized operator */
    bool bare;                  /* for a comparison: no details for the report are kept */
    const char *sketch; /* for a comparison: --method auto takes this observer, and weights are rounded once; NULL: all
                           is decided by measurement */
};

/* Sets *out from options. Arrays are from the arena, which must outlive *out, as must o and the setup. w: warnings, or
   NULL. Fails with QC_USAGE for methods and types that do not exist. */
bool qc_scheme_of(struct qc_scheme *out, const struct qc_setup *s, const struct qc_options *o, struct qc_warnings *w,
                  struct qc_arena *a, struct qc_status *st);

/* Sets *out to the scheme with changed options; `form` and the flags of *from stay. change: arrays are borrowed. */
bool qc_scheme_change(struct qc_scheme *out, const struct qc_scheme *from, const struct qc_setup *s,
                      const struct qc_change *change, struct qc_arena *a, struct qc_status *st);
