// SPDX-License-Identifier: Apache-2.0
/* Centres inputs of products with floating-point levels (rewrite/passes/centre.h). The error of a level is in
   proportion to the value, so that of an output is in proportion to the sum of w^2 (x - c)^2. The means of the second
   moments give the c of least sum for each channel; an input is centred if the sum of all its products falls by
   LEAST_GAIN. */
#pragma once

#include "quantize/make/network.h"

struct qc_json;

struct qc_centred_input {
    const char *name; /* of the value */
    size_t channels, layers;
    double error; /* squared error of the outputs relative to that without */
};

struct qc_channel_centring {
    size_t count;
    struct qc_centred_input *of;
};

/* Makes the graph with centred inputs and simulates the network again, if there are any. Needs second moments; without
   them nothing is centred. If the target quantizes an Add that gives a MatMul its bias, the product in front of it has
   no statistics: such products are left as they are. Errors: those of the passes. */
bool qc_centre_channels(struct qc_network *net, struct qc_status *st);

/* Puts the centred inputs into the record of the job. */
void qc_record_centred(struct qc_json *record, const struct qc_network *net);
