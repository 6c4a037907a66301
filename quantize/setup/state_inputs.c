// SPDX-License-Identifier: Apache-2.0
#include "quantize/setup/model.h"

#include <string.h>

#include "base/words.h"

/* Returns the shape of an output: as inferred, else as declared in the file; rank -1: neither is known. */
static const struct qc_shape *output_shape(const struct qc_graph *g, const struct qc_port *output)
{
    const struct qc_shape *inferred = &g->values[output->value].type.shape;
    return inferred->rank < 0 && output->declared ? output->declared : inferred;
}

/* Finds the output that each input of g may read from the step before. Of the pairs of one type and shape those of the
   most similar names come first, then the first ones. looks_like: [input_count] index + 1; 0: none. */
static bool likely_outputs(size_t *looks_like, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    bool *taken = QC_NEW_ARRAY(a, bool, g->output_count + 1, st);
    for (bool found = taken != NULL; found;) {
        size_t input = 0, output = 0, most = 0;
        found = false;
        for (size_t k = 0; k < g->input_count; k++)
            for (size_t o = 0; !looks_like[k] && o < g->output_count; o++) {
                /* Names of free dimensions do not count: exporters make one for each output. */
                const qc_id in = g->inputs[k].value, out = g->outputs[o].value;
                const struct qc_shape *from = &g->values[in].type.shape, *to = output_shape(g, &g->outputs[o]);
                bool same = !taken[o] && in != out && g->values[in].type.dtype == g->values[out].type.dtype &&
                            from->rank >= 1 && from->rank == to->rank;
                for (int d = 0; same && d < from->rank; d++)
                    same = from->dim[d] == to->dim[d] || from->dim[d] < 0 || to->dim[d] < 0;
                if (!same) continue;
                /* The characters that two names share at both ends. */
                const char *x = g->inputs[k].name;
                const char *y = g->outputs[o].name;
                const size_t n = strlen(x), m = strlen(y), least = n < m ? n : m;
                size_t front = 0, back = 0;
                while (front < least && x[front] == y[front]) front++;
                while (front + back < least && x[n - 1 - back] == y[m - 1 - back]) back++;
                const size_t shared = front + back;
                if (found && shared <= most) continue;
                found = true;
                most = shared;
                input = k;
                output = o;
            }
        if (!found) break;
        looks_like[input] = output + 1;
        taken[output] = true;
    }
    return taken != NULL;
}

/* Returns the index of the port of this name; fails with the names that there are. */
static bool find_port(size_t *out, const struct qc_port *ports, size_t count, const char *name, const char *what,
                      struct qc_arena *a, struct qc_status *st)
{
    const char **names = QC_NEW_ARRAY(a, const char *, count + 1, st);
    if (!names) return false;
    for (size_t i = 0; i < count; i++) {
        names[i] = ports[i].name;
        *out = i;
        if (strcmp(names[i], name) == 0) return true;
    }
    const char *close = qc_closest(name, names, count);
    return qc_fail(st, QC_USAGE, "--state: the model has no %s '%s'%s", what, name,
                   close ? QC_MEANT("", close) : " ('qcalib inspect' shows them)");
}

static bool mark_state(struct qc_input_spec *specs, const struct qc_graph *g, const char *text, struct qc_arena *a,
                       struct qc_status *st)
{
    const char *equals = strchr(text, '=');
    const char *input = qc_arena_strndup(a, text, (size_t)(equals - text), st);
    size_t i = 0, o = 0;
    if (!input || !find_port(&i, g->inputs, g->input_count, input, "input", a, st) ||
        !find_port(&o, g->outputs, g->output_count, equals + 1, "output", a, st))
        return false;
    struct qc_input_spec *s = &specs[i];
    const struct qc_type *from = &g->values[g->outputs[o].value].type;
    if (s->made == QC_MADE_STATE) return qc_fail(st, QC_USAGE, "--state: input '%s' is given twice", input);
    const struct qc_shape *shape = output_shape(g, &g->outputs[o]);
    if (from->dtype != s->dtype || (shape->rank >= 0 && shape->rank != (int)s->rank))
        return qc_fail(st, QC_USAGE, "--state %s: the output and the input differ in type or number of axes", text);
    /* True if a QuantizeLinear with the scale and zero point of the input makes the output. */
    const struct qc_node *n = qc_node_of(g, g->outputs[o].value);
    const struct qc_tensor *scale = n && n->op == QC_OP_QuantizeLinear ? qc_constant_of(g, n->inputs[1]) : NULL,
                           *zero = scale && n->input_count > 2 && n->inputs[2] ? qc_constant_of(g, n->inputs[2]) : NULL;
    const bool same = scale && scale->count == 1 && (float)qc_tensor_float(scale, 0) == s->scale &&
                      (zero ? qc_tensor_int(zero, 0) : 0) == s->zero_point;
    if (s->scale > 0 && !same)
        return qc_fail(st, QC_UNSUPPORTED,
                       "--state %s: the integers of the output and of the input have other scales; states between runs "
                       "must be real numbers, or have the same parameters",
                       text);
    int64_t *dims = QC_NEW_ARRAY(a, int64_t, s->rank + 1, st);
    for (unsigned d = 0; dims && d < s->rank; d++) {
        dims[d] = s->dims[d] < 0 && shape->rank >= 0 ? shape->dim[d] : s->dims[d];
        if (dims[d] < 0 && d && s->made == QC_MADE_EMPTY) dims[d] = 0; /* a cache begins without entries */
    }
    s->first = dims;
    s->made = QC_MADE_STATE;
    s->output = o;
    return dims != NULL;
}

bool qc_state_inputs(struct qc_input_spec *specs, const struct qc_graph *g, const struct qc_options *o,
                     struct qc_arena *a, struct qc_status *st)
{
    size_t *looks_like = QC_NEW_ARRAY(a, size_t, g->input_count + 1, st);
    bool grows = false;
    if (o->data.states.count && o->given[QC_OPTION_SEED])
        return qc_fail(st, QC_USAGE, "--state runs samples in order, and --seed draws them; leave out one");
    for (size_t k = 0; k < g->input_count; k++)
        grows = grows || (o->data.states.count && specs[k].made == QC_MADE_EMPTY);
    for (size_t i = 0; i < o->data.states.count; i++)
        if (!mark_state(specs, g, o->data.states.items[i], a, st)) return false;
    /* Mask and positions of a step count the steps before it. */
    for (size_t k = 0; k < g->input_count; k++)
        if (grows && specs[k].rank && (specs[k].made == QC_MADE_ONES || specs[k].made == QC_MADE_POSITIONS))
            specs[k].made = QC_MADE_NOT;
    if (!looks_like || !likely_outputs(looks_like, g, a, st)) return false;
    for (size_t k = 0; k < g->input_count; k++)
        if (looks_like[k] && specs[k].made != QC_MADE_STATE) specs[k].looks_like = g->outputs[looks_like[k] - 1].name;
    return true;
}

void qc_warn_states(struct qc_warnings *w, const struct qc_graph *g, const struct qc_dataset *data)
{
    struct qc_status st = QC_STATUS_INIT;
    QC_ARENA_SCOPE *a = qc_arena_new();
    size_t *looks_like = a ? QC_NEW_ARRAY(a, size_t, g->input_count + 1, &st) : NULL;
    if (!looks_like || !likely_outputs(looks_like, g, a, &st)) return;
    for (size_t k = 0; k < g->input_count; k++) {
        const struct qc_type *type = &g->values[g->inputs[k].value].type;
        if (!looks_like[k] || qc_dataset_state(data, k) || !qc_dtype_info(type->dtype)->is_float) continue;
        /* same: the float input has the same elements in every unit, of which there are several; zero: they are 0. */
        const size_t bytes = qc_dataset_elements(data, k) * qc_dtype_size(type->dtype), units = qc_dataset_units(data);
        struct qc_tensor first = {.dtype = type->dtype, .data = QC_NEW_ARRAY(a, char, bytes, &st)},
                         other = {.dtype = type->dtype, .data = QC_NEW_ARRAY(a, char, bytes, &st)};
        struct qc_dataset_scratch *scratch = NULL;
        bool ok = first.data && other.data && qc_dataset_scratch_new(&scratch, &st);
        const size_t count = ok ? qc_dataset_unit_elements(data, k, 0) : 0;
        bool same = count && units > 1, zero = same;
        for (size_t u = 0; ok && same && u < units; u++) {
            ok = qc_dataset_read(u ? other.data : first.data, data, k, u, scratch, &st);
            same = ok && qc_dataset_unit_elements(data, k, u) == count;
            for (size_t i = 0; same && i < count; i++) {
                const double x = qc_tensor_float(&first, i);
                same = !u || qc_tensor_float(&other, i) == x;
                zero = zero && x == 0;
            }
        }
        qc_dataset_scratch_free(scratch);
        if (!ok) return;
        if (!same) continue;
        const char *name = g->inputs[k].name, *output = g->outputs[looks_like[k] - 1].name;
        qc_warn(w,
                "%s: input '%s' is %s in every sample, and output '%s' has its shape; if it is a state, give --state "
                "%s=%s, which runs the samples in order",
                qc_dataset_file(data), name, zero ? "zero" : "the same", output, name, output);
    }
}
