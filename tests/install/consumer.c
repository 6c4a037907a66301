// SPDX-License-Identifier: Apache-2.0
#include <base/file.h>
#include <graph/graph.h>
#include <string.h>

int main(void)
{
    struct qc_status st = QC_STATUS_INIT;
    char hex[65];
    return qc_sha256(hex, "abc", 3, &st) && strncmp(hex, "ba7816bf", 8) == 0 ? 0 : 1;
}
