// SPDX-License-Identifier: Apache-2.0
#include "datasets/images/pixels.h"

#include <stdint.h>
#include <string.h>

enum { ORIENTATION = 0x0112, SHORT = 3, ENTRY = 12 };

static uint32_t number(const unsigned char *p, unsigned bytes, bool big)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < bytes; i++) v = v << 8 | p[big ? i : bytes - 1 - i];
    return v;
}

unsigned qc_exif_orientation(const unsigned char *bytes, size_t size)
{
    if (size >= 6 && memcmp(bytes, "Exif\0", 6) == 0) { /* as JPEG has it in front */
        bytes += 6;
        size -= 6;
    }
    if (size < 8 || (memcmp(bytes, "II", 2) != 0 && memcmp(bytes, "MM", 2) != 0)) return 1;
    const bool big = *bytes == 'M';
    const size_t at = number(bytes + 4, 4, big);
    if (number(bytes + 2, 2, big) != 42 || at > size - 2) return 1;
    const size_t count = number(bytes + at, 2, big);
    for (size_t i = 0; i < count && (size - at - 2) / ENTRY > i; i++) {
        const unsigned char *e = bytes + at + 2 + i * ENTRY;
        if (number(e, 2, big) != ORIENTATION || number(e + 2, 2, big) != SHORT) continue;
        const unsigned v = number(e + 8, 2, big);
        return v >= 1 && v <= 8 ? v : 1;
    }
    return 1;
}
