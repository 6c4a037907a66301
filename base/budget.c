// SPDX-License-Identifier: Apache-2.0
#include "base/budget.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/resident.h"

static const double mib = 1024.0 * 1024.0;

/* a + b*c, saturated to SIZE_MAX. */
static size_t share(size_t a, size_t b, size_t c)
{
    size_t all;
    return __builtin_mul_overflow(b, c, &all) || __builtin_add_overflow(all, a, &all) ? SIZE_MAX : all;
}

/* An amount as text, so that a few kilobytes are not 0.0 MiB. */
struct amount {
    char text[32];
};

static struct amount amount_of(size_t bytes)
{
    struct amount a;
    if ((double)bytes < mib)
        snprintf(a.text, sizeof a.text, "%.1f KiB", (double)bytes / 1024);
    else
        snprintf(a.text, sizeof a.text, "%.1f MiB", (double)bytes / mib);
    return a;
}

bool qc_budget_hold(const struct qc_budget *b, size_t bytes, struct qc_status *st)
{
    if (bytes < QC_BUDGET_GRAIN) return true;
    if (!b->memory_limit) {
        const size_t left = qc_machine_left();
        return bytes <= left ||
               qc_fail(st, QC_MACHINE,
                       "%.1f MiB are needed, and this machine has %.1f MiB left; use one with more memory",
                       (double)bytes / mib, (double)left / mib);
    }
    const size_t held = qc_resident_bytes();
    if (held <= b->memory_limit && bytes <= b->memory_limit - held) return true;
    return qc_fail(st, QC_MACHINE,
                   "--memory-limit %.1f MiB is too low: %.1f MiB are needed in addition to the %.1f MiB in use",
                   (double)b->memory_limit / mib, (double)bytes / mib, (double)held / mib);
}

bool qc_budget_file(const struct qc_budget *b, const char *path, size_t times, struct qc_status *st)
{
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode)) return true;
    return qc_budget_hold(b, share(0, times, (size_t)info.st_size), st);
}

bool qc_budget_run(const struct qc_budget *b, size_t bytes, size_t input_bytes, struct qc_status *st)
{
    const size_t most = share(share((size_t)512 << 20, 64, b->model_bytes), 256, input_bytes);
    if (bytes <= (b->memory_limit ? b->memory_limit : most)) return true;
    if (b->memory_limit)
        return qc_fail(st, QC_MACHINE, "--memory-limit %s is too low: at least %s are needed for one run",
                       amount_of(b->memory_limit).text, amount_of(bytes).text);
    return qc_fail(st, QC_MACHINE,
                   "one run needs %.1f MiB; the default limit for a model of %zu bytes with inputs of %zu bytes is "
                   "%.1f MiB; raise it with --memory-limit",
                   (double)bytes / mib, b->model_bytes, input_bytes, (double)most / mib);
}

struct qc_folding qc_folding_begin(const struct qc_budget *b)
{
    return (struct qc_folding){.budget = b,
                               .bytes = share((size_t)256 << 20, 16, b->model_bytes),
                               .largest = share((size_t)128 << 20, 8, b->model_bytes),
                               .work = share((size_t)1 << 30, 64, b->model_bytes)};
}

bool qc_folding_take(struct qc_folding *f, size_t bytes, uint64_t work)
{
    if (bytes > f->largest || bytes > f->bytes || work > f->work) return false;
    f->bytes -= bytes;
    f->work -= work;
    return true;
}
