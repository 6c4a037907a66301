// SPDX-License-Identifier: Apache-2.0
#include "base/apart.h"

#include <string.h>
#include <sys/stat.h>

/* Where a file is: its own inode, or that of the folder in which it will be made under `name`. */
struct place {
    bool known;
    dev_t device;
    ino_t inode;
    const char *name; /* NULL: the file exists */
};

static struct place place_of(const char *path)
{
    struct stat info;
    char folder[4096] = ".";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (stat(path, &info) == 0)
        return (struct place){.known = S_ISREG(info.st_mode) || S_ISDIR(info.st_mode),
                              .device = info.st_dev,
                              .inode = info.st_ino};
    const size_t length = slash ? (size_t)(name - path) : 0;
    if (length >= sizeof folder) return (struct place){.known = false};
    if (length) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    if (stat(folder, &info)) return (struct place){.known = false}; /* writing it says that there is no such folder */
    return (struct place){.known = true, .device = info.st_dev, .inode = info.st_ino, .name = name};
}

static bool same(const struct place *a, const struct place *b)
{
    if (!a->known || !b->known || a->device != b->device || a->inode != b->inode) return false;
    return a->name && b->name ? strcmp(a->name, b->name) == 0 : !a->name && !b->name;
}

bool qc_files_apart(const struct qc_named_file *outputs, size_t output_count, const struct qc_named_file *inputs,
                    size_t input_count, struct qc_status *st)
{
    for (size_t i = 0; i < output_count; i++) {
        const struct qc_named_file *o = &outputs[i];
        const struct place place = place_of(o->path);
        for (size_t k = 0; !place.name && k < input_count; k++) { /* what does not exist yet is not read */
            const struct place input = place_of(inputs[k].path);
            if (same(&place, &input))
                return qc_fail(st, QC_USAGE,
                               "%s '%s' would overwrite what is read: it is the file of %s '%s'; name another file",
                               o->what, o->path, inputs[k].what, inputs[k].path);
        }
        for (size_t k = 0; k < i; k++) {
            const struct place other = place_of(outputs[k].path);
            if (same(&place, &other))
                return qc_fail(st, QC_USAGE, "%s '%s' and %s '%s' are the same file; name another for one of them",
                               outputs[k].what, outputs[k].path, o->what, o->path);
        }
    }
    return true;
}
