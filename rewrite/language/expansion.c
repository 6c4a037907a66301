// SPDX-License-Identifier: Apache-2.0
#include "rewrite/language/expansion.h"

#include <string.h>

#include "graph/types/number_format.h"
#include "rewrite/language/expansion_parts.h"

/* Nodes and constants of an expanded function. */

/* Returns false for types of few bits. The low bytes of an integer are its value in any smaller type. */
static bool store_number(char *to, enum qc_dtype dtype, struct qc_number n)
{
    const struct qc_dtype_info *t = qc_dtype_info(dtype);
    const double f = qc_number_double(n);
    const float single = (float)f;
    const uint16_t half = dtype == QC_F16 ? qc_float_to_half(single) : qc_float_to_bfloat(single);
    int64_t v = n.real ? (f > -0x1p63 && f < 0x1p63 ? (int64_t)f : 0) : n.i;
    if (dtype == QC_BOOL) v = f != 0;
    if (t->bits < 8 || (t->is_float && t->bits == 8)) return false;
    memcpy(to,
           !t->is_float      ? (const void *)&v
           : dtype == QC_F32 ? &single
           : dtype == QC_F64 ? (const void *)&f
                             : &half,
           t->size);
    return true;
}

qc_id qc_expression_constant(struct qc_frame *f, enum qc_dtype dtype, const struct qc_fvalue *v)
{
    const bool list = v->kind == QC_FVALUE_LIST;
    const size_t count = list ? v->count : 1, size = qc_dtype_size(dtype);
    const struct qc_shape shape = {.rank = list, .dim = {list ? (int64_t)count : 0}};
    if (!list && v->kind != QC_FVALUE_NUMBER)
        qc_expression_fail(f, QC_BAD_INPUT,
                           v->kind == QC_FVALUE_TEXT ? "a number or a list was expected, got a text"
                                                     : "a number or a list was expected, got nothing");
    struct qc_tensor *t = f->st->code == QC_OK ? qc_tensor_new(dtype, &shape, f->st) : NULL;
    for (size_t i = 0; t && i < count; i++)
        if (!store_number((char *)t->data + i * size, dtype, list ? v->items[i] : v->number))
            qc_fail(f->st, QC_UNSUPPORTED, "numbers of type %s are not handled here", qc_dtype_info(dtype)->name);
    return qc_graph_add_made_constant(f->to, NULL, t, f->st);
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

struct qc_fvalue qc_expanding_node_with(struct qc_frame *f, enum qc_op op, unsigned arg_count,
                                        const struct qc_fvalue *args, unsigned outputs, unsigned attr_count,
                                        const struct qc_attr *attrs)
{
    struct qc_expanding *x = f->x;
    qc_id in[QC_RULE_ARGS];
    if (f->st->code != QC_OK) return qc_fvalue_tensor(0);
    enum qc_dtype like = QC_NONE;
    const unsigned first = op == QC_OP_Where ? 1 : 0;
    for (unsigned i = first; i < arg_count && like == QC_NONE; i++)
        if (args[i].kind == QC_FVALUE_TENSOR) like = f->to->values[args[i].id].type.dtype;
    for (unsigned i = 0; i < arg_count; i++) {
        const bool follows = (same_types(op) && i >= first) || (op == QC_OP_Pad && i == 2);
        const bool made = args[i].kind == QC_FVALUE_TENSOR || args[i].kind == QC_FVALUE_ABSENT;
        in[i] =
            made ? args[i].id
                 : qc_expression_constant(f, follows && like != QC_NONE ? like : qc_fvalue_dtype(&args[i]), &args[i]);
    }
    while (arg_count && !in[arg_count - 1]) arg_count--;
    const unsigned k = x->used[op]++;
    const char *name = k ? qc_arena_printf(x->arena, f->st, "%s/%s_%u", x->call->label, qc_op_info(op)->name, k)
                         : qc_arena_printf(x->arena, f->st, "%s/%s", x->call->label, qc_op_info(op)->name);
    const struct qc_node_def def = {.op = op,
                                    .name = name,
                                    .input_count = arg_count,
                                    .output_count = outputs,
                                    .inputs = in,
                                    .attr_count = attr_count,
                                    .attrs = attrs};
    return qc_fvalue_tensor(qc_graph_add(f->to, &def, f->st));
}

struct qc_fvalue qc_expanding_node(struct qc_frame *f, enum qc_op op, unsigned arg_count, const struct qc_fvalue *args)
{
    return qc_expanding_node_with(f, op, arg_count, args, 1, 0, NULL);
}

struct qc_fvalue qc_expanding_concat(struct qc_frame *f, const struct qc_fvalue *items, size_t count)
{
    struct qc_fvalue parts[QC_RULE_ARGS];
    struct qc_number *run;
    const struct qc_attr axis = QC_INT("axis", 0);
    size_t filled = 0;
    unsigned n = 0;
    qc_expression_list(&run, f, count);
    for (size_t i = 0; run && i < count; i++) {
        const bool number = items[i].kind == QC_FVALUE_NUMBER;
        const bool joins = number && n && parts[n - 1].kind == QC_FVALUE_LIST;
        if (!number && items[i].kind != QC_FVALUE_TENSOR)
            return qc_expression_fail(f, QC_BAD_INPUT, "a list of numbers and sizes was expected");
        if (n == QC_RULE_ARGS && !joins) return qc_expression_fail(f, QC_UNSUPPORTED, "a shape of too many parts");
        if (joins)
            parts[n - 1].count++;
        else
            parts[n++] =
                number ? (struct qc_fvalue){.kind = QC_FVALUE_LIST, .count = 1, .items = run + filled} : items[i];
        if (number) run[filled++] = items[i].number;
    }
    return n == 1 ? parts[0] : qc_expanding_node_with(f, QC_OP_Concat, n, parts, 1, 1, &axis);
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

/* Adds to a failure in a built-in function what it is of, at its innermost expression: prefixes st's message with the
   inputs and attributes of the call in the file. */
static void name_fault(const struct qc_frame *f, const struct qc_expr *e)
{
    struct qc_expanding *x = f->x;
    const struct qc_fault inner = x->fault;
    char list[QC_EXPANSION_NAMES] = "";
    struct qc_status memory = QC_STATUS_INIT;
    if (inner.frame == f) return;
    x->fault = (struct qc_fault){f, QC_NEW_ARRAY(x->arena, bool, f->function->slot_count, &memory)};
    if (!x->fault.met) return;
    if (inner.met && e->kind == QC_EXPR_FUNCTION && strcmp(e->text, inner.frame->function->name) == 0) {
        for (unsigned k = 0; k < inner.frame->function->slot_count; k++) {
            const struct qc_fslot *s = &inner.frame->function->slots[k];
            if (inner.met[k] && s->kind == QC_FSLOT_INPUT && k < e->arg_count) mark_slots(x->fault.met, f, e->args[k]);
            for (unsigned i = 0; inner.met[k] && s->kind == QC_FSLOT_ATTRIBUTE && i < e->attr_count; i++)
                if (strcmp(e->attr_names[i], s->name) == 0) mark_slots(x->fault.met, f, e->attrs[i]);
        }
    } else
        mark_slots(x->fault.met, f, e);
    for (unsigned k = 0; f->call == x->call && k < f->function->slot_count; k++) {
        const struct qc_fslot *s = &f->function->slots[k];
        const size_t at = strlen(list);
        if (x->fault.met[k] && s->kind != QC_FSLOT_LET)
            qc_text(list + at, (unsigned)(sizeof list - at), "%s%s", at ? ", " : "", s->name);
    }
    if (*list) qc_where(f->st, "its %s", list);
}

/* Adds the place of an expression to the message: in a function of --rules "FILE:LINE:COLUMN: ". */
static void fail_here(const struct qc_frame *f, const struct qc_expr *e)
{
    if (f->function->builtin)
        name_fault(f, e);
    else if (strncmp(f->st->message, f->function->file, strlen(f->function->file)) != 0) /* not of an inner one */
        qc_where(f->st, "%s:%u:%u", f->function->file, e->line, e->column);
}

/* --- Names --- */

static struct qc_fvalue from_attribute(struct qc_frame *f, const struct qc_attr *a)
{
    struct qc_number *items;
    switch (a->kind) {
    case QC_ATTR_INT: return qc_fvalue_whole(a->i);
    case QC_ATTR_FLOAT: return qc_fvalue_real((double)a->f);
    case QC_ATTR_STRING: return (struct qc_fvalue){.kind = QC_FVALUE_TEXT, .text = a->s};
    case QC_ATTR_STRINGS:
    case QC_ATTR_TENSOR: return (struct qc_fvalue){.kind = QC_FVALUE_HANDED, .attr = a};
    case QC_ATTR_INTS:
    case QC_ATTR_FLOATS: break;
    case QC_ATTR_GRAPH:
        qc_fail(f->st, QC_UNSUPPORTED, "attribute '%.80s' is of a kind that functions do not handle", a->name);
        return qc_fvalue_tensor(0);
    }
    if (a->count > QC_EXPANSION_GIVEN)
        qc_fail(f->st, QC_UNSUPPORTED, "attribute '%.80s' has more than %d elements", a->name, (int)QC_EXPANSION_GIVEN);
    const struct qc_fvalue out = qc_expression_list(&items, f, a->count);
    for (size_t i = 0; i < out.count; i++)
        items[i] = a->kind == QC_ATTR_INTS ? qc_number_whole(a->ints[i]) : qc_number_real((double)a->floats[i]);
    return out;
}

static struct qc_fvalue several(struct qc_frame *f, const struct qc_fslot *s);

static struct qc_fvalue slot_value(struct qc_frame *f, unsigned k)
{
    const struct qc_fslot *s = &f->function->slots[k];
    const struct qc_attr *a = NULL;
    struct qc_fvalue v = qc_fvalue_tensor(0);
    if (f->done[k]) return f->value[k];
    for (unsigned i = 0; s->kind == QC_FSLOT_ATTRIBUTE && i < f->call->attr_count; i++)
        if (strcmp(f->call->attrs[i].name, s->name) == 0) a = &f->call->attrs[i];
    if (s->kind == QC_FSLOT_INPUT && s->index < f->call->input_count)
        v = qc_fvalue_tensor(f->call->inputs[s->index]);
    else if (a)
        v = from_attribute(f, a);
    else if (s->kind == QC_FSLOT_LET && s->count > 1)
        v = several(f, s);
    else if (s->value)
        v = qc_expr_evaluate(f, s->value);
    f->value[k] = v;
    f->done[k] = f->st->code == QC_OK;
    return v;
}

/* --- Ops and functions --- */

struct qc_attr qc_expression_attribute(struct qc_frame *f, const char *name, const struct qc_fvalue *v)
{
    int64_t *ints = QC_NEW_ARRAY(f->arena, int64_t, v->count, f->st);
    float *floats = QC_NEW_ARRAY(f->arena, float, v->count, f->st);
    struct qc_attr handed;
    bool real = false;
    switch (v->kind) {
    case QC_FVALUE_NUMBER: return v->number.real ? QC_FLOAT(name, (float)v->number.f) : QC_INT(name, v->number.i);
    case QC_FVALUE_TEXT: return QC_STRING(name, v->text);
    case QC_FVALUE_LIST:
        for (size_t i = 0; ints && floats && i < v->count; i++) {
            real = real || v->items[i].real;
            ints[i] = v->items[i].i;
            floats[i] = (float)qc_number_double(v->items[i]);
        }
        return real ? (struct qc_attr){.name = name, .kind = QC_ATTR_FLOATS, .count = v->count, .floats = floats}
                    : QC_INTS(name, v->count, ints);
    case QC_FVALUE_HANDED:
        handed = *v->attr;
        handed.name = name;
        return handed;
    case QC_FVALUE_ABSENT:
    case QC_FVALUE_TENSOR: break;
    }
    qc_fail(f->st, QC_UNSUPPORTED, "attribute '%s' has to be known", name);
    return QC_INT(name, 0);
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

static void write_down(struct written *w, struct qc_frame *f, const struct qc_expr *e)
{
    for (unsigned i = 0; i < e->arg_count; i++) w->args[i] = qc_expr_evaluate(f, e->args[i]);
    for (unsigned i = 0; i < e->attr_count; i++) {
        const struct qc_fvalue v = qc_expr_evaluate(f, e->attrs[i]);
        if (v.kind != QC_FVALUE_ABSENT) w->attrs[w->attr_count++] = qc_expression_attribute(f, e->attr_names[i], &v);
    }
}

static struct qc_fvalue add_expanded(struct qc_frame *f, const struct qc_expr *e, unsigned outputs)
{
    struct written w = {.attr_count = 0};
    write_down(&w, f, e);
    return qc_expanding_node_with(f, e->op, e->arg_count, w.args, outputs, w.attr_count, w.attrs);
}

static struct qc_frame *open_frame(struct qc_expanding *x, const struct qc_call *c, struct qc_status *st);
static qc_id output_of(struct qc_frame *f, unsigned k);

/* Opens a function that this one uses. Its outputs are computed on demand. NULL: it fails. */
static struct qc_frame *open_function(struct qc_frame *f, const struct qc_expr *e, unsigned outputs)
{
    struct written *w = QC_NEW(f->arena, struct written, f->st);
    if (!w) return NULL;
    write_down(w, f, e);
    for (unsigned k = 0; k < outputs; k++) w->wanted[k] = true;
    for (unsigned i = 0; i < e->arg_count; i++) {
        const struct qc_fvalue *v = &w->args[i];
        w->inputs[i] = v->kind == QC_FVALUE_TENSOR || v->kind == QC_FVALUE_ABSENT
                           ? v->id
                           : qc_expression_constant(f, qc_fvalue_dtype(v), v);
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
    struct qc_frame *inner = open_frame(f->x, &w->call, f->st);
    if (!inner) qc_fail(f->st, QC_UNSUPPORTED, "no function '%.80s' fits this call", e->text);
    return inner;
}

/* The value of one of several names, which are the outputs of an op or a function. */
static struct qc_fvalue several(struct qc_frame *f, const struct qc_fslot *s)
{
    struct qc_frame **inner = &f->inner[s->first];
    struct qc_fvalue v = qc_fvalue_tensor(0);
    if (s->value->kind == QC_EXPR_OP) {
        v = add_expanded(f, s->value, s->count);
        for (unsigned k = 0; v.id && k < s->count; k++) {
            f->value[s->first + k] = qc_fvalue_tensor(v.id + k);
            f->done[s->first + k] = true;
        }
        v = qc_fvalue_tensor(v.id ? v.id + s->index : 0);
    } else if (*inner || (*inner = open_function(f, s->value, s->count))) {
        v = qc_fvalue_tensor(output_of(*inner, s->index));
    }
    if (f->st->code != QC_OK) fail_here(f, s->value);
    return v;
}

static struct qc_fvalue op_value(struct qc_frame *f, const struct qc_expr *e)
{
    if (e->kind == QC_EXPR_OP) return add_expanded(f, e, 1);
    struct qc_frame *inner = open_function(f, e, 1);
    return qc_fvalue_tensor(inner ? output_of(inner, 0) : 0);
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

/* Returns true if every "when" clause holds. Fails with the text of a "refuse" clause that holds. */
static bool clauses_hold(struct qc_frame *f)
{
    for (unsigned i = 0; i < f->function->clause_count; i++) {
        const struct qc_fclause *c = &f->function->clauses[i];
        const struct qc_fvalue v = qc_expr_evaluate(f, c->condition);
        if (f->st->code != QC_OK) return false;
        if (c->refusal && qc_fvalue_holds(&v)) {
            qc_expression_fail(f, QC_UNSUPPORTED, c->refusal);
            if (f->function->builtin) name_fault(f, c->condition);
            return false;
        }
        if (!c->refusal && !qc_fvalue_holds(&v)) return false;
    }
    return true;
}

/* Returns a frame of the first function that fits, or NULL. */
static struct qc_frame *find_function(struct qc_expanding *x, const struct qc_call *c, struct qc_status *st)
{
    static const struct qc_scope scope = {slot_value, op_value, fail_here};
    for (size_t i = 0; st->code == QC_OK && i < x->rules->function_count; i++) {
        const struct qc_function_rule *fn = &x->rules->functions[i];
        if (strcmp(fn->name, c->op) != 0 || c->opset < fn->opset_from || c->opset > fn->opset_to) continue;
        if (++x->calls > QC_EXPANSION_CALLS)
            qc_fail(st, QC_BAD_INPUT, "functions that use each other more than %d times", (int)QC_EXPANSION_CALLS);
        struct qc_frame *f = QC_NEW(x->arena, struct qc_frame, st);
        if (!f) return NULL;
        *f = (struct qc_frame){.scope = &scope,
                               .st = st,
                               .to = x->g,
                               .arena = x->arena,
                               .x = x,
                               .function = fn,
                               .call = c,
                               .done = QC_NEW_ARRAY(x->arena, bool, fn->slot_count, st),
                               .value = QC_NEW_ARRAY(x->arena, struct qc_fvalue, fn->slot_count, st),
                               .inner = QC_NEW_ARRAY(x->arena, struct qc_frame *, fn->slot_count, st)};
        if (f->done && f->value && f->inner && st->code == QC_OK && clauses_hold(f))
            return check_call(fn, c, st) ? f : NULL;
    }
    return NULL;
}

static void deeper(struct qc_expanding *x, struct qc_status *st)
{
    if (++x->depth > QC_EXPANSION_DEPTH) qc_fail(st, QC_BAD_INPUT, "functions that use each other too deep");
}

static struct qc_frame *open_frame(struct qc_expanding *x, const struct qc_call *c, struct qc_status *st)
{
    deeper(x, st);
    struct qc_frame *f = find_function(x, c, st);
    x->depth--;
    return f;
}

static qc_id output_of(struct qc_frame *f, unsigned k)
{
    const struct qc_expr *e = f->function->give[k];
    deeper(f->x, f->st);
    const struct qc_fvalue v = qc_expr_evaluate(f, e);
    f->x->depth--;
    if (f->st->code != QC_OK || v.kind == QC_FVALUE_TENSOR) return v.id;
    if (v.kind == QC_FVALUE_ABSENT)
        qc_fail(f->st, QC_UNSUPPORTED, "its output %u is used, which is not handled", k + 1);
    const qc_id id = qc_expression_constant(f, qc_fvalue_dtype(&v), &v);
    if (f->st->code != QC_OK) fail_here(f, e);
    return id;
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
    struct qc_frame *f = x.arena ? open_frame(&x, call, st) : NULL;
    if (!x.arena) qc_fail_memory(st, 1);
    for (unsigned k = 0; f && k < call->output_count; k++)
        if (call->wanted[k]) outputs[k] = output_of(f, k);
    *fits = f != NULL;
    qc_arena_free(x.arena);
    return st->code == QC_OK;
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
