// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/dump.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/words.h"
#include "graph/text/text.h"

bool qc_dump_text(char *text, const char *file, struct qc_status *st)
{
    QC_FREED char *held = text;
    if (text && file) return qc_file_write(file, text, strlen(text), st);
    if (text) fputs(text, stdout); /* write errors are reported at the end */
    return text != NULL;
}

bool qc_dump_stage(void *user, const struct qc_pipeline *p, const struct qc_stage *s, struct qc_status *st)
{
    const struct qc_cli_options *o = user;
    size_t length = strlen(s->name);
    for (size_t i = 0; i < o->dump.count; i++) {
        const char *wish = o->dump.items[i];
        if (strncmp(wish, s->name, length) != 0 || (wish[length] && wish[length] != '=')) continue;
        bool to_file = wish[length] == '=';
        struct qc_text_options all = QC_TEXT_ALL, some = QC_TEXT_SHORT;
        char *text =
            s->graph ? qc_graph_print(s->graph(p), to_file ? &all : &some, st) : qc_partition_print(p->partition, st);
        if (!qc_dump_text(text, to_file ? wish + length + 1 : NULL, st)) return false;
    }
    return true;
}

bool qc_dump_check(const struct qc_cli_options *o, struct qc_status *st)
{
    const size_t count = qc_stage_count();
    const char **names = QC_NEW_ARRAY(o->job.arena, const char *, count, st);
    if (!names) return false;
    for (size_t i = 0; i < count; i++) names[i] = qc_stage_at(i)->name;
    for (size_t i = 0; i < o->dump.count; i++) {
        char name[64];
        const char *end = strchr(o->dump.items[i], '=');
        qc_text(name, sizeof name, "%.*s", end ? (int)(end - o->dump.items[i]) : 63, o->dump.items[i]);
        bool known = false;
        for (size_t k = 0; k < count; k++) known = known || strcmp(names[k], name) == 0;
        if (known) continue;
        const char *meant = qc_closest(name, names, count);
        return qc_fail(st, QC_USAGE, "--dump %s: there is no such pass%s%s%s; see 'qcalib list passes'", name,
                       meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
    }
    return true;
}
