// SPDX-License-Identifier: Apache-2.0
#include "quantize/opening/sample_warnings.h"

#include <string.h>
#include <sys/stat.h>

#include "datasets/samples/dataset.h"

/* *same: both name the same data set of the same file. Files are compared by inode, since they may have several names.
 */
static bool same_data(bool *same, const char *data, const char *eval, struct qc_arena *a, struct qc_status *st)
{
    const char *files[2], *sets[2];
    struct stat s[2];
    if (!qc_dataset_split(&files[0], &sets[0], data, a, st) || !qc_dataset_split(&files[1], &sets[1], eval, a, st))
        return false;
    *same = stat(files[0], &s[0]) == 0 && stat(files[1], &s[1]) == 0 && s[0].st_dev == s[1].st_dev &&
            s[0].st_ino == s[1].st_ino && (!sets[0] || !sets[1] || strcmp(sets[0], sets[1]) == 0);
    return true;
}

bool qc_warn_samples(struct qc_warnings *w, size_t samples, const struct qc_job_inputs *in, struct qc_arena *a,
                     struct qc_status *st)
{
    bool same = false;
    if (samples == 1 && !in->team)
        qc_warn(w,
                "too few samples: ranges are chosen from 1 sample, and the next one may exceed them; give some dozens");
    if (in->data.file && in->eval.file && !same_data(&same, in->data.file, in->eval.file, a, st)) return false;
    if (same)
        qc_warn(w,
                "--eval reads the samples of --data (%s): accuracy on calibration samples is too optimistic; give "
                "held-out samples to --eval",
                in->eval.file);
    return true;
}
