// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: any bytes are listed as an HDF5 file, each data set is opened and its first and last rows are
   read, or there is a status. It is HDF5's crash in its own process that is looked for in ours: what comes back is
   believed by nobody. Replayed by ctest on tests/datasets/corpus_hdf5; to look for more: cmake with clang and
   -DQC_FUZZ=ON, then fuzz_hdf5 CORPUS. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "datasets/hdf5/data_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A status is there exactly when something failed, and it is one of bad input. */
static void check(bool ok, const struct qc_status *st)
{
    if (ok != (st->code == QC_OK)) abort();
    if (!ok && st->code != QC_BAD_INPUT && st->code != QC_UNSUPPORTED && st->code != QC_MACHINE) abort();
}

static void read_set(struct qc_reader *r, const char *name)
{
    enum { BYTES_MAX = 1 << 20 };
    struct qc_status st = QC_STATUS_INIT;
    struct qc_h5_set s;
    long double *values = NULL;
    size_t count;
    bool ok = qc_reader_set(&s, r, name, &st);
    check(ok, &st);
    if (!ok) return;
    check(qc_reader_numbers(&values, &count, r, &s, "mean", &st), &st);
    if (st.code == QC_OK && count) free(values);
    const int64_t rows[] = {0, s.dims[0] - 1};
    for (size_t i = 0; i < 2 && s.dims[0] > 0 && s.row_bytes <= BYTES_MAX; i++) {
        void *row = malloc(s.row_bytes + 1), *chunk = NULL;
        size_t capacity = 0;
        struct qc_h5_chunk where;
        if (!row) abort();
        st = QC_STATUS_INIT;
        check(qc_reader_rows(row, r, &s, rows[i], 1, &st), &st);
        st = QC_STATUS_INIT;
        if (s.raw) check(qc_reader_chunks(&chunk, &capacity, &where, r, &s, rows[i], 1, &st), &st);
        if (s.raw && st.code == QC_OK && where.at + where.size > capacity) abort();
        free(chunk);
        free(row);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct qc_status st = QC_STATUS_INIT;
    struct qc_reader *r = NULL;
    struct qc_data_list list = {.count = 0};
    struct qc_arena *a = qc_arena_new();
    const char *memory = "/dev/shm";
    snprintf(path, sizeof path, "%s/qcalib-fuzz-XXXXXX", access(memory, W_OK) == 0 ? memory : "/tmp");
    const int fd = mkstemp(path);
    if (!a || fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    close(fd);
    bool ok = qc_reader_open(&r, path, QC_FOLLOW_NOTHING, &st);
    check(ok, &st);
    if (ok) check(qc_reader_list(&list, r, a, &st), &st);
    for (size_t i = 0; i < list.count && i < 16; i++) read_set(r, list.entries[i].name);
    qc_reader_close(r);
    unlink(path);
    qc_arena_free(a);
    return 0;
}
