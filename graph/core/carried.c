// SPDX-License-Identifier: Apache-2.0
#include "graph/core/carried.h"

#include <stdlib.h>
#include <string.h>

enum { KINDS = 64 };

struct kind {
    const struct qc_carried_node *first;
    size_t count;
};

struct qc_carried *qc_carried_new(struct qc_status *st)
{
    struct qc_carried *c = calloc(1, sizeof *c);
    if (c && !(c->arena = qc_arena_new())) {
        free(c);
        c = NULL;
    }
    if (!c) {
        qc_fail_memory(st, sizeof *c);
        return NULL;
    }
    c->references = 1;
    return c;
}

struct qc_carried *qc_carried_ref(const struct qc_carried *c)
{
    struct qc_carried *u = (struct qc_carried *)(uintptr_t)c;
    if (u) u->references++;
    return u;
}

void qc_carried_unref(struct qc_carried *c)
{
    if (!c || --c->references) return;
    for (size_t i = 0; i < c->constant_count; i++)
        qc_tensor_unref((struct qc_tensor *)(uintptr_t)c->constants[i].tensor);
    qc_arena_free(c->arena);
    free(c);
}

static void append(char list[QC_CARRIED_TEXT], size_t *n, const char *text)
{
    size_t k = strlen(text);
    if (k > QC_CARRIED_TEXT - 1 - *n) k = QC_CARRIED_TEXT - 1 - *n;
    memcpy(list + *n, text, k);
    *n += k;
    list[*n] = '\0';
}

const char *qc_carried_text(char list[QC_CARRIED_TEXT], const struct qc_carried *c)
{
    enum { ITEM = 640 };
    char item[ITEM];
    struct kind of[KINDS];
    size_t count = 0, n = 0, left = 0; /* left: nodes beyond the table or the text */
    for (size_t i = 0; i < c->node_count; i++) {
        size_t k = 0;
        if (!c->nodes[i].unknown) continue;
        const struct qc_carried_node *x = &c->nodes[i];
        for (; k < count; k++) {
            const char *detail = of[k].first->detail;
            if (strcmp(of[k].first->op, x->op) == 0 && strcmp(of[k].first->domain, x->domain) == 0 &&
                (detail == x->detail || (detail && x->detail && strcmp(detail, x->detail) == 0)))
                break;
        }
        if (k < count)
            of[k].count++;
        else if (k == KINDS)
            left++;
        else
            of[count++] = (struct kind){.first = x, .count = 1};
    }
    list[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const struct qc_carried_node *x = of[i].first;
        const bool one = of[i].count == 1;
        if (n > QC_CARRIED_TEXT - ITEM) {
            left += of[i].count;
            continue;
        }
        append(list, &n,
               qc_text(item, sizeof item, "%s%.80s%s%.80s (%zu %s'%.120s'%s%.200s)", i ? ", " : "", x->domain,
                       *x->domain ? "::" : "", x->op, of[i].count, one ? "node, " : "nodes, the first is ", x->name,
                       x->detail ? ": " : "", x->detail ? x->detail : ""));
    }
    if (left) append(list, &n, qc_text(item, sizeof item, " and %zu more nodes", left));
    return list;
}

const char *qc_carried_reason(const struct qc_carried_node *n, struct qc_arena *a, struct qc_status *st)
{
    if (!n->unknown) return qc_arena_printf(a, st, "follows from '%s', carried through", n->detail);
    return qc_arena_printf(a, st, "not computed here, carried through: %s",
                           n->detail ? n->detail : "there is no kernel for it");
}
