// SPDX-License-Identifier: Apache-2.0
/* Scans of progressive JPEG images, which cost time and not bytes. */
#include <stdio.h>

/* this needs stdio.h before it */
#include <jpeglib.h>

#include "datasets/images/pixels.h"
#include "tests/check.h"

enum { SIDE = 16, LAST = 63 };

/* Writes a grey image: a scan for each coefficient, repeated with one more bit up to `bits` times. Returns the number
   of scans. */
static int write_image(unsigned char **out, unsigned long *size, int bits)
{
    jpeg_scan_info scans[(LAST + 1) * 8];
    struct jpeg_compress_struct j;
    struct jpeg_error_mgr errors;
    unsigned char pixels[SIDE];
    JSAMPROW row = pixels;
    int count = 0;
    for (int bit = bits - 1; bit >= 0; bit--)
        for (int k = 0; k <= LAST; k++)
            scans[count++] =
                (jpeg_scan_info){.comps_in_scan = 1, .Ss = k, .Se = k, .Ah = bit == bits - 1 ? 0 : bit + 1, .Al = bit};
    j.err = jpeg_std_error(&errors);
    jpeg_create_compress(&j);
    *out = NULL;
    *size = 0;
    jpeg_mem_dest(&j, out, size);
    j.image_width = j.image_height = SIDE;
    j.input_components = 1;
    j.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&j);
    j.scan_info = scans;
    j.num_scans = count;
    jpeg_start_compress(&j, TRUE);
    for (unsigned y = 0; y < SIDE; y++) {
        for (unsigned x = 0; x < SIDE; x++) pixels[x] = (unsigned char)(37 * x * y);
        jpeg_write_scanlines(&j, &row, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    return count;
}

Test(image_scans, more_than_the_limit_are_refused)
{
    const struct qc_budget budget = {.memory_limit = 0};
    for (int bits = 3; bits <= 4; bits++) {
        struct qc_pixels p = {.data = NULL};
        QC_FREED unsigned char *bytes = NULL;
        unsigned long size;
        const bool few = write_image(&bytes, &size, bits) <= 200;
        cr_expect_eq(few, bits == 3);
        cr_expect_eq(qc_decode_image(&p, bytes, size, &budget, ST), few, "%s", failure.message);
        if (!few)
            cr_expect(failure.code == QC_BAD_INPUT && strstr(failure.message, "200 scans"), "%s", failure.message);
        qc_pixels_free(&p);
    }
}
