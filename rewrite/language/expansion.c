// SPDX-License-Identifier: Apache-2.0
#include "rewrite/language/expansion.h"

#include <stdlib.h>
#include <string.h>

#include "graph/types/number_format.h"
#include "rewrite/language/expansion_parts.h"

/* Nodes and constants of an expanded function. */

static bool put(void *to, enum qc_dtype dtype, size_t i, struct qc_number n)
{
    const double f = qc_number_double(n);
    const int64_t v = n.real ? (f > -0x1p63 && f < 0x1p63 ? (int64_t)f : 0) : n.i;
    switch (dtype) {
    case QC_F32: ((float *)to)[i] = (float)f; return true;
    case QC_F64: ((double *)to)[i] = f; return true;
    case QC_F16: ((uint16_t *)to)[i] = qc_float_to_half((float)f); return true;
    case QC_BF16: ((uint16_t *)to)[i] = qc_float_to_bfloat((float)f); return true;
    case QC_I64: ((int64_t *)to)[i] = v; return true;
    case QC_U64: ((uint64_t *)to)[i] = (uint64_t)v; return true;
    case QC_I32: ((int32_t *)to)[i] = (int32_t)v; return true;
    case QC_U32: ((uint32_t *)to)[i] = (uint32_t)v; return true;
    case QC_I16: ((int16_t *)to)[i] = (int16_t)v; return true;
    case QC_U16: ((uint16_t *)to)[i] = (uint16_t)v; return true;
    case QC_I8: ((int8_t *)to)[i] = (int8_t)v; return true;
    case QC_U8: ((uint8_t *)to)[i] = (uint8_t)v; return true;
    case QC_BOOL: ((uint8_t *)to)[i] = f != 0; return true;
    case QC_U4:
    case QC_I4:
    case QC_U2:
    case QC_I2:
    QC_CASE_SMALL_FLOATS:
    case QC_NONE:
    case QC_DTYPE_COUNT: break;
    }
    return false;
}

bool qc_expression_constant(qc_id *out, struct qc_graph *to, enum qc_dtype dtype, const struct qc_fvalue *v,
                            struct qc_status *st)
{
    const bool list = v->kind == QC_FVALUE_LIST;
    const size_t count = list ? v->count : 1;
    const struct qc_shape shape = {.rank = list, .dim = {list ? (int64_t)count : 0}};
    struct qc_tensor *t;
    if (!list && v->kind != QC_FVALUE_NUMBER)
        return qc_fail(st, QC_BAD_INPUT, "a number or a list was expected, got %s",
                       v->kind == QC_FVALUE_TEXT ? "a text" : "nothing");
    if (!(t = qc_tensor_new(dtype, &shape, st))) return false;
    for (size_t i = 0; i < count; i++)
        if (!put(t->data, dtype, i, list ? v->items[i] : v->number)) {
            qc_tensor_unref(t);
            return qc_fail(st, QC_UNSUPPORTED, "numbers of type %s are not handled here", qc_dtype_info(dtype)->name);
        }
    return (*out = qc_graph_add_made_constant(to, NULL, t, st)) != 0;
}

/* Returns true for ops whose number arguments have the type of their tensors. Numbers of other ops are indices. */
static bool same_types(enum qc_op op)
{
    static const enum qc_op ops[] = {
        QC_OP_Add,         QC_OP_Sub,   QC_OP_Mul,     QC_OP_Div,   QC_OP_Pow,   QC_OP_Mod,
        QC_OP_Max,         QC_OP_Min,   QC_OP_Sum,     QC_OP_PRelu, QC_OP_Clip,  QC_OP_Less,
        QC_OP_LessOrEqual, QC_OP_Equal, QC_OP_Greater, QC_OP_Where, QC_OP_And,   QC_OP_GreaterOrEqual,
        QC_OP_Or,          QC_OP_Range, QC_OP_MatMul,  QC_OP_Gemm,  QC_OP_Concat};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i] == op) return true;
    return false;
}

static bool operands(qc_id in[QC_RULE_ARGS], struct qc_expanding *x, enum qc_op op, const struct qc_fvalue *args,
                     unsigned count, struct qc_status *st)
{
    enum qc_dtype like = QC_NONE;
    const unsigned first = op == QC_OP_Where ? 1 : 0;
    for (unsigned i = first; i < count && like == QC_NONE; i++)
        if (args[i].kind == QC_FVALUE_TENSOR) like = x->g->values[args[i].id].type.dtype;
    for (unsigned i = 0; i < count; i++) {
        const bool follows = (same_types(op) && i >= first) || (op == QC_OP_Pad && i == 2);
        const enum qc_dtype own = qc_fvalue_dtype(&args[i]);
        in[i] = QC_ABSENT;
        if (args[i].kind == QC_FVALUE_TENSOR)
            in[i] = args[i].id;
        else if (args[i].kind != QC_FVALUE_ABSENT &&
                 !qc_expression_constant(&in[i], x->g, follows && like != QC_NONE ? like : own, &args[i], st))
            return false;
    }
    return true;
}

bool qc_expanding_node(struct qc_fvalue *out, struct qc_expanding *x, enum qc_op op, const struct qc_fvalue *args,
                       unsigned arg_count, unsigned outputs, const struct qc_attr *attrs, unsigned attr_count,
                       struct qc_status *st)
{
    qc_id in[QC_RULE_ARGS];
    if (!operands(in, x, op, args, arg_count, st)) return false;
    while (arg_count && !in[arg_count - 1]) arg_count--;
    const unsigned k = x->used[op]++;
    const char *name = k ? qc_arena_printf(x->arena, st, "%s/%s_%u", x->call->label, qc_op_info(op)->name, k)
                         : qc_arena_printf(x->arena, st, "%s/%s", x->call->label, qc_op_info(op)->name);
    const struct qc_node_def def = {.op = op,
                                    .name = name,
                                    .input_count = arg_count,
                                    .output_count = outputs,
                                    .inputs = in,
                                    .attr_count = attr_count,
                                    .attrs = attrs};
    *out = qc_fvalue_tensor(name ? qc_graph_add(x->g, &def, st) : 0);
    return out->id != 0;
}

bool qc_expanding_concat(struct qc_fvalue *out, struct qc_expanding *x, const struct qc_fvalue *items, size_t count,
                         struct qc_status *st)
{
    struct qc_fvalue parts[QC_RULE_ARGS];
    struct qc_number *run = QC_NEW_ARRAY(x->arena, struct qc_number, QC_EXPRESSION_ITEMS, st);
    const struct qc_attr axis = QC_INT("axis", 0);
    size_t filled = 0;
    unsigned n = 0;
    if (!run) return false;
    for (size_t i = 0; i < count; i++) {
        const bool number = items[i].kind == QC_FVALUE_NUMBER;
        const bool joins = number && n && parts[n - 1].kind == QC_FVALUE_LIST;
        if (!number && items[i].kind != QC_FVALUE_TENSOR)
            return qc_fail(st, QC_BAD_INPUT, "a list of numbers and sizes was expected");
        if (n == QC_RULE_ARGS && !joins) return qc_fail(st, QC_UNSUPPORTED, "a shape of too many parts");
        if (joins) {
            parts[n - 1].count++;
            run[filled++] = items[i].number;
        } else {
            parts[n++] =
                number ? (struct qc_fvalue){.kind = QC_FVALUE_LIST, .count = 1, .items = run + filled} : items[i];
            if (number) run[filled++] = items[i].number;
        }
    }
    if (n == 1) {
        *out = parts[0];
        return true;
    }
    return qc_expanding_node(out, x, QC_OP_Concat, parts, n, 1, &axis, 1, st);
}

/* Marks the inputs and attributes of a function that an expression depends on; of names that were given a value those
   of that value. */
static void mark_slots(bool *met, const struct qc_frame *f, const struct qc_expr *e)
{
    const struct qc_fslot *s = &f->function->slots[e->slot];
    for (unsigned i = 0; i < e->arg_count; i++) mark_slots(met, f, e->args[i]);
    for (unsigned i = 0; i < e->attr_count; i++) mark_slots(met, f, e->attrs[i]);
    if (e->kind != QC_EXPR_CAPTURE || met[e->slot]) return;
    met[e->slot] = true;
    if (s->kind == QC_FSLOT_LET && f->done[e->slot]) mark_slots(met, f, s->value);
}

/* The same for the call of a function that failed because of some of its inputs and attributes. */
static void mark_passed(bool *met, const struct qc_frame *f, const struct qc_expr *e, const struct qc_fault *of)
{
    for (unsigned k = 0; k < of->frame->function->slot_count; k++) {
        const struct qc_fslot *s = &of->frame->function->slots[k];
        if (of->met[k] && s->kind == QC_FSLOT_INPUT && k < e->arg_count) mark_slots(met, f, e->args[k]);
        for (unsigned i = 0; of->met[k] && s->kind == QC_FSLOT_ATTRIBUTE && i < e->attr_count; i++)
            if (strcmp(e->attr_names[i], s->name) == 0) mark_slots(met, f, e->attrs[i]);
    }
}

/* Adds to a failure in a built-in function what it is of, at its innermost expression: prefixes st's message with the
   inputs and attributes of the call in the file. */
static void name_fault(const struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    struct qc_expanding *x = f->x;
    const struct qc_fault inner = x->fault;
    char list[QC_EXPANSION_NAMES] = "";
    struct qc_status memory = QC_STATUS_INIT;
    if (inner.frame == f) return;
    x->fault = (struct qc_fault){f, QC_NEW_ARRAY(x->arena, bool, f->function->slot_count, &memory)};
    if (!x->fault.met) return;
    if (inner.met && e->kind == QC_EXPR_FUNCTION && strcmp(e->text, inner.frame->function->name) == 0)
        mark_passed(x->fault.met, f, e, &inner);
    else
        mark_slots(x->fault.met, f, e);
    for (unsigned k = 0; f->call == x->call && k < f->function->slot_count; k++) {
        const struct qc_fslot *s = &f->function->slots[k];
        const size_t at = strlen(list);
        if (x->fault.met[k] && s->kind != QC_FSLOT_LET)
            qc_text(list + at, (unsigned)(sizeof list - at), "%s%s", at ? ", " : "", s->name);
    }
    if (*list) qc_where(st, "its %s", list);
}

/* Adds the place of an expression to st's message: in a function of --rules "FILE:LINE:COLUMN: ". Always returns false.
 */
static bool fail_here(const struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    if (f->function->builtin)
        name_fault(f, e, st);
    else if (strncmp(st->message, f->function->file, strlen(f->function->file)) != 0) /* not of an inner expression */
        qc_where(st, "%s:%u:%u", f->function->file, e->line, e->column);
    return false;
}

/* --- Names --- */

static bool from_attribute(struct qc_fvalue *out, struct qc_frame *f, const struct qc_attr *a, struct qc_status *st)
{
    struct qc_number *items = QC_NEW_ARRAY(f->arena, struct qc_number, a->count, st);
    if (!items) return false;
    *out = (struct qc_fvalue){.kind = QC_FVALUE_LIST, .count = a->count, .items = items};
    switch (a->kind) {
    case QC_ATTR_INT: *out = qc_fvalue_whole(a->i); return true;
    case QC_ATTR_FLOAT:
        *out = (struct qc_fvalue){.kind = QC_FVALUE_NUMBER, .number = qc_number_real((double)a->f)};
        return true;
    case QC_ATTR_STRING: *out = (struct qc_fvalue){.kind = QC_FVALUE_TEXT, .text = a->s}; return true;
    case QC_ATTR_INTS:
        for (size_t i = 0; i < a->count; i++) items[i] = qc_number_whole(a->ints[i]);
        break;
    case QC_ATTR_FLOATS:
        for (size_t i = 0; i < a->count; i++) items[i] = qc_number_real((double)a->floats[i]);
        break;
    case QC_ATTR_STRINGS:
    case QC_ATTR_TENSOR: *out = (struct qc_fvalue){.kind = QC_FVALUE_HANDED, .attr = a}; return true;
    case QC_ATTR_GRAPH:
        return qc_fail(st, QC_UNSUPPORTED, "attribute '%.80s' is of a kind that functions do not handle", a->name);
    }
    return a->count <= QC_EXPANSION_GIVEN ||
           qc_fail(st, QC_UNSUPPORTED, "attribute '%.80s' has more than %d elements", a->name, (int)QC_EXPANSION_GIVEN);
}

static bool several(struct qc_fvalue *out, struct qc_frame *f, const struct qc_fslot *s, struct qc_status *st);

static bool slot_value(struct qc_fvalue *out, struct qc_frame *f, unsigned k, struct qc_status *st)
{
    const struct qc_fslot *s = &f->function->slots[k];
    if (f->done[k]) {
        *out = f->value[k];
        return true;
    }
    *out = (struct qc_fvalue){.kind = QC_FVALUE_ABSENT};
    bool ok = true;
    if (s->kind == QC_FSLOT_INPUT) {
        if (s->index < f->call->input_count) *out = qc_fvalue_tensor(f->call->inputs[s->index]);
    } else if (s->kind == QC_FSLOT_ATTRIBUTE) {
        const struct qc_attr *a = NULL;
        for (unsigned i = 0; i < f->call->attr_count; i++)
            if (strcmp(f->call->attrs[i].name, s->name) == 0) a = &f->call->attrs[i];
        if (a)
            ok = from_attribute(out, f, a, st);
        else if (s->value)
            ok = qc_expr_evaluate(out, f, s->value, st);
    } else if (s->count > 1) {
        ok = several(out, f, s, st);
    } else {
        ok = qc_expr_evaluate(out, f, s->value, st);
    }
    if (!ok) return false;
    f->value[k] = *out;
    return f->done[k] = true;
}

/* --- Ops and functions --- */

bool qc_expression_attribute(struct qc_attr *out, struct qc_arena *a, const char *name, const struct qc_fvalue *v,
                             struct qc_status *st)
{
    int64_t *ints = QC_NEW_ARRAY(a, int64_t, v->count, st);
    float *floats = QC_NEW_ARRAY(a, float, v->count, st);
    bool real = false;
    if (!ints || !floats) return false;
    switch (v->kind) {
    case QC_FVALUE_NUMBER:
        *out = v->number.real ? QC_FLOAT(name, (float)v->number.f) : QC_INT(name, v->number.i);
        return true;
    case QC_FVALUE_TEXT: *out = QC_STRING(name, v->text); return true;
    case QC_FVALUE_LIST:
        for (size_t i = 0; i < v->count; i++) {
            real = real || v->items[i].real;
            ints[i] = v->items[i].i;
            floats[i] = (float)qc_number_double(v->items[i]);
        }
        *out = QC_INTS(name, v->count, ints);
        if (real) *out = (struct qc_attr){.name = name, .kind = QC_ATTR_FLOATS, .count = v->count, .floats = floats};
        return true;
    case QC_FVALUE_HANDED:
        *out = *v->attr;
        out->name = name;
        return true;
    case QC_FVALUE_ABSENT:
    case QC_FVALUE_TENSOR: break;
    }
    return qc_fail(st, QC_UNSUPPORTED, "attribute '%s' has to be known", name);
}

/* The computed arguments and attributes of an Op(...) {...}. */
struct written {
    struct qc_fvalue args[QC_RULE_ARGS];
    struct qc_attr attrs[QC_RULE_ARGS];
    qc_id inputs[QC_RULE_ARGS];
    bool wanted[QC_EXPANSION_OUTPUTS];
    unsigned attr_count;
    struct qc_call call;
};

static bool write_down(struct written *w, struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    struct qc_fvalue v;
    for (unsigned i = 0; i < e->arg_count; i++)
        if (!qc_expr_evaluate(&w->args[i], f, e->args[i], st)) return false;
    for (unsigned i = 0; i < e->attr_count; i++) {
        if (!qc_expr_evaluate(&v, f, e->attrs[i], st)) return false;
        if (v.kind != QC_FVALUE_ABSENT &&
            !qc_expression_attribute(&w->attrs[w->attr_count++], f->arena, e->attr_names[i], &v, st))
            return false;
    }
    return true;
}

static bool add_op(struct qc_fvalue *first, unsigned outputs, struct qc_frame *f, const struct qc_expr *e,
                   struct qc_status *st)
{
    struct written w = {.attr_count = 0};
    return write_down(&w, f, e, st) &&
           qc_expanding_node(first, f->x, e->op, w.args, e->arg_count, outputs, w.attrs, w.attr_count, st);
}

static bool open_frame(struct qc_frame **out, struct qc_expanding *x, const struct qc_call *c, struct qc_status *st);
static bool output_of(qc_id *out, struct qc_frame *f, unsigned k, struct qc_status *st);

/* Opens a function that this one uses. Its outputs are computed on demand. */
static bool open_function(struct qc_frame **out, unsigned outputs, struct qc_frame *f, const struct qc_expr *e,
                          struct qc_status *st)
{
    struct written *w = QC_NEW(f->arena, struct written, st);
    if (!w || !write_down(w, f, e, st)) return false;
    for (unsigned k = 0; k < outputs; k++) w->wanted[k] = true;
    for (unsigned i = 0; i < e->arg_count; i++) {
        const struct qc_fvalue *v = &w->args[i];
        w->inputs[i] = v->id;
        if (v->kind != QC_FVALUE_TENSOR && v->kind != QC_FVALUE_ABSENT &&
            !qc_expression_constant(&w->inputs[i], f->to, qc_fvalue_dtype(v), v, st))
            return false;
    }
    w->call = (struct qc_call){.op = e->text,
                               .label = f->call->label,
                               .opset = QC_EXPANSION_NEWEST, /* texts are written for the newest opset */
                               .input_count = e->arg_count,
                               .output_count = outputs,
                               .attr_count = w->attr_count,
                               .inputs = w->inputs,
                               .attrs = w->attrs,
                               .wanted = w->wanted};
    if (!open_frame(out, f->x, &w->call, st)) return false;
    return *out || qc_fail(st, QC_UNSUPPORTED, "no function '%.80s' fits this call", e->text);
}

static bool several(struct qc_fvalue *out, struct qc_frame *f, const struct qc_fslot *s, struct qc_status *st)
{
    qc_id id;
    if (s->value->kind == QC_EXPR_OP) {
        if (!add_op(out, s->count, f, s->value, st)) return fail_here(f, s->value, st);
        for (unsigned k = 0; k < s->count; k++) {
            f->value[s->first + k] = qc_fvalue_tensor(out->id + k);
            f->done[s->first + k] = true;
        }
        *out = qc_fvalue_tensor(out->id + s->index);
        return true;
    }
    struct qc_frame **inner = &f->inner[s->first];
    if ((!*inner && !open_function(inner, s->count, f, s->value, st)) || !output_of(&id, *inner, s->index, st))
        return fail_here(f, s->value, st);
    *out = qc_fvalue_tensor(id);
    return true;
}

static bool op_value(struct qc_fvalue *out, struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    struct qc_frame *inner;
    qc_id id;
    if (e->kind == QC_EXPR_OP) return add_op(out, 1, f, e, st);
    if (!open_function(&inner, 1, f, e, st) || !output_of(&id, inner, 0, st)) return false;
    *out = qc_fvalue_tensor(id);
    return true;
}

/* --- Calls --- */

static bool check_call(const struct qc_function_rule *fn, const struct qc_call *c, struct qc_status *st)
{
    if (c->input_count > fn->input_count)
        return qc_fail(st, QC_BAD_INPUT, "has %u inputs, at most %u are handled", c->input_count, fn->input_count);
    for (unsigned i = 0; i < fn->input_count; i++)
        if (!fn->slots[i].optional && (i >= c->input_count || !c->inputs[i]))
            return qc_fail(st, QC_BAD_INPUT, "input %u (%s) is missing", i, fn->slots[i].name);
    for (unsigned i = 0; i < c->attr_count; i++) {
        bool known = false;
        for (unsigned k = fn->input_count; k < fn->slot_count; k++)
            known =
                known || (fn->slots[k].kind == QC_FSLOT_ATTRIBUTE && strcmp(fn->slots[k].name, c->attrs[i].name) == 0);
        if (!known) return qc_fail(st, QC_UNSUPPORTED, "attribute '%.80s' is not handled", c->attrs[i].name);
    }
    for (unsigned k = fn->input_count; k < fn->slot_count; k++) {
        const struct qc_fslot *s = &fn->slots[k];
        bool given = s->kind != QC_FSLOT_ATTRIBUTE || s->optional || s->value;
        for (unsigned i = 0; i < c->attr_count; i++) given = given || strcmp(s->name, c->attrs[i].name) == 0;
        if (!given) return qc_fail(st, QC_BAD_INPUT, "attribute '%s' is missing", s->name);
    }
    for (unsigned k = fn->give_count; k < c->output_count; k++)
        if (c->wanted[k]) return qc_fail(st, QC_UNSUPPORTED, "its output %u is used, which is not handled", k + 1);
    return true;
}

/* *fits: every "when" clause holds. Fails with the text of a "refuse" clause that holds. */
static bool clauses(bool *fits, struct qc_frame *f, struct qc_status *st)
{
    struct qc_fvalue v;
    *fits = true;
    for (unsigned i = 0; i < f->function->clause_count; i++) {
        const struct qc_fclause *c = &f->function->clauses[i];
        if (!qc_expr_evaluate(&v, f, c->condition, st)) return false;
        if (c->refusal && qc_fvalue_holds(&v)) {
            qc_fail(st, QC_UNSUPPORTED, "%s", c->refusal);
            if (f->function->builtin) name_fault(f, c->condition, st);
            return false;
        }
        if (!c->refusal && !qc_fvalue_holds(&v)) {
            *fits = false;
            return true;
        }
    }
    return true;
}

/* *out: a frame of the first function that fits, or NULL. */
static bool find_function(struct qc_frame **out, struct qc_expanding *x, const struct qc_call *c, struct qc_status *st)
{
    for (size_t i = 0; i < x->rules->function_count; i++) {
        const struct qc_function_rule *fn = &x->rules->functions[i];
        if (strcmp(fn->name, c->op) != 0 || c->opset < fn->opset_from || c->opset > fn->opset_to) continue;
        if (++x->calls > QC_EXPANSION_CALLS)
            return qc_fail(st, QC_BAD_INPUT, "functions that use each other more than %d times",
                           (int)QC_EXPANSION_CALLS);
        static const struct qc_scope scope = {slot_value, op_value, fail_here};
        struct qc_frame *f = QC_NEW(x->arena, struct qc_frame, st);
        if (!f) return false;
        *f = (struct qc_frame){.scope = &scope,
                               .to = x->g,
                               .arena = x->arena,
                               .x = x,
                               .function = fn,
                               .call = c,
                               .done = QC_NEW_ARRAY(x->arena, bool, fn->slot_count, st),
                               .value = QC_NEW_ARRAY(x->arena, struct qc_fvalue, fn->slot_count, st),
                               .inner = QC_NEW_ARRAY(x->arena, struct qc_frame *, fn->slot_count, st)};
        bool fits;
        if (!f->done || !f->value || !f->inner || !clauses(&fits, f, st)) return false;
        if (!fits) continue;
        *out = f;
        return check_call(fn, c, st);
    }
    *out = NULL;
    return true;
}

static bool deeper(struct qc_expanding *x, struct qc_status *st)
{
    return ++x->depth <= QC_EXPANSION_DEPTH || qc_fail(st, QC_BAD_INPUT, "functions that use each other too deep");
}

static bool open_frame(struct qc_frame **out, struct qc_expanding *x, const struct qc_call *c, struct qc_status *st)
{
    const bool ok = deeper(x, st) && find_function(out, x, c, st);
    x->depth--;
    return ok;
}

static bool compute_output(qc_id *out, struct qc_frame *f, unsigned k, struct qc_status *st)
{
    const struct qc_expr *e = f->function->give[k];
    struct qc_fvalue v;
    if (!qc_expr_evaluate(&v, f, e, st)) return false;
    if (v.kind == QC_FVALUE_ABSENT) {
        qc_fail(st, QC_UNSUPPORTED, "its output %u is used, which is not handled", k + 1);
        return fail_here(f, e, st);
    }
    *out = v.id;
    return v.kind == QC_FVALUE_TENSOR || qc_expression_constant(out, f->to, qc_fvalue_dtype(&v), &v, st) ||
           fail_here(f, e, st);
}

static bool output_of(qc_id *out, struct qc_frame *f, unsigned k, struct qc_status *st)
{
    const bool ok = deeper(f->x, st) && compute_output(out, f, k, st);
    f->x->depth--;
    return ok;
}

static bool expand_call(qc_id *outputs, bool *fits, struct qc_expanding *x, const struct qc_call *c,
                        struct qc_status *st)
{
    struct qc_frame *f = NULL;
    if (!open_frame(&f, x, c, st)) return false;
    *fits = f != NULL;
    for (unsigned k = 0; f && k < c->output_count; k++)
        if (c->wanted[k] && !output_of(&outputs[k], f, k, st)) return false;
    return true;
}

static bool knows(const void *user, const char *op, int opset)
{
    const struct qc_rules *r = user;
    for (size_t i = 0; i < r->function_count; i++)
        if (strcmp(r->functions[i].name, op) == 0 && opset >= r->functions[i].opset_from &&
            opset <= r->functions[i].opset_to)
            return true;
    return false;
}

static bool expand(qc_id *outputs, bool *fits, const void *user, struct qc_graph *g, const struct qc_call *call,
                   struct qc_status *st)
{
    enum { LEAST = 1 << 17, TIMES = 16 }; /* a node of a file has 20 bytes or more */
    if (g->value_count > LEAST && (g->value_count - LEAST) / TIMES > g->budget.model_bytes)
        return qc_fail(st, QC_BAD_INPUT,
                       "the functions of rules come to more than %d values and %d for each byte of "
                       "the model",
                       (int)LEAST, (int)TIMES);
    struct qc_expanding x = {.rules = user, .g = g, .call = call, .arena = qc_arena_new()};
    const bool ok = x.arena ? expand_call(outputs, fits, &x, call, st) : qc_fail_memory(st, 1);
    qc_arena_free(x.arena);
    return ok;
}

struct qc_expander qc_rules_expander(const struct qc_rules *r)
{
    return (struct qc_expander){.user = r, .knows = knows, .expand = expand};
}

struct qc_function_info qc_rules_function(const struct qc_rules *r, size_t i)
{
    const struct qc_function_rule *f = &r->functions[i];
    return (struct qc_function_info){
        .name = f->name, .file = f->file, .line = f->line, .opset_from = f->opset_from, .opset_to = f->opset_to};
}
