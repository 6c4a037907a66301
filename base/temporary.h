// SPDX-License-Identifier: Apache-2.0
/* Unnamed temporary files in TMPDIR or /tmp, which disappear with the process. */
#pragma once

/* Return the folder, and a new file in it, open for reading and writing (-1 with errno on failure). */
const char *qc_temporary_folder(void);
int qc_temporary_file(void);
