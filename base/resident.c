// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE /* madvise */
#include "base/resident.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <unistd.h>

/* At most this much of file pages counts: the code, but not mapped weights. */
enum { CODE_MOST = 32 << 20 };

void qc_resident_give_back(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

size_t qc_resident_bytes(void)
{
    qc_resident_give_back();
    return qc_resident_bytes_as_is();
}

size_t qc_resident_bytes_as_is(void)
{
    unsigned long pages = 0, files = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    long page = sysconf(_SC_PAGESIZE);
    if (!f) return 0;
    if (fscanf(f, "%*u %lu %lu", &pages, &files) != 2) pages = files = 0;
    fclose(f);
    if (page <= 0) return 0;
    const unsigned long code = CODE_MOST / (unsigned long)page;
    if (files > code) pages -= files - code;
    return (size_t)pages * (size_t)page;
}

/* Returns the number in a file, or SIZE_MAX if there is none ("max"). */
static size_t number_in(const char *path)
{
    unsigned long long n;
    FILE *f = fopen(path, "r");
    if (!f) return SIZE_MAX;
    if (fscanf(f, "%llu", &n) != 1 || n > SIZE_MAX) n = SIZE_MAX;
    fclose(f);
    return (size_t)n;
}

/* Returns the number after a word at the beginning of a line, or `otherwise` if the file or line is missing. */
static size_t number_behind(const char *path, const char *word, size_t otherwise)
{
    char line[256];
    size_t out = otherwise;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long n;
        if (strncmp(line, word, strlen(word)) == 0 && sscanf(line + strlen(word), "%llu", &n) == 1) out = (size_t)n;
    }
    if (f) fclose(f);
    return out;
}

/* Returns the bytes left in one control group; file pages do not count, since they can be dropped. */
static size_t group_left(const char *folder, const char *limit, const char *usage)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, limit);
    const size_t most = number_in(path);
    if (most == SIZE_MAX) return SIZE_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, usage);
    size_t used = number_in(path);
    if (used == SIZE_MAX) return SIZE_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    const size_t files = number_behind(path, "inactive_file ", 0) + number_behind(path, "active_file ", 0);
    used = used > files ? used - files : 0;
    return most > used ? most - used : 0;
}

size_t qc_machine_left(void)
{
    static const char root[] = "/sys/fs/cgroup";
    char line[4096], folder[4160] = "";
    const size_t kib = number_behind("/proc/meminfo", "MemAvailable:", SIZE_MAX);
    size_t left = kib < SIZE_MAX / 1024 ? kib * 1024 : SIZE_MAX;
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0) snprintf(folder, sizeof folder, "%s%s", root, line + 3);
    }
    if (f) fclose(f);
    while (strlen(folder) >= sizeof root - 1) { /* parent groups have limits too */
        const size_t one = group_left(folder, "memory.max", "memory.current");
        left = one < left ? one : left;
        *strrchr(folder, '/') = '\0';
    }
    const size_t old = group_left("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes");
    return old < left ? old : left;
}

static const size_t LARGE = (size_t)2 << 20, LINE = 64;

static size_t unit_of_pages(size_t bytes)
{
    return bytes < LARGE ? LINE : LARGE;
}

size_t qc_pages_bytes(size_t bytes)
{
    const size_t unit = unit_of_pages(bytes);
    return bytes ? (bytes + unit - 1) / unit * unit : unit;
}

void *qc_pages_new(size_t bytes)
{
    const size_t size = qc_pages_bytes(bytes);
    void *p = size < bytes ? NULL : aligned_alloc(unit_of_pages(bytes), size);
#ifdef MADV_HUGEPAGE
    if (p && bytes >= LARGE) (void)madvise(p, size, MADV_HUGEPAGE); /* only advice: if it fails, the pages are small */
#endif
    return p;
}
