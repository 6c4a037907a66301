// SPDX-License-Identifier: Apache-2.0
#include "quantize/interface/inputs.h"

#include "base/file.h"

bool qc_model_sha256(char hex[65], const struct qc_model_source *m, struct qc_status *st)
{
    if (!m->at_hand) return qc_sha256_file(hex, m->file, st);
    qc_text(hex, 65, "%s", m->at_hand->sha256);
    return true;
}

bool qc_data_sha256(char hex[65], const struct qc_data_source *s, const struct qc_dataset *ds, struct qc_status *st)
{
    return s->sha256 ? s->sha256(hex, s->user, st) : qc_data_file_sha256(hex, qc_dataset_file(ds), st);
}
