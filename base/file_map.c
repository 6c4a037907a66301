// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE /* madvise, MAP_ANONYMOUS */
#include "base/file_map.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"

struct qc_file_map {
    void *data;
    size_t bytes; /* of the mapping: whole pages, and one more */
    atomic_uint references;
};

static size_t page_bytes(void)
{
    const long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (size_t)page : 4096;
}

bool qc_file_map_new(struct qc_file_map **out, int fd, size_t size, struct qc_status *st)
{
    const size_t page = page_bytes();
    size_t whole;
    *out = NULL;
    if (size == 0 || !qc_add_size(&whole, size, 2 * page)) return true;
    whole = whole / page * page;
    struct qc_file_map *m = malloc(sizeof *m);
    if (!m) return qc_fail_memory(st, sizeof *m);
    /* The file lies over zeros, so that what is behind its last page can be read. */
    void *data = mmap(NULL, whole, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED || mmap(data, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        if (data != MAP_FAILED) munmap(data, whole);
        free(m);
        return true;
    }
    m->data = data;
    m->bytes = whole;
    atomic_init(&m->references, 1);
    *out = m;
    return true;
}

const void *qc_file_map_data(const struct qc_file_map *m)
{
    return m->data;
}

struct qc_file_map *qc_file_map_ref(struct qc_file_map *m)
{
    atomic_fetch_add(&m->references, 1);
    return m;
}

void qc_file_map_unref(struct qc_file_map *m)
{
    if (!m || atomic_fetch_sub(&m->references, 1) > 1) return;
    munmap(m->data, m->bytes);
    free(m);
}

void qc_file_map_forget(const void *data, size_t bytes)
{
    const uintptr_t page = page_bytes(), begin = ((uintptr_t)data + page - 1) / page * page,
                    end = ((uintptr_t)data + bytes) / page * page;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* advice */
}
