// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <string.h>

#include "datasets/images/pixels.h"

#ifdef QC_HAVE_JPEG
#define JPEG qc_decode_jpeg
#else
#define JPEG NULL
#endif
#ifdef QC_HAVE_PNG
#define PNG qc_decode_png
#else
#define PNG NULL
#endif
#ifdef QC_HAVE_WEBP
#define WEBP qc_decode_webp
#else
#define WEBP NULL
#endif

/* Formats by their first bytes. read: qcalib reads them; then decode is NULL only if the library was missing at build
   time. */
static const struct format {
    const char *name;
    size_t at, size;
    const char *magic;
    qc_decode_fn *decode;
    bool read;
} formats[] = {
    {"JPEG", 0, 3, "\xff\xd8\xff", JPEG, true},
    {"PNG", 0, 8, "\x89PNG\r\n\x1a\n", PNG, true},
    {"WebP", 8, 4, "WEBP", WEBP, true},
    {"GIF", 0, 4, "GIF8", NULL, false},
    {"BMP", 0, 2, "BM", NULL, false},
    {"TIFF", 0, 4, "II*\0", NULL, false},
    {"TIFF", 0, 4, "MM\0*", NULL, false},
    {"HEIF or AVIF", 4, 4, "ftyp", NULL, false},
    {"JPEG 2000", 4, 8, "jP  \r\n\x87\n", NULL, false},
};

bool qc_decode_image(struct qc_pixels *out, const unsigned char *bytes, size_t size, const struct qc_budget *budget,
                     struct qc_status *st)
{
    if (size == 0) return qc_fail(st, QC_BAD_INPUT, "it is empty");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const struct format *f = &formats[i];
        if (size < f->at + f->size || memcmp(bytes + f->at, f->magic, f->size) != 0) continue;
        if (f->decode) return f->decode(out, bytes, size, budget, st);
        return f->read ? qc_fail(st, QC_UNSUPPORTED, "it is a %s image, which this qcalib was built without", f->name)
                       : qc_fail(st, QC_UNSUPPORTED, "it is a %s image; JPEG, PNG and WebP are read", f->name);
    }
    return qc_fail(st, QC_BAD_INPUT, "it is not an image: JPEG, PNG and WebP are read");
}

enum { ORIENTATION = 0x0112, SHORT = 3, ENTRY = 12 };

static uint32_t exif_number(const unsigned char *p, unsigned bytes, bool big)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < bytes; i++) v = v << 8 | p[big ? i : bytes - 1 - i];
    return v;
}

unsigned qc_exif_orientation(const unsigned char *bytes, size_t size)
{
    if (size >= 6 && memcmp(bytes, "Exif\0", 6) == 0) { /* JPEG puts it in front */
        bytes += 6;
        size -= 6;
    }
    if (size < 8 || (memcmp(bytes, "II", 2) != 0 && memcmp(bytes, "MM", 2) != 0)) return 1;
    const bool big = *bytes == 'M';
    const size_t at = exif_number(bytes + 4, 4, big);
    if (exif_number(bytes + 2, 2, big) != 42 || at > size - 2) return 1;
    const size_t count = exif_number(bytes + at, 2, big);
    for (size_t i = 0; i < count && (size - at - 2) / ENTRY > i; i++) {
        const unsigned char *e = bytes + at + 2 + i * ENTRY;
        if (exif_number(e, 2, big) != ORIENTATION || exif_number(e + 2, 2, big) != SHORT) continue;
        const unsigned v = exif_number(e + 8, 2, big);
        return v >= 1 && v <= 8 ? v : 1;
    }
    return 1;
}
