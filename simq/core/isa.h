// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: instruction sets of the kernels. All of them give the same bits. */
#pragma once

/* Each set includes the previous ones of its processor. Exception: AVX512 and AVX512_VNNI do not require AVX_VNNI
   (256 bits wide).
   NAME, name in the printed plan, name in DNNL_MAX_CPU_ISA */
#define QC_ISAS(X)                                                                                                     \
    X(PLAIN, "plain", "SSE41")                                                                                         \
    X(NEON, "neon", "ADVSIMD")                                                                                         \
    X(NEON_DOT, "neon_dot", "ADVSIMD_DOT")                                                                             \
    X(NEON_I8MM, "neon_i8mm", "ADVSIMD_I8MM")                                                                          \
    X(AVX2, "avx2", "AVX2")                                                                                            \
    X(AVX_VNNI, "avx_vnni", "AVX2_VNNI")                                                                               \
    X(AVX512, "avx512", "AVX512_CORE")                                                                                 \
    X(AVX512_VNNI, "avx512_vnni", "AVX512_CORE_VNNI")                                                                  \
    X(AMX, "amx_int8", "AVX512_CORE_AMX")

enum qc_isa {
    QC_ISA_BEST, /* as an upper bound: no limit */
#define QC_X(name, text, dnnl) QC_ISA_##name,
    QC_ISAS(QC_X)
#undef QC_X
        QC_ISA_COUNT
};

/* Returns the best set that the processor has and that `limit` and the environment variable DNNL_MAX_CPU_ISA (or
   ONEDNN_MAX_CPU_ISA) allow. The variable names and values are those of oneDNN. */
enum qc_isa qc_isa_detect(enum qc_isa limit);
const char *qc_isa_name(enum qc_isa isa);
