// SPDX-License-Identifier: Apache-2.0
/* The encodings of a quantized float model: the tree that `--format encodings` prints. Other forms are made from it. */
#pragma once

#include "export/formats/exporter.h"

struct qc_json;

/* *out is owned (qc_json_free), also after a failure. Fails if the source is no float model. */
bool qc_encodings_of(struct qc_json **out, const struct qc_export_source *source, struct qc_status *st);
