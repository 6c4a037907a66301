// SPDX-License-Identifier: Apache-2.0
/* Forms kept with a constant: found by key, computed once, freed with the tensor (sanitizers check leaks). */
#include "graph/types/tensor.h"
#include "tests/check.h"

static void *text(const char *s)
{
    char *copy = malloc(strlen(s) + 1);
    cr_assert(copy);
    return memcpy(copy, s, strlen(s) + 1);
}

Test(tensor_forms, are_found_by_all_of_their_key)
{
    struct qc_shape shape = QC_SHAPE(2);
    OWN(qc_tensor) *t = qc_tensor_new(QC_I8, &shape, ST);
    const void *one, *other, *again;
    cr_assert(t);
    cr_expect_null(qc_tensor_form(t, "a", 1), "a tensor that keeps none has some");
    MUST(qc_tensor_keep_forms(t, ST));
    MUST(qc_tensor_add_form(&one, t, "a", 1, text("one"), ST));
    MUST(qc_tensor_add_form(&other, t, "ab", 2, text("other"), ST));
    MUST(qc_tensor_add_form(&again, t, "a", 1, text("again"), ST));
    cr_expect(again == one, "two forms have one key");
    cr_expect_str_eq(qc_tensor_form(t, "a", 1), "one");
    cr_expect_str_eq(qc_tensor_form(t, "ab", 2), "other");
    cr_expect_null(qc_tensor_form(t, "b", 1));
}
