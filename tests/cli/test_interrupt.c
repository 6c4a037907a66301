// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include "base/file_map.h"
#include "cli/terminal/screen.h"
#include "tests/check.h"

/* A model file that another process truncates while its weights are read. */
Test(interrupt, a_mapped_file_that_is_cut_ends_the_program_in_order, .exit_code = QC_MACHINE)
{
    char path[] = "/tmp/qcalib_cut_XXXXXX";
    struct qc_file_map *m;
    const int fd = mkstemp(path);
    cr_assert(fd >= 0 && unlink(path) == 0 && ftruncate(fd, 1 << 20) == 0);
    cr_assert(qc_file_map_new(&m, fd, 1 << 20, ST) && m);
    qc_interrupt_install();
    cr_assert_eq(ftruncate(fd, 0), 0);
    const volatile char *p = qc_file_map_data(m);
    cr_assert_eq(p[1 << 19], 0);
}
