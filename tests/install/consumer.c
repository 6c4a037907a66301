// SPDX-License-Identifier: Apache-2.0
#include <qcalib/qcalib.h>
#include <string.h>

int main(void)
{
    struct qcalib_error error;
    qcalib_model *model = NULL;
    const int code = qcalib_model_from_memory(&model, "nothing", 7, "nothing", &error);
    qcalib_model_free(model);
    return strcmp(qcalib_version(), "0.1.0") == 0 && code == QCALIB_BAD_INPUT && error.message[0] ? 0 : 1;
}
