// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/user_code.h"

bool qc_shared_object_open(void **library, const void **symbol, const char *kind, const char *file, const char *name,
                           const char *header, struct qc_status *st)
{
    const size_t length = strlen(file) + 3;
    char *path = malloc(length);
    if (!path) return qc_fail_memory(st, length);
    snprintf(path, length, "%s%s", strchr(file, '/') ? "" : "./", file);
    qc_user_code_enter(kind, file, "loading");
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    qc_user_code_leave();
    free(path);
    if (!opened) {
        const char *why = dlerror();
        return qc_fail(st, QC_BAD_INPUT, "%s %s: not a shared object that can be loaded: %s", kind, file,
                       why ? why : "unknown");
    }
    if (!(*symbol = dlsym(opened, name))) {
        dlclose(opened);
        return qc_fail(st, QC_BAD_INPUT, "%s %s: it does not export '%s' (see %s)", kind, file, name, header);
    }
    *library = opened;
    return true;
}

void qc_shared_object_close(void *library)
{
    if (library) dlclose(library);
}
