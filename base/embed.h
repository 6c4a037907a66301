// SPDX-License-Identifier: Apache-2.0
/* Text files that are part of the program (CMake: qc_embed). */
#pragma once

#include <stddef.h>

struct qc_embedded {
    const char *name; /* file name without folder */
    size_t size;      /* bytes of text, without the 0 behind it */
    const char *text;
};
