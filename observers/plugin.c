// SPDX-License-Identifier: Apache-2.0
#include "observers/plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/user_code.h"

struct plugin {
    void *library;
    struct qc_observer observer;
    struct qc_observer_option options[QC_OBSERVER_OPTIONS];
};

struct qc_plugins {
    size_t count;
    struct plugin **items; /* addresses stay valid when more are loaded */
};

bool qc_plugins_new(struct qc_plugins **out, struct qc_status *st)
{
    struct qc_plugins *p = calloc(1, sizeof *p);
    if (!p) return qc_fail_memory(st, sizeof *p);
    *out = p;
    return true;
}

static void free_one(struct plugin *p)
{
    if (!p) return;
    qc_shared_object_close(p->library);
    free(p);
}

void qc_plugins_free(struct qc_plugins *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->count; i++) free_one(p->items[i]);
    free(p->items);
    free(p);
}

size_t qc_plugins_count(const struct qc_plugins *p)
{
    return p ? p->count : 0;
}

const struct qc_observer *qc_plugins_at(const struct qc_plugins *p, size_t i)
{
    return &p->items[i]->observer;
}

static bool is_name(const char *s)
{
    enum { LONGEST = 63 };
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return s && *s && strlen(s) <= LONGEST && s[strspn(s, allowed)] == '\0';
}

static bool is_line(const char *s)
{
    return s && *s && !strchr(s, '\n');
}

/* Returns what is wrong with an option, or NULL. */
static const char *option_fault(const struct qcalib_observer_option *o)
{
    if (!is_name(o->name)) return "has no valid name";
    if (!is_line(o->help)) return "has no line of help";
    if (!isfinite(o->preset) || !isfinite(o->min) || !isfinite(o->max)) return "has limits that are not finite";
    if (!(o->min <= o->preset && o->preset <= o->max)) return "has a default outside its limits";
    return NULL;
}

static bool check_plugin(const struct qc_plugins *all, const char *file, const struct qcalib_observer *e,
                         struct qc_status *st)
{
    if (e->abi != QCALIB_OBSERVER_ABI)
        return qc_fail(st, QC_BAD_INPUT,
                       "plugin %s: made for version %u of the interface, this program has version %u; build it with "
                       "this program's qcalib_observer.h",
                       file, (unsigned)e->abi, (unsigned)QCALIB_OBSERVER_ABI);
    if (!is_name(e->name))
        return qc_fail(st, QC_BAD_INPUT, "plugin %s: its name must be 1 to 63 letters, digits, '-' and '_'", file);
    if (!is_line(e->summary))
        return qc_fail(st, QC_BAD_INPUT, "plugin %s: observer '%s' has no summary of one line", file, e->name);
    const char *missing = !e->begin    ? "begin"
                          : !e->scan   ? "scan"
                          : !e->merge  ? "merge"
                          : !e->finish ? "finish"
                          : !e->end    ? "end"
                                       : NULL;
    if (missing)
        return qc_fail(st, QC_BAD_INPUT, "plugin %s: observer '%s' has no function '%s'", file, e->name, missing);
    if (e->option_count > QC_OBSERVER_OPTIONS || (e->option_count && !e->options))
        return qc_fail(st, QC_BAD_INPUT,
                       "plugin %s: observer '%s' has %u options; it may have 0 to %d, and a table of them", file,
                       e->name, (unsigned)e->option_count, (int)QC_OBSERVER_OPTIONS);
    for (size_t i = 0; i < e->option_count; i++) {
        const char *fault = option_fault(&e->options[i]);
        if (fault)
            return qc_fail(st, QC_BAD_INPUT, "plugin %s: option %zu of observer '%s' %s", file, i + 1, e->name, fault);
    }
    bool taken = qc_observer_find(e->name) != NULL;
    for (size_t i = 0; i < all->count; i++) taken = taken || strcmp(all->items[i]->observer.name, e->name) == 0;
    if (taken)
        return qc_fail(st, QC_BAD_INPUT, "plugin %s: there is an observer '%s' already; give yours another name", file,
                       e->name);
    return true;
}

static void enter(const struct qc_observer *o, const char *function)
{
    qc_user_code_enter("plugin", o->name, function);
}

static bool fail_in(const struct qc_observer *o, const char *function, int code, struct qc_status *st)
{
    return qc_fail(st, QC_BAD_INPUT, "plugin '%s': %s failed with code %d", o->name, function, code);
}

static bool solve_plugin(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                         struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    const struct qc_observer *o = s->state->observer;
    struct qcalib_observer_request r = {.min = s->min < 0 ? s->min : 0,
                                        .max = s->max > 0 ? s->max : 0,
                                        .known_lo = request->known_lo,
                                        .known_hi = request->known_hi,
                                        .count = s->count,
                                        .zeros = s->zeros,
                                        .level_lo = request->levels.lo,
                                        .level_hi = request->levels.hi,
                                        .symmetric = request->symmetry == QC_SYMMETRIC};
    double range[2] = {(double)NAN, (double)NAN};
    (void)values; /* begin received them */
    enter(o, "finish");
    const int code = o->plugin->finish(s->state->state, &r, range);
    qc_user_code_leave();
    if (code) return fail_in(o, "finish", code, st);
    if (!isfinite(range[0]) || !isfinite(range[1]) || range[0] > range[1])
        return qc_fail(st, QC_BAD_INPUT,
                       "plugin '%s': finish gave the range [%g, %g]; it must be finite, the lower end first", o->name,
                       range[0], range[1]);
    *out = limits;
    qc_range_cut(out, range[0], range[1]);
    return true;
}

static bool open_file(struct plugin *p, const struct qc_plugins *all, const char *file, struct qc_status *st)
{
    const void *entry;
    if (!qc_shared_object_open(&p->library, &entry, "plugin", file, "qcalib_observer_entry", "qcalib_observer.h", st))
        return false;
    const struct qcalib_observer *e = entry;
    if (!check_plugin(all, file, e, st)) return false;
    for (size_t i = 0; i < e->option_count; i++) {
        const struct qcalib_observer_option *o = &e->options[i];
        p->options[i] = (struct qc_observer_option){
            .name = o->name, .help = o->help, .preset = o->preset, .min = o->min, .max = o->max};
    }
    p->observer = (struct qc_observer){.name = e->name,
                                       .summary = e->summary,
                                       .need = QC_NEED_VALUES,
                                       .options = p->options,
                                       .option_count = e->option_count,
                                       .plugin = e,
                                       .solve = solve_plugin};
    return true;
}

bool qc_plugins_load(struct qc_plugins *all, const char *file, struct qc_status *st)
{
    struct plugin *p = calloc(1, sizeof *p);
    struct plugin **more = realloc(all->items, (all->count + 1) * sizeof(struct plugin *));
    if (more) all->items = more;
    bool ok = p && more ? open_file(p, all, file, st) : qc_fail_memory(st, sizeof *p);
    if (ok)
        all->items[all->count++] = p;
    else
        free_one(p);
    return ok;
}

bool qc_plugin_scan(struct qc_plugin_state *out, const struct qc_observer *observer,
                    const struct qc_observer_values *values, const float *x, size_t n, struct qc_status *st)
{
    enter(observer, "begin");
    struct qc_plugin_state s = {.observer = observer, .state = observer->plugin->begin(values->v)};
    qc_user_code_leave();
    if (!s.state) return qc_fail(st, QC_MACHINE, "plugin '%s': begin gave no state; is memory out?", observer->name);
    /* Only finite values are given, copied only if there are others. */
    float *copy = NULL;
    size_t all_finite = 0, kept = 0;
    while (all_finite < n && isfinite(x[all_finite])) all_finite++;
    const bool copied = all_finite < n;
    bool ok = !copied || (copy = malloc(n * sizeof *copy)) || qc_fail_memory(st, n * sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (isfinite(x[i])) copy[kept++] = x[i];
    enter(observer, "scan");
    const int code = ok ? observer->plugin->scan(s.state, copied ? copy : x, copied ? kept : n) : 0;
    qc_user_code_leave();
    free(copy);
    if (code) ok = fail_in(observer, "scan", code, st);
    return QC_HAND_OVER_VALUE(ok, out, s, qc_plugin_end);
}

bool qc_plugin_merge(struct qc_plugin_state *into, struct qc_plugin_state *later, struct qc_status *st)
{
    if (!into->state) {
        *into = *later;
        later->state = NULL;
        return true;
    }
    enter(into->observer, "merge");
    const int code = later->state ? into->observer->plugin->merge(into->state, later->state) : 0;
    qc_user_code_leave();
    qc_plugin_end(later);
    return code ? fail_in(into->observer, "merge", code, st) : true;
}

void qc_plugin_end(struct qc_plugin_state *s)
{
    if (!s || !s->state) return;
    enter(s->observer, "end");
    s->observer->plugin->end(s->state);
    qc_user_code_leave();
    s->state = NULL;
}
