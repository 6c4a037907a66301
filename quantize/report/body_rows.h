// SPDX-License-Identifier: Apache-2.0
/* The rows of quantized bodies in the report. Their names are such as "loop/body/conv". */
#pragma once

#include "export/report/report.h"
#include "quantize/make/network.h"

/* Append the layers, and the operators in float, of all bodies to those of the model. */
bool qc_body_layers(struct qc_report *r, const struct qc_network *n, struct qc_status *st);
bool qc_body_float_ops(struct qc_report *r, const struct qc_network *n, struct qc_status *st);
