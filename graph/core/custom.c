// SPDX-License-Identifier: Apache-2.0
#include "graph/core/custom.h"

#include <stdlib.h>
#include <string.h>

#include "base/user_code.h"

enum { OPERANDS_MAX = 64 };

struct custom {
    void *library;
    const struct qcalib_kernel *kernel;
};

struct qc_custom_ops {
    size_t count;
    struct custom *items;
    _Atomic unsigned references; /* graphs in several threads may share it */
};

struct qc_custom_ops *qc_custom_ops_new(struct qc_status *st)
{
    struct qc_custom_ops *c = calloc(1, sizeof *c);
    if (c)
        c->references = 1;
    else
        qc_fail_memory(st, sizeof *c);
    return c;
}

struct qc_custom_ops *qc_custom_ops_ref(const struct qc_custom_ops *c)
{
    struct qc_custom_ops *u = (struct qc_custom_ops *)(uintptr_t)c;
    if (u) u->references++;
    return u;
}

void qc_custom_ops_unref(struct qc_custom_ops *c)
{
    if (!c || --c->references) return;
    for (size_t i = 0; i < c->count; i++) qc_shared_object_close(c->items[i].library);
    free(c->items);
    free(c);
}

const struct qcalib_kernel *qc_custom_find(const struct qc_custom_ops *c, const char *op)
{
    /* "Scale", "::Scale" and "ai.onnx::Scale" are equal. */
    const char *colons = strstr(op, "::"), *name = colons ? colons + 2 : op;
    const size_t n = colons ? (size_t)(colons - op) : 0;
    for (size_t i = 0; c && i < c->count; i++) {
        const struct qcalib_kernel *k = c->items[i].kernel;
        const char *domain = strcmp(k->domain, "ai.onnx") == 0 ? "" : k->domain;
        if (strcmp(name, k->op) == 0 && strlen(domain) == n && memcmp(domain, op, n) == 0) return k;
    }
    return NULL;
}

static bool check(const struct qc_custom_ops *all, const char *file, const struct qcalib_kernel *k,
                  struct qc_status *st)
{
    if (k->abi != QCALIB_KERNEL_ABI)
        return qc_fail(st, QC_BAD_INPUT,
                       "kernel %s: made for version %u of the interface, this program has version %u; build it with "
                       "this program's qcalib_kernel.h",
                       file, (unsigned)k->abi, (unsigned)QCALIB_KERNEL_ABI);
    if (!k->domain || !k->op || !*k->op)
        return qc_fail(st, QC_BAD_INPUT, "kernel %s: it does not name its domain and operator", file);
    if (!k->shape || !k->compute)
        return qc_fail(st, QC_BAD_INPUT, "kernel %s: '%s' has no function '%s'", file, k->op,
                       k->shape ? "compute" : "shape");
    if (k->inputs_min > k->inputs_max || k->inputs_max > OPERANDS_MAX || !k->outputs_max ||
        k->outputs_max > OPERANDS_MAX)
        return qc_fail(st, QC_BAD_INPUT,
                       "kernel %s: '%s' may have 0 to %d inputs, the least first, and 1 to %d outputs", file, k->op,
                       (int)OPERANDS_MAX, (int)OPERANDS_MAX);
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].kernel->op, k->op) == 0 && strcmp(all->items[i].kernel->domain, k->domain) == 0)
            return qc_fail(st, QC_BAD_INPUT, "kernel %s: there is a kernel for %s::%s already", file, k->domain, k->op);
    return true;
}

bool qc_custom_ops_load(struct qc_custom_ops *c, const char *file, struct qc_status *st)
{
    struct custom one, *more = realloc(c->items, (c->count + 1) * sizeof *more);
    const void *entry;
    if (!more) return qc_fail_memory(st, (c->count + 1) * sizeof *more);
    c->items = more;
    if (!qc_shared_object_open(&one.library, &entry, "kernel", file, "qcalib_kernel_entry", "qcalib_kernel.h", st))
        return false;
    one.kernel = entry;
    const bool ok = check(c, file, one.kernel, st);
    if (ok)
        c->items[c->count++] = one;
    else
        qc_shared_object_close(one.library);
    return ok;
}

bool qc_custom_is_own(const struct qc_attr *a)
{
    return strcmp(a->name, QC_CUSTOM_DOMAIN) == 0 || strcmp(a->name, QC_CUSTOM_OP) == 0 ||
           strcmp(a->name, QC_CUSTOM_VERSION) == 0 || strcmp(a->name, QC_CUSTOM_TYPES) == 0;
}

const char *qc_custom_name(const struct qc_node *n, struct qc_arena *a, struct qc_status *st)
{
    const char *domain = qc_attr_string(n, QC_CUSTOM_DOMAIN, "");
    if (n->op != QC_OP_Custom) return qc_arena_strdup(a, qc_op_info(n->op)->name, st);
    return qc_arena_printf(a, st, "%s%s%s", domain, *domain ? "::" : "", qc_attr_string(n, QC_CUSTOM_OP, ""));
}

bool qc_custom_kernel(const struct qcalib_kernel **out, const struct qc_graph *g, const struct qc_node *n,
                      struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    const char *name = qc_custom_name(n, a, st);
    *out = name ? qc_custom_find(g->custom, name) : NULL;
    return *out || qc_fail(st, QC_UNSUPPORTED, "there is no kernel for '%.200s'", name ? name : "");
}

static void describe(struct qcalib_kernel_tensor *to, enum qc_dtype dtype, const struct qc_shape *s, void *data)
{
    *to = (struct qcalib_kernel_tensor){.type = qc_dtype_info(dtype)->onnx, .rank = s->rank, .data = data};
    for (int i = 0; i < s->rank; i++) to->dims[i] = s->dim[i];
}

bool qc_custom_call(struct qcalib_kernel_call *out, const struct qc_graph *g, const struct qc_node *n,
                    struct qc_arena *a, struct qc_status *st)
{
    struct qcalib_kernel_tensor *in = QC_NEW_ARRAY(a, struct qcalib_kernel_tensor, n->input_count, st),
                                *to = QC_NEW_ARRAY(a, struct qcalib_kernel_tensor, n->output_count, st);
    struct qcalib_kernel_attribute *attrs = QC_NEW_ARRAY(a, struct qcalib_kernel_attribute, n->attr_count, st);
    uint32_t count = 0;
    if (!in || !to || !attrs) return false;
    for (unsigned i = 0; i < n->input_count; i++) {
        in[i] = (struct qcalib_kernel_tensor){.rank = -1};
        if (!n->inputs[i]) continue;
        const struct qc_type *t = &g->values[n->inputs[i]].type;
        const struct qc_tensor *constant = qc_constant_of(g, n->inputs[i]);
        if (qc_dtype_info(t->dtype)->bits < 8)
            return qc_fail(st, QC_UNSUPPORTED, "input %u is of type %s, which kernels cannot take", i,
                           qc_dtype_info(t->dtype)->name);
        describe(&in[i], t->dtype, &t->shape, constant ? constant->data : NULL);
    }
    for (unsigned i = 0; i < n->output_count; i++) to[i] = (struct qcalib_kernel_tensor){.rank = -1};
    static const int32_t kinds[] = {[QC_ATTR_INT] = QCALIB_KERNEL_INT,       [QC_ATTR_INTS] = QCALIB_KERNEL_INTS,
                                    [QC_ATTR_FLOAT] = QCALIB_KERNEL_FLOAT,   [QC_ATTR_FLOATS] = QCALIB_KERNEL_FLOATS,
                                    [QC_ATTR_STRING] = QCALIB_KERNEL_STRING, [QC_ATTR_STRINGS] = QCALIB_KERNEL_STRINGS,
                                    [QC_ATTR_TENSOR] = QCALIB_KERNEL_TENSOR};
    for (unsigned i = 0; i < n->attr_count; i++) {
        const struct qc_attr *from = &n->attrs[i];
        const enum qc_attr_kind kind = from->kind;
        const bool list = kind == QC_ATTR_INTS || kind == QC_ATTR_FLOATS || kind == QC_ATTR_STRINGS;
        if (qc_custom_is_own(from)) continue;
        if (kind == QC_ATTR_GRAPH) return qc_fail(st, QC_UNSUPPORTED, "kernels cannot take graphs as attributes");
        struct qcalib_kernel_attribute *attr = &attrs[count++];
        *attr =
            (struct qcalib_kernel_attribute){.name = from->name, .kind = kinds[kind], .count = list ? from->count : 1};
        if (kind == QC_ATTR_INT || kind == QC_ATTR_INTS) {
            attr->ints = list ? from->ints : &from->i;
        } else if (kind == QC_ATTR_FLOAT || kind == QC_ATTR_FLOATS) {
            attr->floats = list ? from->floats : &from->f;
        } else if (kind == QC_ATTR_STRING || kind == QC_ATTR_STRINGS) {
            attr->strings = list ? from->strings : &from->s;
        } else {
            struct qcalib_kernel_tensor *t = QC_NEW(a, struct qcalib_kernel_tensor, st);
            if (!t) return false;
            describe(t, from->tensor->dtype, &from->tensor->shape, from->tensor->data);
            attr->tensor = t;
        }
    }
    *out = (struct qcalib_kernel_call){.input_count = n->input_count,
                                       .output_count = n->output_count,
                                       .attribute_count = count,
                                       .inputs = in,
                                       .outputs = to,
                                       .attributes = attrs};
    return true;
}
