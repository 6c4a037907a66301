// SPDX-License-Identifier: Apache-2.0
/* Takes the place of the sub-room in a build without it (-DQCALIB_IMAGES=OFF). */
#include "datasets/arrays/data_readers.h"

bool qc_read_images(struct qc_memory_data *m, const struct qc_data_call *call, struct qc_status *st)
{
    (void)m, (void)call;
    return qc_fail(st, QC_UNSUPPORTED, "this qcalib was built without images: build it with -DQCALIB_IMAGES=ON");
}
