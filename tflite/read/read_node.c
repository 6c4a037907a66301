// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "tflite/read/tflite_reading.h"

/* --- Options and inputs --- */

struct qc_tfl_value *qc_tfl_input(struct qc_tfl_node *n, size_t i, struct qc_status *st)
{
    if (qc_tfl_has_input(n, i)) return n->inputs[i];
    qc_fail(st, QC_BAD_INPUT, "input %zu is missing", i);
    return NULL;
}

/* Returns the index of a field of the options, or QC_TFL_FIELD_COUNT if there is no such field. */
static unsigned field_of(const struct qc_tfl_node *n, const char *name)
{
    const struct qc_fb_schema *s = &qc_tfl_schema;
    for (size_t i = s->tables[n->info->options].first; i < s->field_count; i++) {
        if (s->fields[i].table != n->info->options) break;
        if (strcmp(s->fields[i].name, name) == 0) return (unsigned)i;
    }
    return QC_TFL_FIELD_COUNT;
}

int64_t qc_tfl_option(const struct qc_tfl_node *n, const char *field)
{
    const unsigned f = field_of(n, field);
    return f == QC_TFL_FIELD_COUNT ? 0 : qc_fb_int(&n->options, f);
}

float qc_tfl_option_float(const struct qc_tfl_node *n, const char *field)
{
    const unsigned f = field_of(n, field);
    return f == QC_TFL_FIELD_COUNT ? 0 : qc_fb_float(&n->options, f);
}

bool qc_tfl_ints(int64_t **out, size_t *count, struct qc_tfl_node *n, size_t i, const char *what, struct qc_status *st)
{
    const struct qc_tfl_value *v = qc_tfl_input(n, i, st);
    if (!v) return false;
    if (!v->data)
        return qc_fail(st, QC_UNSUPPORTED, "its %s are computed while the model runs; only constant ones are handled",
                       what);
    if (v->dtype != QC_I32 && v->dtype != QC_I64)
        return qc_fail(st, QC_BAD_INPUT, "its %s are not integers of 32 or 64 bits", what);
    const qc_id id = qc_tfl_constant(n, v, &v->shape, NULL, NULL, st);
    const struct qc_tensor *t = id ? qc_constant_of(n->r->g, id) : NULL;
    int64_t *list = t ? QC_NEW_ARRAY(n->r->arena, int64_t, t->count, st) : NULL;
    if (!list) return false;
    for (size_t k = 0; k < t->count; k++) list[k] = qc_tensor_int(t, k);
    *out = list;
    *count = t->count;
    return true;
}

bool qc_tfl_image_size(int64_t size[2], struct qc_tfl_node *n, size_t i, size_t from, struct qc_status *st)
{
    int64_t *list;
    size_t count;
    const struct qc_tfl_value *v = qc_tfl_input(n, i, st), *y = n->outputs[0];
    if (!v) return false;
    if (!v->data && y->fixed_inside && y->shape.rank == 4 && y->shape.dim[1] > 0 && y->shape.dim[2] > 0) {
        size[0] = y->shape.dim[1];
        size[1] = y->shape.dim[2];
        return true;
    }
    if (!qc_tfl_ints(&list, &count, n, i, "sizes", st)) return false;
    if (count < from + 2) return qc_fail(st, QC_BAD_INPUT, "the size of its result has %zu numbers", count);
    size[0] = list[from];
    size[1] = list[from + 1];
    if (size[0] > 0 && size[1] > 0) return true;
    return qc_fail(st, QC_BAD_INPUT, "its size is %lld x %lld", (long long)size[0], (long long)size[1]);
}

const struct qc_shape *qc_tfl_shape(const struct qc_tfl_node *n, qc_id id)
{
    return &n->r->g->values[id].type.shape;
}

/* --- Adding nodes --- */

void qc_tfl_attr(struct qc_tfl_node *n, struct qc_attr a)
{
    if (n->attr_count < QC_TFL_ATTRS) n->attrs[n->attr_count++] = a;
}

bool qc_tfl_attr_ints(struct qc_tfl_node *n, const char *name, size_t count, const int64_t *v, int64_t none,
                      struct qc_status *st)
{
    size_t same = 0;
    while (same < count && v[same] == none) same++;
    if (same == count) return true;
    const int64_t *kept = qc_arena_dup(n->r->arena, v, count, sizeof *v, st);
    if (kept) qc_tfl_attr(n, QC_INTS(name, count, kept));
    return kept != NULL;
}

qc_id qc_tfl_add_results(struct qc_tfl_node *n, enum qc_op op, unsigned count, const qc_id *in, unsigned results,
                         struct qc_status *st)
{
    const char **names = QC_NEW_ARRAY(n->r->arena, const char *, results, st);
    for (unsigned k = 0; names && k < results && k < n->output_count; k++) names[k] = n->outputs[k]->name;
    const struct qc_node_def def = {.op = op,
                                    .name = n->name,
                                    .input_count = count,
                                    .output_count = results,
                                    .inputs = in,
                                    .attr_count = n->attr_count,
                                    .attrs = n->attrs,
                                    .output_names = names};
    n->attr_count = 0;
    return names ? qc_graph_add(n->r->g, &def, st) : 0;
}

qc_id qc_tfl_add(struct qc_tfl_node *n, enum qc_op op, unsigned count, const qc_id *in, const char *name,
                 struct qc_status *st)
{
    const struct qc_node_def def = {.op = op,
                                    .name = name && (name == n->name || name == n->stored_name) ? n->name : NULL,
                                    .input_count = count,
                                    .inputs = in,
                                    .attr_count = n->attr_count,
                                    .attrs = n->attrs,
                                    .output_names = name ? &name : NULL};
    n->attr_count = 0;
    return qc_graph_add(n->r->g, &def, st);
}

qc_id qc_tfl_transpose(struct qc_tfl_node *n, qc_id id, size_t rank, const int64_t *perm, const char *name,
                       struct qc_status *st)
{
    struct qc_tfl_node own = *n; /* a copy, so that the caller's pending attributes stay */
    own.attr_count = 0;
    qc_tfl_attr(&own, QC_INTS("perm", rank, perm));
    return id ? qc_tfl_add(&own, QC_OP_Transpose, 1, &id, name, st) : 0;
}

qc_id qc_tfl_reshape(struct qc_tfl_node *n, qc_id id, size_t rank, const int64_t *dims, struct qc_status *st)
{
    struct qc_tfl_node own = *n;
    own.attr_count = 0;
    const qc_id in[2] = {id, id ? qc_tfl_int_list(n, rank, dims, st) : 0};
    return id ? qc_tfl_add(&own, QC_OP_Reshape, 2, in, NULL, st) : 0;
}

qc_id qc_tfl_cast(struct qc_tfl_node *n, qc_id id, enum qc_dtype to, struct qc_status *st)
{
    if (!id || n->r->g->values[id].type.dtype == to) return id;
    struct qc_tfl_node own = *n;
    own.attr_count = 0;
    qc_tfl_attr(&own, QC_INT("to", qc_dtype_info(to)->onnx));
    return qc_tfl_add(&own, QC_OP_Cast, 1, &id, NULL, st);
}

static qc_id constant(struct qc_tfl_node *n, enum qc_dtype t, const struct qc_shape *shape, const void *data,
                      struct qc_status *st)
{
    return qc_graph_add_made_constant(n->r->g, NULL, qc_tensor_of(t, shape, data, st), st);
}

qc_id qc_tfl_int_list(struct qc_tfl_node *n, size_t count, const int64_t *v, struct qc_status *st)
{
    const struct qc_shape shape = QC_SHAPE((int64_t)count);
    return constant(n, QC_I64, &shape, v, st);
}

qc_id qc_tfl_int(struct qc_tfl_node *n, int64_t v, struct qc_status *st)
{
    return constant(n, QC_I64, &QC_SCALAR, &v, st);
}

qc_id qc_tfl_number(struct qc_tfl_node *n, float v, struct qc_status *st)
{
    return constant(n, QC_F32, &QC_SCALAR, &v, st);
}

/* --- Layouts --- */

bool qc_tfl_axis(int64_t *out, int64_t axis, int rank, enum qc_tfl_layout layout, struct qc_status *st)
{
    const int64_t own = axis < 0 ? axis + rank : axis;
    if (own < 0 || own >= rank) return qc_fail(st, QC_BAD_INPUT, "there is no axis %lld of %d", (long long)axis, rank);
    *out = own;
    for (int i = 0; layout == QC_TFL_CHANNELS_FIRST && i < 4; i++)
        if (qc_tfl_to_first[i] == own) *out = i;
    return true;
}

enum qc_tfl_layout qc_tfl_layout_of(const struct qc_tfl_node *n)
{
    bool first = false;
    for (size_t i = 0; i < n->input_count; i++) {
        const struct qc_tfl_value *v = n->inputs[i];
        if (!v || v->data) continue;
        if (v->stored[QC_TFL_CHANNELS_FIRST] && !v->stored[QC_TFL_IN_FILE])
            first = true;
        else if (v->shape.rank != 4)
            return QC_TFL_IN_FILE;
    }
    return first ? QC_TFL_CHANNELS_FIRST : QC_TFL_IN_FILE;
}

qc_id qc_tfl_operand(struct qc_tfl_node *n, size_t i, enum qc_tfl_layout layout, struct qc_status *st)
{
    struct qc_tfl_value *v = qc_tfl_input(n, i, st);
    if (!v) return 0;
    if (layout == QC_TFL_IN_FILE || v->shape.rank == 4 || !v->data) return qc_tfl_real(n, v, layout, st);
    size_t count;
    if (qc_shape_count(&count, &v->shape) && count == 1) return qc_tfl_real(n, v, QC_TFL_IN_FILE, st);
    if (v->shape.rank > 4 || v->scales.count > 1)
        return qc_fail(st, QC_UNSUPPORTED, "input %zu has %d axes", i, v->shape.rank);
    struct qc_shape shape = {.rank = 4};
    for (int k = 0; k < 4; k++) {
        const int own = k - (4 - v->shape.rank);
        shape.dim[k] = own < 0 ? 1 : v->shape.dim[own];
    }
    return qc_tfl_constant(n, v, &shape, qc_tfl_to_first, NULL, st);
}

/* --- The list of operators --- */

static const struct qc_tfl_row *row_of(int64_t code)
{
    const struct qc_tfl_row *const tables[] = {qc_tfl_layer_rows, qc_tfl_element_rows, qc_tfl_axis_rows,
                                               qc_tfl_shape_rows, qc_tfl_made_rows,    qc_tfl_state_rows};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct qc_tfl_row *r = tables[t]; r->form; r++)
            if ((int64_t)r->code == code) return r;
    return NULL;
}

static struct qc_fb_table opcode_of(const struct qc_tfl_reader *r, const struct qc_fb_table *op)
{
    const struct qc_fb_vector codes = qc_fb_vector(&r->model, QC_TFL_Model_operator_codes);
    const size_t i = (size_t)qc_fb_int(op, QC_TFL_Operator_opcode_index);
    return i < codes.count ? qc_fb_vector_table(&codes, i) : (struct qc_fb_table){.schema = codes.schema};
}

static int64_t code_of(const struct qc_fb_table *opcode)
{
    const int64_t old = qc_fb_int(opcode, QC_TFL_OperatorCode_deprecated_builtin_code),
                  code = qc_fb_int(opcode, QC_TFL_OperatorCode_builtin_code);
    return code > old ? code : old;
}

static const char *operator_name(char buf[QC_LABEL], const struct qc_fb_table *opcode)
{
    const int64_t code = code_of(opcode);
    const struct qc_tfl_operator_info *info = qc_tfl_operator_info(code);
    if (code == QC_TFL_OP_CUSTOM)
        return qc_text(buf, QC_LABEL, "custom '%.100s'", qc_fb_string(opcode, QC_TFL_OperatorCode_custom_code));
    return info ? qc_text(buf, QC_LABEL, "%s", info->name) : qc_text(buf, QC_LABEL, "number %lld", (long long)code);
}

/* Fails if some operators have no row; the message lists each kind once, with its count. */
static bool check_known(struct qc_tfl_reader *r, const struct qc_fb_vector *operators, struct qc_status *st)
{
    const size_t codes = qc_fb_vector(&r->model, QC_TFL_Model_operator_codes).count;
    if (!qc_tfl_refer(r, codes, sizeof(size_t), st)) return false; /* once for each graph inside of an operator */
    size_t *uses = QC_NEW_ARRAY(r->arena, size_t, codes, st), used = 0;
    char list[1024] = "", name[QC_LABEL];
    if (!uses) return false;
    for (size_t i = 0; i < operators->count; i++) {
        const struct qc_fb_table op = qc_fb_vector_table(operators, i), opcode = opcode_of(r, &op);
        if (!opcode.at)
            return qc_fail(st, QC_BAD_INPUT, "operator %zu has the code %lld of %zu", i,
                           (long long)qc_fb_int(&op, QC_TFL_Operator_opcode_index), codes);
        if (!row_of(code_of(&opcode))) uses[qc_fb_int(&op, QC_TFL_Operator_opcode_index)]++;
    }
    for (size_t i = 0; i < codes; i++) {
        const struct qc_fb_vector all = qc_fb_vector(&r->model, QC_TFL_Model_operator_codes);
        const struct qc_fb_table opcode = qc_fb_vector_table(&all, i);
        if (!uses[i] || used >= sizeof list - QC_LABEL) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%zu %s", used ? ", " : "", uses[i],
                                 operator_name(name, &opcode));
    }
    return !used || qc_fail(st, QC_UNSUPPORTED, "operators that are not handled: %s", list);
}

static bool read_ports(struct qc_tfl_value ***out, size_t *count, struct qc_tfl_reader *r, const struct qc_fb_table *op,
                       enum qc_tfl_field field, bool optional, struct qc_status *st)
{
    const struct qc_fb_vector list = qc_fb_vector(op, field);
    if (!qc_tfl_refer(r, list.count, sizeof(int32_t), st)) return false;
    struct qc_tfl_value **v = QC_NEW_ARRAY(r->arena, struct qc_tfl_value *, list.count, st);
    for (size_t i = 0; v && i < list.count; i++) {
        const int64_t at = qc_fb_vector_int(&list, i);
        if (at >= (int64_t)r->value_count || at < (optional ? -1 : 0))
            return qc_fail(st, QC_BAD_INPUT, "%s %zu is tensor %lld of %zu", qc_tfl_schema.fields[field].name, i,
                           (long long)at, r->value_count);
        v[i] = at < 0 ? NULL : &r->values[at];
    }
    *out = v;
    *count = list.count;
    return v != NULL;
}

static bool read_operator(struct qc_tfl_reader *r, const struct qc_fb_table *op, struct qc_status *st)
{
    const struct qc_fb_table opcode = opcode_of(r, op);
    const struct qc_tfl_row *row = row_of(code_of(&opcode));
    struct qc_tfl_node n = {.r = r, .info = qc_tfl_operator_info(row->code), .op = row->op};
    if (!read_ports(&n.inputs, &n.input_count, r, op, QC_TFL_Operator_inputs, true, st) ||
        !read_ports(&n.outputs, &n.output_count, r, op, QC_TFL_Operator_outputs, false, st))
        return false;
    const struct qc_fb_table options = qc_fb_child(op, QC_TFL_Operator_builtin_options);
    const int64_t kind = options.at ? qc_fb_int(op, QC_TFL_Operator_builtin_options_type) : 0;
    const struct qc_fb_table_info *table = &qc_tfl_schema.tables[n.info->options];
    n.options = options;
    if (!kind || n.info->options == QC_TFL_TABLE_NONE)
        n.options.at = 0;
    else if (kind != table->in_union)
        return qc_fail(st, QC_BAD_INPUT, "has options of another operator (%lld)", (long long)kind);
    if (!n.output_count && row->form != qc_tfl_assign_variable && row->form != qc_tfl_call_once)
        return qc_fail(st, QC_BAD_INPUT, "has no output");
    for (size_t i = 0; i < n.input_count && row->op != QC_OP_LSTM; i++)
        if (n.inputs[i] && n.inputs[i]->is_state)
            return qc_fail(st, QC_UNSUPPORTED, "reads the variable '%.200s'", n.inputs[i]->name);
    bool complex = false;
    for (size_t i = 0; i < n.input_count; i++) complex = complex || (n.inputs[i] && n.inputs[i]->complex);
    for (size_t i = 0; i < n.output_count; i++) complex = complex || n.outputs[i]->complex;
    if (complex && row->code != QC_TFL_OP_RFFT2D && row->code != QC_TFL_OP_REAL && row->code != QC_TFL_OP_IMAG &&
        row->code != QC_TFL_OP_COMPLEX_ABS && row->code != QC_TFL_OP_CAST && row->code != QC_TFL_OP_SQUEEZE)
        return qc_fail(st, QC_UNSUPPORTED, "%s of complex numbers is not handled", n.info->name);
    n.name = n.output_count ? n.outputs[0]->name : n.info->name;
    n.stored_name =
        n.output_count && n.outputs[0]->quantized ? qc_arena_printf(r->arena, st, "%s_quantized", n.name) : n.name;
    if (st->code != QC_OK) return false;
    return row->form(&n, st) || qc_where(st, "'%.200s'", n.name);
}

bool qc_tfl_read_operators(struct qc_tfl_reader *r, struct qc_status *st)
{
    const struct qc_fb_vector operators = qc_fb_vector(&r->subgraph, QC_TFL_SubGraph_operators);
    char name[QC_LABEL];
    if (!check_known(r, &operators, st)) return false;
    for (size_t i = 0; i < operators.count; i++) {
        const struct qc_fb_table op = qc_fb_vector_table(&operators, i), opcode = opcode_of(r, &op);
        if (!read_operator(r, &op, st)) return qc_where(st, "operator %zu, %s", i, operator_name(name, &opcode));
    }
    return true;
}
