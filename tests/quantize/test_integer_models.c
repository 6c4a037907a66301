// SPDX-License-Identifier: Apache-2.0
/* Every real model of QCALIB_DATA, quantized: the folded simulated graph and the produced graph, in integers, with each
   of the instruction sets, give the same bits on the samples of its calibration data. */
#include "tests/check.h"
#include "tests/quantize/made_network.h"

/* Numbers of samples, as a rule and with QCALIB_LONG. A sanitizer sees what it can see on few, and takes minutes for
   many. */
#ifdef __SANITIZE_ADDRESS__
static const char SAMPLES[] = "2", MANY[] = "2";
static const char *const left_out[] = {"mobilenetv1_075_224_imagenet", "superres_pytorch", "rfb320_face_simplified"};
#else
static const char SAMPLES[] = "2", MANY[] = "16";
static const char *const left_out[] = {""};
#endif

struct model {
    const char *name, *data, *preprocess, *option, *value;
};

static const struct model models[] = {
    {"resnet20_cifar10", "cifar10_calib.h5", NULL, NULL, NULL},
    {"resnet20_cifar10_bn", "cifar10_calib.h5", NULL, NULL, NULL},
    {"resnet8_cifar10_mlperf", "cifar10_calib.h5", "none", NULL, NULL},
    {"dscnn_kws_mlperf", "kws01_calib128.h5", NULL, NULL, NULL},
    {"dscnn_kws_mlperf_bn", "kws01_calib128.h5", NULL, NULL, NULL},
    {"mobilenetv1_075_224_imagenet", "imagenet_calib100_224.h5", NULL, NULL, NULL},
    {"mnist_cntk8", "mnist_calib256.h5", NULL, NULL, NULL},
    {"autoencoder_ad_mlperf", "ad01_one_normal.h5", NULL, NULL, NULL},
    {"superres_pytorch", "sr_x3_y6.h5", NULL, NULL, NULL},
    {"rfb320_face_simplified", "det_unlabelled16_240x320.h5", NULL, NULL, NULL},
    {"text_transformer_agnews", "agnews_calib256.h5", NULL, NULL, NULL},
    /* equalized: bounds per channel */
    {"mobilenetv1_075_224_imagenet", "imagenet_calib100_224.h5", NULL, "per-tensor", NULL},
    {"superres_pytorch", "sr_x3_y6.h5", NULL, "equalize", "on"},
    {"text_transformer_agnews", "agnews_calib256.h5", NULL, "target", "fused"},
    {"rfb320_face_simplified", "det_unlabelled16_240x320.h5", NULL, "target", "fused"},
    {"resnet20_cifar10", "cifar10_calib.h5", NULL, "bias", "narrowed"},
    {"resnet20_cifar10", "cifar10_calib.h5", NULL, "per-channel", "activations,weights"},
    {"dscnn_kws_mlperf", "kws01_calib128.h5", NULL, "per-channel", "activations,weights"},
    {"dscnn_kws_mlperf", "kws01_calib128.h5", NULL, "bias", "narrowed"},
    {"text_transformer_agnews", "agnews_calib256.h5", NULL, "bias", "narrowed"},
};

/* All plans have run on the unit: their outputs are those of the first. */
static bool compare(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                    struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    const struct qc_graph *g = user;
    for (size_t k = 0; k < g->output_count; k++) {
        const struct qc_view want = qc_runner_output(runners[0], k);
        for (size_t p = 1; p < QC_STREAM_PLANS; p++) {
            const struct qc_view got = qc_runner_output(runners[p], k);
            cr_assert(got.dtype == want.dtype && qc_view_count(&got) == qc_view_count(&want));
            if (memcmp(got.data, want.data, qc_view_count(&want) * qc_dtype_size(want.dtype)) != 0)
                return qc_fail(st, QC_BAD_INPUT, "plan %zu differs in output '%s' of unit %zu", p, g->outputs[k].name,
                               at->unit);
        }
    }
    return true;
}

static void check(const struct model *m, const char *folder)
{
    char model[512], data[512];
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_options o;
    enum qc_option option;
    struct qc_job_inputs in;
    MADE_NETWORK made;
    struct qc_plan *plans[QC_STREAM_PLANS] = {NULL};
    static const enum qc_isa isas[QC_STREAM_PLANS] = {QC_ISA_BEST, QC_ISA_BEST, QC_ISA_AVX2, QC_ISA_PLAIN};
    qc_text(model, sizeof model, "%s/models/%s.onnx", folder, m->name);
    qc_text(data, sizeof data, "%s/%s", folder, m->data);
    in = (struct qc_job_inputs){.model = {.file = model}, .data = {.file = data}};
    cr_assert(qc_options_init(&o, QC_COMMAND_quantize, a, ST) &&
              qc_options_set(&o, QC_OPTION_SAMPLES, getenv("QCALIB_LONG") ? MANY : SAMPLES, ST) &&
              qc_options_set(&o, QC_OPTION_THREADS, "1", ST));
    /* how parameters were found is of no account here */
    cr_assert(qc_options_set(&o, QC_OPTION_METHOD, "minmax", ST) &&
              qc_options_set(&o, QC_OPTION_WEIGHT_ROUNDING, "nearest", ST));
    cr_assert(!m->preprocess || qc_options_set(&o, QC_OPTION_PREPROCESS, m->preprocess, ST));
    cr_assert(!m->option || (qc_options_find(&option, &o, m->option, ST) && qc_options_set(&o, option, m->value, ST)),
              "%s", failure.message);
    cr_assert(make_network(&made, &o, &in, NULL, ST), "%s: %s", m->name, failure.message);
    const struct qc_network *net = made.c->network;
    const struct qc_shape *shapes = qc_stream_shapes(net->folded, made.setup->data, a, ST);
    struct qc_stream s = FIELDS(.data = made.setup->data, .input_count = net->folded->input_count,
                                .plan_count = QC_STREAM_PLANS, .workers = 1, .unit = compare, .user = net->folded);
    for (size_t i = 0; i < QC_STREAM_PLANS; i++) {
        const struct qc_plan_options options = {.isa = isas[i]};
        cr_assert(qc_plan_new(&plans[i], i ? net->produced : net->folded, shapes, &options, ST), "%s: %s", m->name,
                  failure.message);
        s.plans[i] = plans[i];
    }
    cr_expect(qc_stream_run(&s, ST), "%s: %s", m->name, failure.message);
    for (size_t i = 0; i < QC_STREAM_PLANS; i++) qc_plan_free(plans[i]);
}

Test(integer_models, equal_the_simulation_bit_for_bit, .timeout = 600)
{
    const char *folder = getenv("QCALIB_DATA");
    if (!folder || !*folder) cr_skip("QCALIB_DATA is not set");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        bool out = i % test_one_of(1, 2) > 0;
        for (size_t k = 0; k < sizeof left_out / sizeof *left_out; k++)
            out = out || strcmp(models[i].name, left_out[k]) == 0;
        if (!out) check(&models[i], folder);
    }
}
