// SPDX-License-Identifier: Apache-2.0
#include "export/report/html_packed.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/deflate.h"

enum { LEVEL = 6 };

bool qc_html_packed_begin(struct qc_html_packed *p, struct qc_status *st)
{
    *p = (struct qc_html_packed){.text = NULL};
    p->f = open_memstream(&p->text, &p->size);
    return p->f || qc_fail_memory(st, 1);
}

/* RFC 4648. */
static void base64(FILE *f, const uint8_t *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t v =
            (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (left > 2 ? data[i + 2] : 0);
        fputc(digits[v >> 18], f);
        fputc(digits[v >> 12 & 63], f);
        fputc(left > 1 ? digits[v >> 6 & 63] : '=', f);
        fputc(left > 2 ? digits[v & 63] : '=', f);
    }
}

bool qc_html_packed_end(FILE *f, struct qc_html_packed *p, struct qc_status *st)
{
    struct qc_deflate *d = qc_deflate_new(LEVEL);
    void *packed = NULL;
    size_t size;
    bool ok = fclose(p->f) == 0 && d;
    if (!ok) qc_fail_memory(st, 1);
    ok = ok && qc_deflate_pack(&packed, &size, d, p->text, p->size, st);
    if (ok) {
        fputs("<script type=\"text/plain\" class=\"packed\">", f);
        base64(f, packed, size);
        fputs("</script>\n", f);
    }
    free(packed);
    qc_deflate_free(d);
    free(p->text);
    return ok;
}
