// SPDX-License-Identifier: Apache-2.0
/* Text files embedded in the program (CMake: qc_embed). */
#pragma once

#include <stddef.h>

struct qc_embedded {
    const char *name; /* file name without folder */
    size_t size;      /* bytes of text, without the terminating 0 */
    const char *text;
};
