// SPDX-License-Identifier: Apache-2.0
/* Operators with a state, variables and recurrent ones, and operators with graphs of their own. */
#include <string.h>

#include "tflite/read/tflite_reading.h"

/* --- Variables: each is an input of the graph, and an output with the value after the run --- */

static struct qc_tfl_variable *variable_of(struct qc_tfl_node *n, struct qc_status *st)
{
    const struct qc_tfl_value *handle = qc_tfl_input(n, 0, st);
    if (handle && !handle->variable)
        qc_fail(st, QC_BAD_INPUT, "'%.200s' is not the handle of a variable", handle->name);
    return handle ? handle->variable : NULL;
}

static bool handle(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_reader *r = n->r;
    if (r->depth) return qc_fail(st, QC_UNSUPPORTED, "variables inside of IF are not handled");
    const char *name = n->options.at ? qc_fb_string(&n->options, QC_TFL_VarHandleOptions_shared_name) : "";
    struct qc_tfl_import *all = r->all;
    size_t known = qc_texts_find(&all->variable_names, name);
    if (!known) {
        struct qc_tfl_variable **more = qc_arena_grown(r->arena, all->variables, all->variable_count,
                                                       &all->variable_capacity, sizeof *more, st),
                               *new = more ? QC_NEW(r->arena, struct qc_tfl_variable, st) : NULL;
        if (!new || !qc_tfl_refer(r, strlen(name), 1, st)) return false;
        new->name = name;
        all->variables = more;
        all->variables[all->variable_count] = new;
        known = ++all->variable_count;
        if (!qc_texts_set(&all->variable_names, name, known, r->arena, st)) return false;
    }
    n->outputs[0]->variable = all->variables[known - 1];
    return true;
}

/* Fails if a tensor differs in type, shape or qparams from the variable's first one. */
static bool same_type(struct qc_tfl_variable *v, const struct qc_tfl_value *as, struct qc_status *st)
{
    if (!v->as) v->as = as;
    if (as->dtype != QC_NONE && as->dtype == v->as->dtype && qc_shape_equal(&as->shape, &v->as->shape) &&
        qc_tfl_alike(as, v->as))
        return true;
    return qc_fail(st, QC_UNSUPPORTED, "variable '%.200s' has several types, or a type that is not handled", v->name);
}

static bool read_variable(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_variable *v = variable_of(n, st);
    const struct qc_tfl_value *y = n->outputs[0];
    if (!v || !same_type(v, y, st)) return false;
    if (!v->now) v->now = qc_graph_add_input(n->r->g, *v->name ? v->name : y->name, y->dtype, &y->shape, st);
    return qc_tfl_define_stored(n, 0, v->now, QC_TFL_IN_FILE, st);
}

bool qc_tfl_assign_variable(struct qc_tfl_node *n, struct qc_status *st)
{
    if (n->r->depth) return qc_fail(st, QC_UNSUPPORTED, "a variable is assigned inside of IF");
    struct qc_tfl_variable *v = variable_of(n, st);
    struct qc_tfl_value *x = v ? qc_tfl_input(n, 1, st) : NULL;
    if (!x || !same_type(v, x, st)) return false;
    v->assigned = true;
    return (v->now = qc_tfl_stored(n, x, QC_TFL_IN_FILE, st)) != 0;
}

/* Gives variables their first values, which are inputs here. */
bool qc_tfl_call_once(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_reader *r = n->r;
    return qc_lines_add(&r->all->notes, r->g->arena, st,
                        "has variables: each is an input, and an output with the suffix _next. The first values that a "
                        "subgraph sets are not read");
}

bool qc_tfl_add_variables(struct qc_tfl_reader *r, struct qc_status *st)
{
    for (size_t i = 0; i < r->all->variable_count; i++) {
        const struct qc_tfl_variable *v = r->all->variables[i];
        const char *name = v->assigned ? qc_arena_printf(r->arena, st, "%s_next", v->name) : NULL;
        if (name) qc_graph_add_output(r->g, name, v->now, st);
    }
    return st->code == QC_OK;
}

/* --- UNIDIRECTIONAL_SEQUENCE_LSTM --- */

enum {
    X,
    INPUT_WEIGHTS,
    RECURRENT_WEIGHTS = 5,
    PEEPHOLES = 9,
    BIASES = 12,
    PROJECTION = 16,
    NORMS = 20,
    NORMS_END = 24
};

/* Joins inputs of the gates in ONNX's order (input, output, forget, cell) along axis 0, then `more`, if it is not 0, as
   the given shape. first: input of the input gate; the file's order is input, forget, cell, output. */
static qc_id gates(struct qc_tfl_node *n, size_t first, const size_t *order, size_t count, qc_id more, size_t rank,
                   const int64_t *shape, struct qc_status *st)
{
    qc_id in[5];
    for (size_t i = 0; i < count; i++)
        in[i] = qc_tfl_real(n, qc_tfl_input(n, first + order[i], st), QC_TFL_IN_FILE, st);
    in[count] = more;
    qc_tfl_attr(n, QC_INT("axis", 0));
    return qc_tfl_reshape(n, qc_tfl_add(n, QC_OP_Concat, (unsigned)(count + (more != 0)), in, NULL, st), rank, shape,
                          st);
}

static qc_id zeros(struct qc_tfl_node *n, int64_t count, struct qc_status *st)
{
    const struct qc_shape shape = QC_SHAPE(count);
    if (!qc_budget_hold(&n->r->g->budget, (size_t)count * sizeof(float), st)) return 0;
    return qc_graph_add_made_constant(n->r->g, NULL, qc_tensor_new(QC_F32, &shape, st), st);
}

/* Each run begins with a state of zeros, as in TensorFlow Lite after its variables are reset. */
static bool sequence_lstm(struct qc_tfl_node *n, struct qc_status *st)
{
    static const int64_t turned[] = {1, 0, 2};
    static const size_t all[] = {0, 3, 1, 2}, holes[] = {0, 2, 1};
    enum { TANH = 4 };
    struct qc_tfl_value *x = qc_tfl_input(n, X, st), *w = x ? qc_tfl_input(n, INPUT_WEIGHTS + 1, st) : NULL;
    const bool by_time = qc_tfl_option(n, "time_major") != 0, peepholes = qc_tfl_has_input(n, PEEPHOLES + 1);
    const float clip = qc_tfl_option_float(n, "cell_clip");
    if (!w) return false;
    for (size_t i = PROJECTION; i < NORMS_END; i++)
        if ((i < PROJECTION + 2 || i >= NORMS) && qc_tfl_has_input(n, i))
            return qc_fail(st, QC_UNSUPPORTED, "its %s is not handled", i < NORMS ? "projection" : "normalisation");
    if (x->quantized || qc_tfl_option(n, "fused_activation_function") != TANH ||
        qc_tfl_option(n, "diagonal_recurrent_tensors"))
        return qc_fail(st, QC_UNSUPPORTED, "only float data and the activation tanh are handled");
    if (w->shape.rank != 2 || x->shape.rank != 3)
        return qc_fail(st, QC_BAD_INPUT, "its data have %d axes and its weights %d, expected 3 and 2", x->shape.rank,
                       w->shape.rank);
    if (w->shape.dim[0] < 1) return qc_fail(st, QC_UNSUPPORTED, "its weights have no fixed shape");
    /* From a state of zeros, no cell is above the number of steps. */
    const int64_t hidden = w->shape.dim[0], width = w->shape.dim[1], steps = x->shape.dim[by_time ? 0 : 1],
                  of_input[] = {1, -1, width}, of_state[] = {1, -1, hidden}, row[] = {1, -1};
    if (clip > 0 && (steps == QC_FREE || (float)steps > clip))
        qc_lines_add(&n->r->all->warnings, n->r->g->arena, st,
                     "%s: TensorFlow Lite clips its cells to %g, qcalib does not", n->name, (double)clip);
    const bool biased = qc_tfl_has_input(n, BIASES + 1);
    const qc_id data = qc_tfl_real(n, x, QC_TFL_IN_FILE, st), none = biased ? zeros(n, 4 * hidden, st) : 0;
    qc_id in[8] = {!by_time ? qc_tfl_transpose(n, data, 3, turned, NULL, st) : data,
                   gates(n, INPUT_WEIGHTS, all, 4, 0, 3, of_input, st),
                   gates(n, RECURRENT_WEIGHTS, all, 4, 0, 3, of_state, st)};
    if (biased) in[3] = gates(n, BIASES, all, 4, none, 2, row, st);
    if (peepholes) in[7] = gates(n, PEEPHOLES, holes, 3, 0, 2, row, st);
    qc_tfl_attr(n, QC_INT("hidden_size", hidden));
    const qc_id y[2] = {qc_tfl_add(n, QC_OP_LSTM, peepholes ? 8 : 4, in, NULL, st),
                        qc_tfl_int_list(n, 1, (const int64_t[]){1}, st)};
    const qc_id rows = qc_tfl_add(n, QC_OP_Squeeze, 2, y, NULL, st);
    return qc_tfl_define_real(n, 0, by_time ? rows : qc_tfl_transpose(n, rows, 3, turned, n->name, st), QC_TFL_IN_FILE,
                              st);
}

/* --- IF: both graphs are computed, and one result is taken --- */

enum { DEPTH_MAX = 8, INLINED_MAX = 100000 };

/* Reads graph `index` into the graph of the operator, with its inputs from `first` on. results: its outputs, as many as
   the operator's. */
static bool inlined(struct qc_tfl_value ***results, struct qc_tfl_reader *inner, struct qc_tfl_node *n, int64_t index,
                    size_t first, struct qc_status *st)
{
    struct qc_tfl_reader *r = n->r;
    const struct qc_fb_vector graphs = qc_fb_vector(&r->model, QC_TFL_Model_subgraphs);
    if (index < 1 || (size_t)index >= graphs.count)
        return qc_fail(st, QC_BAD_INPUT, "it names subgraph %lld of %zu, counted from 0", (long long)index,
                       graphs.count);
    *inner = *r;
    inner->subgraph = qc_fb_vector_table(&graphs, (size_t)index);
    inner->depth++;
    const struct qc_fb_vector in = qc_fb_vector(&inner->subgraph, QC_TFL_SubGraph_inputs),
                              out = qc_fb_vector(&inner->subgraph, QC_TFL_SubGraph_outputs),
                              operators = qc_fb_vector(&inner->subgraph, QC_TFL_SubGraph_operators),
                              tensors = qc_fb_vector(&inner->subgraph, QC_TFL_SubGraph_tensors);
    r->all->inlined += operators.count + tensors.count;
    if (inner->depth > DEPTH_MAX || r->all->inlined > INLINED_MAX)
        return qc_fail(st, QC_UNSUPPORTED,
                       "graphs nested in IF have more than %d levels, or more than %d operators and tensors",
                       (int)DEPTH_MAX, (int)INLINED_MAX);
    if (in.count != n->input_count - first || out.count != n->output_count)
        return qc_fail(st, QC_BAD_INPUT, "its graph has %zu inputs and %zu outputs", in.count, out.count);
    if (!(*results = QC_NEW_ARRAY(r->arena, struct qc_tfl_value *, out.count, st)) || !qc_tfl_read_values(inner, st))
        return false;
    for (size_t i = 0; i < in.count + out.count; i++) {
        const int64_t at = i < in.count ? qc_fb_vector_int(&in, i) : qc_fb_vector_int(&out, i - in.count);
        if (at < 0 || (size_t)at >= inner->value_count)
            return qc_fail(st, QC_BAD_INPUT, "its graph begins or ends with tensor %lld of %zu", (long long)at,
                           inner->value_count);
        if (i >= in.count) {
            (*results)[i - in.count] = &inner->values[at];
            continue;
        }
        const struct qc_tfl_value *given = qc_tfl_input(n, first + i, st);
        if (!given) return false;
        inner->values[at] = *given;
        inner->values[at].index = (size_t)at;
    }
    return qc_tfl_read_operators(inner, st);
}

static bool choose(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *when = qc_tfl_input(n, 0, st), **results[2];
    struct qc_tfl_reader inner[2];
    if (!when || !inlined(&results[0], &inner[0], n, qc_tfl_option(n, "then_subgraph_index"), 1, st) ||
        !inlined(&results[1], &inner[1], n, qc_tfl_option(n, "else_subgraph_index"), 1, st))
        return false;
    size_t count;
    if (!qc_shape_count(&count, &when->shape) || count != 1)
        return qc_fail(st, QC_UNSUPPORTED, "its condition is not one element");
    for (size_t k = 0; k < n->output_count; k++) {
        if (!qc_shape_equal(&results[0][k]->shape, &results[1][k]->shape))
            return qc_fail(st, QC_UNSUPPORTED, "results of its graphs differ in shape");
        qc_id in[3] = {qc_tfl_real(n, when, QC_TFL_IN_FILE, st)};
        for (int i = 0; i < 2; i++) {
            struct qc_tfl_node end = {.r = &inner[i], .info = n->info};
            in[i + 1] = qc_tfl_real(&end, results[i][k], QC_TFL_IN_FILE, st);
        }
        qc_tfl_define_real(n, k, qc_tfl_add(n, QC_OP_Where, 3, in, n->outputs[k]->name, st), QC_TFL_IN_FILE, st);
    }
    return st->code == QC_OK;
}

const struct qc_tfl_row qc_tfl_state_rows[] = {
    {QC_TFL_OP_IF, choose, QC_OP_Where},
    {QC_TFL_OP_VAR_HANDLE, handle, QC_OP_COUNT},
    {QC_TFL_OP_READ_VARIABLE, read_variable, QC_OP_COUNT},
    {QC_TFL_OP_ASSIGN_VARIABLE, qc_tfl_assign_variable, QC_OP_COUNT},
    {QC_TFL_OP_CALL_ONCE, qc_tfl_call_once, QC_OP_COUNT},
    {QC_TFL_OP_UNIDIRECTIONAL_SEQUENCE_LSTM, sequence_lstm, QC_OP_LSTM},
    {.form = NULL},
};
