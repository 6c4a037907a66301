// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "datasets/arrays/data_readers.h"
#include "datasets/samples/folder_list.h"

bool qc_is_images(const struct qc_data_look *look)
{
    const unsigned char *head = look->head;
    const size_t size = look->size;
    if (look->is_folder) return qc_folder_has(look->path, QC_FILE_IMAGE, look->follow);
    return (size >= 3 && memcmp(head, "\xff\xd8\xff", 3) == 0) ||
           (size >= 8 && memcmp(head, "\x89PNG\r\n\x1a\n", 8) == 0) ||
           (size >= 12 && memcmp(head, "RIFF", 4) == 0 && memcmp(head + 8, "WEBP", 4) == 0);
}
