// SPDX-License-Identifier: Apache-2.0
/* --benchmark: chooses which operators run in integers and which in float, by the latency of the model file. The search
   starts from the fastest of the float model, the default and everything in integers. It measures the change of one
   group of operators (quantize/search/searches.h) to float or to integers, and then of all groups together
   whose change is faster. */
#include "quantize/search/searches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_map.h"
#include "base/scope.h"
#include "export/formats/exporter.h"

/* A placement as a file. */
struct placed {
    const bool *in_float; /* [ops]; NULL: the model file */
    const char *file;
    bool own;      /* a temporary file ... */
    size_t number; /* ... of this number */
    struct qc_milliseconds ms;
    double sqnr_db; /* of the outputs */
};

struct search {
    struct qc_candidate *c;
    struct qc_candidate *integers; /* with everything in integers; all others are derived from it */
    struct qc_latency latency;
    struct qc_placement_groups groups;
    const char *folder;
    size_t file_count, format;
    const char *phase;      /* tells the budget */
    double deadline;        /* in the seconds of base/clock.h: no more changes are made */
    uint64_t *keys;         /* keys of the samples that outputs are compared on */
    struct qc_json *record; /* "timing.benchmark" */
    struct qc_json **steps; /* [step_count]: its changes */
    size_t step_count;
};

/* ---- Files ---- */

/* Returns the file of the input model; NULL if the model is only in memory. */
static const char *model_file(const struct qc_setup *s)
{
    const struct qc_model_source *m = &s->in->model;
    return m->at_hand && !m->at_hand->file ? NULL : m->file;
}

/* Removes a model file and its file of large weights (onnx/write/emit.h). */
static void remove_file(const struct search *s, size_t number)
{
    char path[4096];
    for (int k = 0; k < 2; k++)
        if (snprintf(path, sizeof path, "%s/%zu.onnx%s", s->folder, number, k ? ".data" : "") < (int)sizeof path)
            unlink(path);
}

static void drop_file(const struct search *s, const struct placed *m)
{
    if (m->own) remove_file(s, m->number);
}

static void remove_folder(const struct search *s)
{
    for (size_t i = 0; i < s->file_count; i++) remove_file(s, i);
    rmdir(s->folder);
}

/* Measures the output error of a network on the samples of the report; NaN without samples. */
static bool measure_error(double *sqnr_db, struct search *s, const struct qc_network *net, struct qc_status *st)
{
    struct qc_dataset *data = net->setup->data;
    const size_t outputs = net->real->output_count;
    *sqnr_db = (double)NAN;
    if (!data) return true;
    const struct qc_selection some = qc_measured_samples(data);
    struct qc_error *sums = QC_NEW_ARRAY(s->c->arena, struct qc_error, outputs, st);
    if (!sums || !qc_measure_outputs(sums, &s->keys, net, data, &some, st)) return false;
    *sqnr_db = qc_outputs_sqnr_db(sums, outputs);
    return true;
}

/* Writes a network to a temporary file, and measures its error. */
static bool write_file(struct placed *m, struct search *s, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_export_source source = {.produced = qc_network_written(net), .expanded = net->expanded};
    m->own = true;
    m->number = s->file_count++;
    m->file = qc_arena_printf(s->c->arena, st, "%s/%zu.onnx", s->folder, m->number);
    return m->file &&
           qc_export_file(NULL, m->file, net->setup->exporters[s->format], &source, net->lowered[s->format], st) &&
           measure_error(&m->sqnr_db, s, net, st);
}

/* ---- Placements ---- */

/* Sets *out to the options that leave these operators in float, and everything else in integers. */
static bool change_placement(struct qc_change *out, const struct search *s, const bool *in_float, struct qc_status *st)
{
    const struct qc_placement_groups *g = &s->groups;
    *out = (struct qc_change){0};
    bool ok = qc_change_add(out, "prefer", "integers", s->c->arena, st);
    for (size_t i = 0; i < g->op_count; i++)
        for (size_t k = 0; ok && in_float[i] && k < g->ops[i].skip_count; k++)
            ok = qc_change_add(out, "skip", g->ops[i].skip[k], s->c->arena, st);
    return ok;
}

/* Makes a candidate with everything in integers, with cheap options for ranges and rounding: they hardly change the
   latency (equal ranges save a requantize). */
static bool derive_integers(struct search *s, struct qc_status *st)
{
    struct qc_status why = QC_STATUS_INIT;
    const struct qc_report_trial *chosen = qc_auto_method_chosen(s->c->network->auto_method);
    const char *method = chosen ? chosen->method : s->c->scheme.calibration.activation->of_network ? "mse" : NULL;
    const struct qc_option_text options[] = {{"prefer", "integers"},
                                             {"weight-rounding", "nearest"},
                                             {"scale-channels", "off"},
                                             {"advice", "off"},
                                             {"method", method}};
    const struct qc_change change = {.count = sizeof options / sizeof *options - (method ? 0 : 1),
                                     .options = options,
                                     .without = "checkpoint"};
    return qc_candidate_derive(&s->integers, s->c, &change, QC_SAME_FORM, &why) ||
           qc_fail(st, why.code, "--benchmark, everything in integers: %s", why.message);
}

/* Makes the file of a placement. Sets *reason if the placement is not possible. */
static bool make_placement(struct placed *m, const char **reason, struct search *s, const bool *in_float,
                           struct qc_status *st)
{
    struct qc_status why = QC_STATUS_INIT;
    struct qc_candidate *t = NULL;
    struct qc_change change;
    *m = (struct placed){.in_float = in_float};
    *reason = NULL;
    if (!change_placement(&change, s, in_float, st)) return false;
    const bool ok =
        qc_candidate_derive(&t, s->integers, &change, QC_SAME_FORM, &why) && write_file(m, s, t->network, &why);
    qc_candidate_free(t);
    return ok || qc_candidate_refused(reason, s->c, &why, st);
}

/* ---- The search ---- */

static bool *copy_of_placement(const struct search *s, const bool *in_float, struct qc_status *st)
{
    bool *to = QC_NEW_ARRAY(s->c->arena, bool, s->groups.op_count, st);
    for (size_t i = 0; to && i < s->groups.op_count; i++) to[i] = in_float[i];
    return to;
}

static bool are_equal_placements(const struct search *s, const bool *a, const bool *b)
{
    return memcmp(a, b, s->groups.op_count * sizeof *a) == 0;
}

/* A change of one group that was measured. */
struct tried {
    const struct qc_placement_group *group;
    bool to_float, faster;
    struct placed file;
    double ratio; /* latency with the change over that without */
    struct qc_json *step;
};

/* Makes the file of a change and appends a step to the record. *made is false if the change moves nothing or fails. */
static bool make_change(bool *made, struct tried *t, struct search *s, const bool *now, struct qc_status *st)
{
    bool *in_float = copy_of_placement(s, now, st);
    const double none = (double)NAN;
    const char *reason;
    size_t moved = 0;
    *made = false;
    if (!in_float) return false;
    for (size_t i = 0; i < s->groups.op_count; i++) {
        if (!t->group->has[i]) continue;
        moved += in_float[i] != t->to_float;
        in_float[i] = t->to_float;
    }
    if (!moved) return true;
    if (!make_placement(&t->file, &reason, s, in_float, st)) return false;
    *made = !reason;
    t->step =
        QC_JSON("group %s ops %zu to %s before_ms %g after_ms %g sqnr_db %g kept %hhd reason %s", t->group->what, moved,
                t->to_float ? "float" : "integers", none, none, reason ? none : t->file.sqnr_db, (bool)false, reason);
    s->steps[s->step_count++] = t->step;
    return true;
}

/* Measures changes beside the file without them. */
static bool measure_changes(struct tried *list, size_t count, struct search *s, const struct placed *now,
                            struct qc_status *st)
{
    const char *files[QC_PLACEMENT_BATCH + 1] = {now->file};
    struct qc_milliseconds ms[QC_PLACEMENT_BATCH + 1];
    if (!count) return true;
    for (size_t i = 0; i < count; i++) files[i + 1] = list[i].file.file;
    if (!qc_latency_measure(ms, &s->latency, files, count + 1, true, st)) return false;
    for (size_t i = 0; i < count; i++) {
        list[i].ratio = ms[i + 1].least / ms[0].least;
        list[i].faster = qc_latency_less(&ms[i + 1], &ms[0]);
        qc_json_put(list[i].step, "before_ms %g after_ms %g kept %hhd", ms[0].least, ms[i + 1].least, list[i].faster);
        drop_file(s, &list[i].file);
    }
    return true;
}

static int by_ratio(const void *a, const void *b)
{
    const struct tried *x = a, *y = b;
    return x->ratio < y->ratio ? -1 : x->ratio > y->ratio ? 1 : x->group < y->group ? -1 : x->group > y->group;
}

/* Applies all changes that were faster, the fastest first: an operator moves once. *now becomes the fastest of itself,
   the fastest single change, and their sum. */
static bool join_changes(struct placed *now, struct search *s, struct tried *list, size_t count, struct qc_status *st)
{
    enum { NOW, SINGLE, ALL, MOST };
    struct placed of[MOST] = {[NOW] = *now};
    struct qc_milliseconds ms[MOST];
    const char *files[MOST], *reason = NULL;
    bool *moved = QC_NEW_ARRAY(s->c->arena, bool, s->groups.op_count, st),
         *in_float = copy_of_placement(s, now->in_float, st);
    size_t made = 1, best = NOW;
    if (!moved || !in_float) return false;
    qsort(list, count, sizeof *list, by_ratio);
    for (size_t k = 0; k < count && list[k].faster; k++) {
        for (size_t i = 0; i < s->groups.op_count; i++) {
            if (!list[k].group->has[i] || moved[i]) continue;
            moved[i] = true;
            in_float[i] = list[k].to_float;
        }
        if (k && !(k + 1 == count || !list[k + 1].faster)) continue; /* after the first one, and after the last one */
        const bool *copy = copy_of_placement(s, in_float, st);
        if (!copy || !make_placement(&of[made], &reason, s, copy, st)) return false;
        made += !reason;
    }
    if (made == 1) return true;
    for (size_t i = 0; i < made; i++) files[i] = of[i].file;
    if (!qc_latency_measure(ms, &s->latency, files, made, false, st)) return false;
    for (size_t i = 1; i < made; i++)
        if (best ? ms[i].least < ms[best].least : qc_latency_less(&ms[i], &ms[NOW])) best = i;
    for (size_t i = 0; i < made; i++)
        if (i != best) drop_file(s, &of[i]);
    *now = of[best];
    return true;
}

/* Changes one group at a time, and then all groups together whose change is faster. */
static bool try_groups(struct placed *now, struct search *s, struct qc_status *st)
{
    const size_t all = s->groups.group_count, count = all < QC_PLACEMENT_GROUPS ? all : QC_PLACEMENT_GROUPS;
    struct tried *list = QC_NEW_ARRAY(s->c->arena, struct tried, 2 * count + 1, st);
    const size_t batch = s->latency.together ? QC_PLACEMENT_BATCH : QC_PLACEMENT_PROCESSES;
    size_t made = 0, measured = 0, next = 0;
    s->steps = QC_NEW_ARRAY(s->c->arena, struct qc_json *, 2 * count + 1, st);
    if (!list || !s->steps) return false;
    bool ok = true;
    qc_progress_phase(s->c->setup->progress, "%s", s->phase);
    for (; ok && next < 2 * count && qc_seconds() < s->deadline; next++) {
        bool done;
        struct tried *t = &list[made];
        *t = (struct tried){.group = &s->groups.groups[next / 2], .to_float = next % 2 == 0, .ratio = (double)INFINITY};
        ok = qc_progress_step(s->c->setup->progress, next / 2, count) || qc_progress_check(s->c->setup->progress, st);
        ok = ok && make_change(&done, t, s, now->in_float, st);
        if (ok && done) made++;
        if (!ok || made - measured < batch) continue;
        ok = measure_changes(list + measured, made - measured, s, now, st);
        measured = made;
    }
    ok = ok && measure_changes(list + measured, made - measured, s, now, st);
    qc_progress_end(s->c->setup->progress);
    struct qc_json *changes = qc_json_array();
    for (size_t i = 0; i < s->step_count; i++) qc_json_add(changes, s->steps[i]);
    qc_json_set(s->record, "changes", changes);
    qc_json_put(s->record, "groups_left %zu", all - (next + 1) / 2);
    return ok && join_changes(now, s, list, made, st);
}

/* Compares the default, the float model and everything in integers. *now is the fastest, or the default if none is
   clearly faster. */
static bool compare_whole(struct placed *now, struct search *s, const bool *by_default, struct qc_status *st)
{
    enum { DEFAULT, FLOAT, INTEGERS, MOST };
    bool *all = QC_NEW_ARRAY(s->c->arena, bool, s->groups.op_count, st),
         *none = QC_NEW_ARRAY(s->c->arena, bool, s->groups.op_count, st);
    struct placed of[MOST] = {[FLOAT] = {.file = model_file(s->c->setup)}};
    struct qc_milliseconds ms[MOST];
    const char *files[MOST], *reason = NULL;
    if (!all || !none) return false;
    for (size_t i = 0; i < s->groups.op_count; i++) all[i] = true;
    if (!make_placement(&of[DEFAULT], &reason, s, by_default, st)) return false;
    if (!of[FLOAT].file && !reason && !make_placement(&of[FLOAT], &reason, s, all, st)) return false;
    if (reason) return qc_fail(st, QC_UNSUPPORTED, "--benchmark: %s", reason);
    of[FLOAT].in_float = all;
    const bool apart = !are_equal_placements(s, by_default, none);
    if (apart && (!write_file(&of[INTEGERS], s, s->integers->network, st))) return false;
    of[INTEGERS].in_float = none;
    const size_t count = apart ? MOST : INTEGERS;
    for (size_t i = 0; i < count; i++) files[i] = of[i].file;
    if (!qc_latency_measure(ms, &s->latency, files, count, false, st)) return false;
    if (apart) qc_json_put(s->record, "integers_ms %g integers_sqnr_db %g", ms[INTEGERS].least, of[INTEGERS].sqnr_db);
    size_t best = DEFAULT;
    for (size_t i = 1; i < count; i++)
        if (qc_latency_less(&ms[i], &ms[best])) best = i;
    for (size_t i = 0; i < count; i++)
        if (i != best) drop_file(s, &of[i]);
    *now = of[best];
    return true;
}

/* ---- The result ---- */

/* Makes the file as it will be written, and compares it with the default, which stays unless the new one is faster. */
static bool settle_placement(struct search *s, const bool *by_default, const struct placed *now, struct qc_status *st)
{
    struct qc_candidate *c = s->c;
    const struct qc_scheme first = c->scheme;
    struct placed was = {.in_float = by_default}, is = {.in_float = now->in_float};
    struct qc_milliseconds ms[3];
    struct qc_change change;
    const char *given = model_file(c->setup);
    const bool changed = !are_equal_placements(s, by_default, now->in_float);
    if (!write_file(&was, s, c->network, st)) return false;
    if (changed && (!change_placement(&change, s, now->in_float, st) || !qc_candidate_change(c, &first, &change, st) ||
                    !write_file(&is, s, c->network, st)))
        return false;
    const char *const files[] = {was.file, changed ? is.file : given, given};
    const size_t count = 1 + (size_t)changed + (given != NULL);
    bool ok = qc_latency_measure(ms, &s->latency, files, count, false, st);
    const bool better = ok && changed && qc_latency_less(&ms[1], &ms[0]), reverted = ok && changed && !better;
    if (ok && isnan(qc_json_find_number(s->record, "integers_ms"))) /* both are the same placement */
        qc_json_put(s->record, "integers_ms %g integers_sqnr_db %g", ms[0].least, was.sqnr_db);
    if (ok)
        qc_json_put(s->record, "float_ms %g default_ms %g best_ms %g default_sqnr_db %g best_sqnr_db %g reverted %hhd",
                    given ? ms[count - 1].least : (double)NAN, ms[0].least, ms[better].least, was.sqnr_db,
                    better ? is.sqnr_db : was.sqnr_db, reverted);
    if (reverted) ok = qc_candidate_make(c, &first, NULL, st);
    drop_file(s, &was);
    drop_file(s, &is);
    return ok;
}

static bool search_placement(struct search *s, struct qc_status *st)
{
    struct placed now = {.file = NULL};
    bool *by_default;
    if (!derive_integers(s, st) || !qc_placement_groups_find(&s->groups, s->integers->network, s->c->arena, st) ||
        !qc_placement_of(&by_default, &s->groups, s->c->network, s->c->arena, st))
        return false;
    const bool ok = compare_whole(&now, s, by_default, st) && try_groups(&now, s, st);
    drop_file(s, &now);
    qc_candidate_free(s->integers);
    s->integers = NULL;
    return ok && settle_placement(s, by_default, &now, st);
}

bool qc_placement_check(const struct qc_setup *s, struct qc_arena *a, struct qc_status *st)
{
    struct qc_latency l;
    const char *const file = model_file(s);
    return !s->options->demand.benchmark || (qc_latency_begin(&l, s, a, st) && (!file || qc_latency_try(&l, file, st)));
}

static bool begin_search(struct search *s, struct qc_status *st)
{
    const struct qc_setup *setup = s->c->setup;
    while (!setup->exporters[s->format]->lower) s->format++; /* such a format exists: options/changes.h */
    return qc_latency_begin(&s->latency, setup, s->c->arena, st) &&
           qc_temporary_subfolder(&s->folder, setup->in->scratch, s->c->arena, st);
}

bool qc_placement_measure_again(struct qc_json *to, struct qc_candidate *c, struct qc_status *st)
{
    struct search s = {.c = c};
    struct placed m = {.file = NULL};
    struct qc_milliseconds ms;
    bool ok = begin_search(&s, st) && write_file(&m, &s, c->network, st);
    const char *const files[] = {m.file};
    ok = ok && qc_latency_measure(&ms, &s.latency, files, 1, false, st);
    if (s.folder) remove_folder(&s);
    if (ok) qc_json_put(to, "best_ms %g best_sqnr_db %g", ms.least, m.sqnr_db);
    return ok;
}

bool qc_place_by_latency(struct qc_json **out, struct qc_candidate *c, double job_seconds, struct qc_status *st)
{
    const double t0 = qc_seconds(), none = (double)NAN;
    struct search s = {.c = c};
    s.deadline = t0 + fmax(QC_PLACEMENT_SECONDS, QC_PLACEMENT_BUDGET * job_seconds);
    s.phase = qc_arena_printf(c->arena, st, "latency, at most %.0f s", s.deadline - t0);
    if (!s.phase) return false;
    s.record = QC_JSON("command %s float_ms %g default_ms %g integers_ms %g best_ms %g default_sqnr_db %g "
                       "integers_sqnr_db %g best_sqnr_db %g reverted %hhd all_float %hhd",
                       c->setup->options->demand.benchmark, none, none, none, none, none, none, none, (bool)false,
                       (bool)false);
    c->scheme.may_be_float = true;
    const bool ok = begin_search(&s, st) && search_placement(&s, st);
    qc_candidate_free(s.integers);
    if (s.folder) remove_folder(&s);
    if (ok) { /* else there may be no network */
        const struct qc_partition *p = c->network->partition;
        const struct qc_options *o = c->scheme.options;
        const bool all_float = c->scheme.may_be_float = !p->matches.count && !p->weight_only_count;
        struct qc_json *placement =
            all_float ? qc_json_null() : QC_JSON("prefer %s", qc_options_text(o, QC_OPTION_PREFER));
        if (!all_float) qc_json_set(placement, "skip", qc_json_strings(o->graph.skip.items, o->graph.skip.count));
        qc_json_put(s.record, "all_float %hhd", all_float);
        qc_json_set(s.record, "placement", placement);
        qc_json_put(s.record, "seconds %g", qc_seconds() - t0);
    }
    return QC_HAND_OVER(ok, out, s.record, qc_json_free);
}
