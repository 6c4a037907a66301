// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "datasets/arrays/data_readers.h"
#include "datasets/samples/folder_list.h"

static bool is_image(const unsigned char *head, size_t size)
{
    return (size >= 3 && memcmp(head, "\xff\xd8\xff", 3) == 0) ||
           (size >= 8 && memcmp(head, "\x89PNG\r\n\x1a\n", 8) == 0) ||
           (size >= 12 && memcmp(head, "RIFF", 4) == 0 && memcmp(head + 8, "WEBP", 4) == 0);
}

bool qc_is_images(const struct qc_data_look *look)
{
    return look->is_folder ? qc_folder_has(look->path, QC_FILE_IMAGE, look->follow) : is_image(look->head, look->size);
}
