// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: options. The first byte '{' begins the text of a configuration file; otherwise the bytes are the
   words of a command line, each ended by a newline. Both are accepted, or refused with a status and a message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/options/command_line.h"

enum { WORDS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool ok, const struct qc_status *st)
{
    if (ok != (st->code == QC_OK) || (!ok && !*st->message)) abort();
}

static void read_command_line(char *text)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_arena *arena = qc_arena_new();
    struct qc_cli_options o;
    char *words[WORDS] = {"qcalib"};
    int count = 1;
    for (char *word = text, *end; word && count < WORDS; word = end) {
        words[count++] = word;
        if ((end = strchr(word, '\n'))) *end++ = '\0';
    }
    if (arena) expect(qc_options_parse(&o, count, words, arena, &st), &st);
    qc_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(size + 1, 1); /* of the exact size, so that a read behind it is found */
    if (!text) abort();
    memcpy(text, data, size);
    if (*text == '{') {
        struct qc_status st = QC_STATUS_INIT;
        struct qc_json *json = NULL;
        struct qc_arena *arena = qc_arena_new();
        struct qc_options o;
        if (!arena || !qc_options_init(&o, QC_COMMAND_quantize, arena, &st)) abort();
        expect(qc_json_parse(&json, text, size, &st) && qc_options_configure(&o, json, "options", &st), &st);
        qc_json_free(json);
        qc_arena_free(arena);
    } else
        read_command_line(text);
    free(text);
    return 0;
}
