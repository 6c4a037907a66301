// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/searches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/command.h"
#include "base/file.h"
#include "base/sha256.h"
#include "quantize/benchmark_script.h"
#include "quantize/options/changes.h"

#define BESIDE "%s.benchmark"
static const char HEADING[] = "qcalib latencies 1\n", END[] = " end\n";

bool qc_latency_begin(struct qc_latency *l, const struct qc_setup *s, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_options *o = s->options;
    size_t size;
    void *data;
    *l = (struct qc_latency){.setup = s};
    /* The command that measures in ONNX Runtime for Python. */
    const char *const words[] = {"python3", "-c", qc_benchmark_script[0].text, "--seconds", "0.06", NULL};
    l->together = strcmp(o->demand.benchmark, QC_BENCHMARK_OWN) == 0;
    if (l->together) l->word_count = sizeof words / sizeof *words - 1;
    if (l->together ? !(l->words = qc_arena_dup(a, words, l->word_count + 1, sizeof *words, st))
                    : !qc_command_split(&l->words, &l->word_count, o->demand.benchmark, a, st))
        return qc_where(st, "--benchmark");
    if (!o->run.checkpoint) return true;
    if (!(l->file = qc_arena_printf(a, st, BESIDE, o->run.checkpoint))) return false;
    l->so_far = "";
    if (access(l->file, F_OK) != 0) return true;
    if (!qc_file_read(&data, &size, l->file, a, st)) return qc_where(st, "--checkpoint");
    const size_t heading = strlen(HEADING);
    if (strncmp(data, HEADING, size < heading ? size : heading) != 0)
        return qc_fail(st, QC_BAD_INPUT, "--checkpoint: %s is not a file of latencies; remove it", l->file);
    if (size >= heading)
        l->so_far = data;
    else if (unlink(l->file) != 0) /* its first write was interrupted */
        return qc_fail(st, QC_MACHINE, "--checkpoint: cannot remove %s", l->file);
    return true;
}

void qc_latency_forget(const struct qc_options *o)
{
    char path[4096];
    if (o->run.checkpoint && snprintf(path, sizeof path, BESIDE, o->run.checkpoint) < (int)sizeof path) unlink(path);
}

bool qc_latency_less(const struct qc_milliseconds *a, const struct qc_milliseconds *b)
{
    const double noise = fmax(a->second / a->least, b->second / b->least) - 1;
    return a->least < b->least * (1 - fmax(QC_LATENCY_GAIN, noise));
}

/* ---- The checkpoint: a line for each measurement ---- */

/* ---- Measuring ---- */

static bool may_go_on(void *user, struct qc_status *st)
{
    return qc_progress_check(user, st);
}

static bool run_command(double *ms, const struct qc_latency *l, const char *file, struct qc_arena *a,
                        struct qc_status *st)
{
    const char *said;
    if (!qc_command_run(&said, l->words, file, may_go_on, l->setup->progress, a, st))
        return st->code == QC_INTERRUPTED ? false : qc_where(st, "--benchmark");
    *ms = qc_last_number(said);
    return *ms > 0 ||
           qc_fail(st, QC_MACHINE, "--benchmark: the last number that the command prints must be milliseconds, %s",
                   isnan(*ms) ? "but it printed none" : "but it is 0");
}

static bool run_rounds(struct qc_milliseconds *out, const struct qc_latency *l, const char *const *files, size_t count,
                       bool race, struct qc_arena *a, struct qc_status *st)
{
    for (size_t i = 0; i < count; i++) out[i] = (struct qc_milliseconds){(double)INFINITY, (double)INFINITY};
    for (int round = 0; round < QC_LATENCY_ROUNDS; round++) {
        for (size_t i = 0; i < count; i++) {
            double ms;
            if (race && round && out[i].least > out[0].least * QC_LATENCY_MUCH_SLOWER) continue;
            if (!run_command(&ms, l, files[i], a, st)) return false;
            out[i].second = fmin(out[i].second, fmax(ms, out[i].least));
            out[i].least = fmin(out[i].least, ms);
        }
    }
    for (size_t i = 0; i < count; i++)
        if (isinf(out[i].second)) out[i].second = out[i].least;
    return true;
}

/* Measures all files in one process, which interleaves them. */
static bool run_together(struct qc_milliseconds *out, const struct qc_latency *l, const char *const *files,
                         size_t count, struct qc_arena *a, struct qc_status *st)
{
    const char *said, **words = QC_NEW_ARRAY(a, const char *, l->word_count + count + 2, st);
    if (!words) return false;
    memcpy(words, l->words, l->word_count * sizeof *words);
    memcpy(words + l->word_count, files, count * sizeof *words);
    if (count == 1) words[l->word_count + 1] = files[0]; /* of one file it prints one number */
    /* the program has "{}" in its text, which stays */
    if (!qc_command_run(&said, words, QC_COMMAND_FILE, may_go_on, l->setup->progress, a, st))
        return st->code == QC_INTERRUPTED ? false : qc_where(st, "--benchmark");
    for (size_t i = 0; i < count; i++) {
        char *end;
        out[i].least = strtod(said, &end);
        out[i].second = strtod(end, &end);
        if (!(out[i].least > 0) || end == said) return qc_fail(st, QC_MACHINE, "--benchmark: it printed '%.80s'", said);
        said = end;
    }
    return true;
}

bool qc_latency_try(const struct qc_latency *l, const char *file, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_milliseconds both;
    double ms;
    if (!a) return qc_fail_memory(st, 1);
    return l->together ? run_together(&both, l, &file, 1, a, st) : run_command(&ms, l, file, a, st);
}

bool qc_latency_measure(struct qc_milliseconds *out, struct qc_latency *l, const char *const *files, size_t count,
                        bool race, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    char key[65];
    if (!a) return qc_fail_memory(st, 1);
    /* The key is the SHA-256 of the command and of the files' hashes. */
    const char *all = l->file ? qc_arena_strdup(a, l->setup->options->demand.benchmark, st) : NULL;
    for (size_t i = 0; all && i < count; i++) {
        char hex[65];
        if (!qc_sha256_file(hex, files[i], st)) return false;
        all = qc_arena_printf(a, st, "%s\n%s", all, hex);
    }
    if (l->file && !all) return false;
    if (all) qc_sha256(key, all, strlen(all));
    const char *line = all ? strstr(l->so_far, key) : NULL;
    if (line) line += strlen(key);
    for (size_t i = 0; line && i < count; i++) {
        char *end;
        out[i].least = strtod(line, &end);
        out[i].second = strtod(end, &end);
        line = end;
    }
    if (line && strncmp(line, END, strlen(END)) == 0) return true; /* else the line is incomplete */
    if (!(l->together ? run_together(out, l, files, count, a, st) : run_rounds(out, l, files, count, race, a, st)))
        return false;
    if (!l->file) return true;
    FILE *f = fopen(l->file, "a");
    if (!f) return qc_fail(st, QC_MACHINE, "--checkpoint: cannot write %s", l->file);
    if (ftell(f) == 0) fputs(HEADING, f);
    fputs(key, f);
    for (size_t i = 0; i < count; i++) fprintf(f, " %.17g %.17g", out[i].least, out[i].second);
    fputs(END, f);
    const bool failed = ferror(f);
    return (fclose(f) == 0 && !failed) || qc_fail(st, QC_MACHINE, "--checkpoint: cannot write %s", l->file);
}
