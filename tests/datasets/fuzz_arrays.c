// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: any bytes are an .npy array or a ZIP archive of them; headers are read, members unpacked and rows
   read, or there is a status. Replayed by ctest on tests/datasets/corpus_arrays; to look for more: cmake with clang and
   -DQC_FUZZ=ON, then fuzz_arrays CORPUS. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/arrays/byte_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES_MAX = 1 << 20 };

static void check(bool ok, const struct qc_status *st)
{
    if (ok != (st->code == QC_OK)) abort();
    if (!ok && st->code != QC_BAD_INPUT && st->code != QC_UNSUPPORTED && st->code != QC_MACHINE) abort();
}

static void read_array(const struct qc_bytes *b)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_bytes turned = {.fd = -1};
    struct qc_npy n;
    bool ok = qc_npy_open(&n, b, b->size, &st);
    check(ok, &st);
    if (!ok || n.dtype == QC_NONE || n.rank == 0 || n.dims[0] == 0 || n.row_bytes == 0 || n.row_bytes > BYTES_MAX)
        return;
    if (n.fortran) {
        if ((size_t)n.dims[0] * n.row_bytes > BYTES_MAX) return;
        ok = qc_npy_turn(&turned, &n, b, &st);
        check(ok, &st);
        if (!ok) return;
        b = &turned;
    }
    void *row = malloc(n.row_bytes);
    if (!row) abort();
    const size_t rows[] = {0, (size_t)n.dims[0] - 1};
    for (size_t i = 0; i < 2; i++) {
        st = QC_STATUS_INIT;
        check(qc_npy_rows(row, &n, b, rows[i], 1, &st), &st);
    }
    free(row);
    qc_bytes_close(&turned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qc_bytes b = {.fd = -1, .memory = malloc(size ? size : 1), .size = size};
    struct qc_arena *a = qc_arena_new();
    struct qc_status st = QC_STATUS_INIT;
    struct qc_zip_member *members;
    size_t count;
    if (!b.memory || !a) abort();
    if (size) memcpy(b.memory, data, size);
    read_array(&b);
    const bool ok = qc_zip_list(&members, &count, &b, a, &st);
    check(ok, &st);
    for (size_t i = 0; ok && i < count; i++) {
        struct qc_bytes member;
        st = QC_STATUS_INIT;
        if (members[i].size > BYTES_MAX) continue;
        const bool there = qc_zip_unpack(&member, &b, &members[i], members[i].size, &st);
        check(there, &st);
        if (!there) continue;
        read_array(&member);
        qc_bytes_close(&member);
    }
    qc_arena_free(a);
    free(b.memory);
    return 0;
}
