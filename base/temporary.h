// SPDX-License-Identifier: Apache-2.0
/* Temporary files without a name, in TMPDIR or /tmp, that are gone with the process. */
#pragma once

/* The folder; a new file in it, open for reading and writing, -1: errno says why. */
const char *qc_temporary_folder(void);
int qc_temporary_file(void);
