// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/hdf5/reader_process.h"

static bool give_many(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    (void)state, (void)arguments, (void)size;
    char *bytes = qc_reply_add(out, 100, st);
    if (bytes) memset(bytes, 1, 100);
    return bytes;
}

Test(reader_process, one_thread_without_memory_is_no_damage_to_another)
{
    char few[10];
    struct qc_process *p;
    struct qc_status st = QC_STATUS_INIT, later = QC_STATUS_INIT;
    struct qc_reply small = {.data = few, .capacity = sizeof few, .fixed = true}, whole = {.data = NULL};
    cr_assert(qc_process_start(&p, &st));
    cr_expect(!qc_process_ask(&small, p, give_many, "", 0, 0, &st));
    cr_expect_eq(st.code, QC_MACHINE, "%s", st.message);
    cr_expect(!qc_process_ask(&whole, p, give_many, "", 0, 0, &later));
    cr_expect_eq(later.code, QC_MACHINE, "%s", later.message);
    free(whole.data);
    qc_process_end(p);
}
