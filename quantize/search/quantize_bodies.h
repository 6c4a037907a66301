// SPDX-License-Identifier: Apache-2.0
/* Quantizes the bodies of If, Loop and Scan, each as a model of its own (quantize/make/bodies.h). */
#pragma once

#include "quantize/make/bodies.h"
#include "quantize/make/make.h"

/* Runs the samples of a network, keeps the inputs of its bodies, and quantizes each body with `maker`, as a job does. A
   body that cannot be quantized stays in float, with a reason. Fails if memory is out, the samples cannot run, or the
   job is interrupted. */
bool qc_quantize_bodies(struct qc_body_set **out, const struct qc_network *net, qc_network_maker *maker,
                        struct qc_status *st);
