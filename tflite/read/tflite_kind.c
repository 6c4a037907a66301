// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tflite/read/tflite_import.h"
#include "tflite/schema/tflite_schema.h"

bool qc_is_tflite(const void *bytes, size_t size)
{
    return size >= 8 && memcmp((const char *)bytes + 4, QC_TFL_KIND, 4) == 0;
}

bool qc_is_tflite_file(const char *path)
{
    char head[8];
    struct stat s;
    FILE *f = stat(path, &s) == 0 && S_ISREG(s.st_mode) ? fopen(path, "rb") : NULL;
    const size_t got = f ? fread(head, 1, sizeof head, f) : 0;
    if (f) fclose(f);
    return qc_is_tflite(head, got);
}
