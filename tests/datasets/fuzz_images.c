// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: any bytes are decoded as an image of at most 4 MiB, turned, made grey and resized, or there is a
   status. Replayed by ctest on tests/datasets/corpus_images; to look for more: cmake with clang and -DQC_FUZZ=ON, then
   fuzz_images CORPUS.
 */
#include <stdint.h>
#include <stdlib.h>

#include "datasets/images/pixels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct qc_budget budget = {.memory_limit = (size_t)4 << 20};
    struct qc_status st = QC_STATUS_INIT;
    struct qc_pixels p = {.data = NULL};
    const bool ok = qc_decode_image(&p, data, size, &budget, &st);
    if (ok != (st.code == QC_OK)) abort();
    if (!ok && (p.data || (st.code != QC_BAD_INPUT && st.code != QC_UNSUPPORTED && st.code != QC_MACHINE))) abort();
    if (ok && (p.channels == 1 || p.channels == 3) && p.width && p.height && qc_pixels_turn(&p, &budget, &st) &&
        qc_pixels_channels(&p, 1, &budget, &st) && qc_pixels_resize(&p, 7, 3, &budget, &st) &&
        (p.width != 7 || p.height != 3 || p.channels != 1))
        abort();
    qc_pixels_free(&p);
    return 0;
}
