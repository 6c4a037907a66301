# SPDX-License-Identifier: Apache-2.0
"""The mutations of scripts/mutate, and the tests that should notice them."""
import dataclasses
import pathlib
import re

from mutations_rooms import of_rooms

ROOT = pathlib.Path(__file__).resolve().parent.parent
TFLITE = ("test_arith", "test_graph", "tests/tflite/test_tflite_ops.py")
FIXED = ("test_arith", "test_simq_contracts", "tests/tflite/test_tflite_ops.py")
INTEGER = ("test_simq_contracts", "test_simq_integer", "test_simq_mac", "test_simq_accumulator", "test_simq_qlinear",
           "test_simq_affine", "test_simq_plan_run")
REWRITE = ("test_rewrite",)
ROUNDING = ("test_arith", "test_graph", "test_observers", "test_simq_rounding", "test_simq_rounding_steps",
            "test_simq_affine", "test_rewrite")
AFFINE = ("test_arith", "test_simq_affine", "test_simq_rounding_steps", "test_simq_rounding", "test_simq_mac",
          "test_simq_plan_run", "test_simq_integer", "test_rewrite")


@dataclasses.dataclass
class Mutation:
    kind: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple  # unit test programs, and files of pytest
    equivalent: str = ""  # why no test can notice it


def by_hand():
    """Mutations of rounding rules and zero-point terms."""
    def rounding(name, file, old, new, tests=ROUNDING):
        return Mutation("rounding", name, file, old, new, tests)

    def zero(name, file, old, new, tests=AFFINE):
        return Mutation("zero point", name, file, old, new, tests)

    params, header, contract, rounds = "arith/params.c", "arith/params.h", "arith/contract.c", "simq/core/rounding.c"
    steps, binary, affine = "arith/real_steps.h", "arith/qbinary.c", "simq/core/kernel_affine.c"
    return [
        rounding("restricted levels keep the lowest", "graph/types/dtype.c",
                 ".lo = restricted && t->is_signed ? -t->hi : t->lo", ".lo = t->lo"),
        rounding("a range need not hold zero: low end", params, "lo = lo < 0 ? lo : 0;", ""),
        rounding("a range need not hold zero: high end", params, "hi = hi > 0 ? hi : 0;", ""),
        rounding("one step more in a range", params, "(double)levels.hi - (double)levels.lo;",
                 "(double)levels.hi - (double)levels.lo + 1;"),
        rounding("no least scale", params, "if (s < (double)QC_SCALE_MIN) return QC_SCALE_MIN;", ""),
        rounding("symmetric range from the high end alone", params, "double top = -lo > hi ? -lo : hi;",
                 "double top = hi;"),
        rounding("middle level of unsigned symmetric", params, "int32_t middle = levels.hi / 2 + 1;",
                 "int32_t middle = levels.hi / 2;"),
        rounding("zero point of a range is cut, not rounded", params, "nearbyint(levels.lo - lo / (double)scale)",
                 "trunc(levels.lo - lo / (double)scale)"),
        rounding("zero point may leave its levels", params, "return z < levels.hi ? (int32_t)z : levels.hi;",
                 "return (int32_t)z;"),
        rounding("quantize one: up instead of half to even", header, "nearbyintf(x / p.scale)",
                 "floorf(x / p.scale + 0.5f)"),
        rounding("quantize one: no saturation above", header, "(r < hi ? r : hi)", "r"),
        rounding("quantize: half to even becomes cutting", steps, "qc_clamp(qc_round_even(x / scale, native), lo, hi)",
                 "qc_clamp(truncf(x / scale), lo, hi)"),
        rounding("requantize: half upward", steps, "qc_round_even(qc_clamp(acc * factor, lo, hi), native)",
                 "qc_clamp(floorf(acc * factor + 0.5f), lo, hi)"),
        rounding("rescale: one factor instead of two steps", steps, "qc_round_even(v * from / to, native)",
                 "qc_round_even(v * (from / to), native)"),
        rounding("quantize away: half to even", "arith/real_steps.c",
                 "case QC_ROUNDING_AWAY: QC_ROW(qc_clamp(round_away(v / b[c])",
                 "case QC_ROUNDING_AWAY: QC_ROW(qc_clamp(qc_round_even(v / b[c], native)", INTEGER),
        rounding("requantize factor the other way round", rounds, "kind == QC_ROUNDING_REQUANTIZE ? sx / sy : sx",
                 "kind == QC_ROUNDING_REQUANTIZE ? sy / sx : sx"),
        rounding("an accumulator is rescaled in two steps", rounds,
                 "return from->product ? QC_ROUNDING_REQUANTIZE : QC_ROUNDING_RESCALE;", "return QC_ROUNDING_RESCALE;"),
        rounding("no saturation below", rounds, "to->rounds ? qc_clamp(lo, low, high) : lo;", "lo;"),
        rounding("no saturation above", rounds, "to->rounds ? qc_clamp(hi, low, high) : hi;", "hi;"),
        rounding("add: no fused multiply-add", binary, "fmaf(qa, m->ra, fmaf(qb, m->rb, m->k))",
                 "(qa * m->ra + (qb * m->rb + m->k))", AFFINE),
        rounding("mul: rounds before it adds the zero point", binary, "qc_round_even(va * vb * m->m + zc, native)",
                 "(qc_round_even(va * vb * m->m, native) + zc)", AFFINE),
        rounding("mean: no 1/n", affine, "to.scale[0] * (float)s->over.count;", "to.scale[0];", AFFINE),
        rounding("scale of a product", "graph/core/qparams.c", "a->scale[a->count == 1 ? 0 : i] * b->scale[",
                 "b->scale[", ("test_graph",) + AFFINE),
        zero("quantize one: limits", header,
             "float lo = (float)(levels.lo - p.zero_point), hi = (float)(levels.hi - p.zero_point);",
             "float lo = (float)levels.lo, hi = (float)levels.hi;", ROUNDING),
        zero("quantize one: result", header, "return qc_saturate((int64_t)r + p.zero_point, levels);",
             "return qc_saturate((int64_t)r, levels);", ROUNDING),
        zero("dequantize one", header, "(float)(q - p.zero_point)", "(float)q", ROUNDING),
        zero("levels of centred values", rounds, "to->rounds ? to->zero_point[to->count > 1 ? c : 0] : 0", "0"),
        zero("add and mul: of a", binary, "m.fza = (float)m.za;", "m.fza = 0;"),
        zero("add and mul: of b", binary, "m.fzb = (float)m.zb;", "m.fzb = 0;"),
        zero("add and mul: of the result", binary, "m.fzc = (float)m.zc;", "m.fzc = 0;"),
        zero("add: in the constant, a", binary, "fmaf(m.ra, m.fza, m.rb * m.fzb)", "(m.rb * m.fzb)"),
        zero("add: in the constant, b", binary, "fmaf(m.ra, m.fza, m.rb * m.fzb)", "(m.ra * m.fza)"),
        zero("sub: limits without the zero point", binary, "lo - zc, hi - zc) + zc;", "lo, hi) + zc;"),
        zero("sub: of the result", binary, "lo - zc, hi - zc) + zc;", "lo - zc, hi - zc);"),
        zero("centred numbers, as stored", binary, "#define QC_PLUS(x, z) ((x) + (z))", "#define QC_PLUS(x, z) (x)"),
        zero("centred numbers, of the result", binary, "#define QC_CENTRE(T, q) (q) - m.fzc",
             "#define QC_CENTRE(T, q) (q)"),
        zero("stored integers of a constant", "simq/plan/evaluate.c", "(int32_t)x[i] + zero[row ? i : 0]);",
             "(int32_t)x[i]);",
             AFFINE),
        zero("bounds of clip", "simq/kernels/real/kernel_clamp.c",
             "lo, s->parameters, s->levels) - s->parameters.zero_point", "lo, s->parameters, s->levels)"),
        zero("bounds of a fused clip", "simq/plan/plan_fuse.c", "hi, p, s->levels) - p.zero_point",
             "hi, p, s->levels)"),
        Mutation("duplication", "equal nodes are made again", "graph/core/node.c", "if (known) {",
                 "if (known && outputs > 99) {", REWRITE + ("test_graph",)),
        Mutation("duplication", "the verifier does not count", "graph/core/verify.c", "now.of[op] > before->of[op]",
                 "now.of[op] > before->of[op] + 1000", ("test_graph",)),
        Mutation("duplication", "ops that others use are matched too", "rewrite/language/rewriter.c",
                 "!root && x->uses[v] != 1 &&", "!root && x->uses[v] == 0 &&", REWRITE),
    ]


def contracts():
    """Fixed-point rounding: the scalar functions, their vector forms and TensorFlow Lite's arithmetic."""
    def scalar(name, old, new, file="arith/fixed_point.c", equivalent=""):
        return Mutation("fixed point", name, file, old, new, FIXED, equivalent)

    def steps(name, old, new, equivalent=""):
        return scalar(f"loops: {name}", old, new, "arith/fixed_point.h", equivalent)

    def requantize(name, old, new):
        return scalar(name, old, new, "arith/requantize.c")

    def binary(name, old, new, equivalent=""):
        return scalar(name, old, new, "arith/qbinary.c", equivalent)

    def tflite(name, old, new, file="arith/tflite.c"):
        return Mutation("fixed point", f"tflite: {name}", file, old, new, TFLITE)

    softmax, contract, known = "arith/tflite.c", "arith/contract.c", "graph/core/op_table.c"
    return [
        scalar("quantize: half away becomes half to even", "case QC_QUANTIZE_AWAY: r = roundf(v)",
               "case QC_QUANTIZE_AWAY: r = nearbyintf(v)", contract),
        scalar("quantize: half to even becomes half away", "case QC_QUANTIZE_RECIPROCAL: r = nearbyintf(v)",
               "case QC_QUANTIZE_RECIPROCAL: r = roundf(v)", contract),
        scalar("the multiplier is cut, not rounded", "round(frexp(m, &shift) * 0x1p31)",
               "trunc(frexp(m, &shift) * 0x1p31)"),
        scalar("a significand that rounds to one", "if (multiplier == 0x1p31) {", "if (multiplier > 0x1p31) {"),
        scalar("ratios below 2^-32 are kept", "if (shift < -31) return (struct qc_fixed){0};", ""),
        scalar("high product: half down where negative", "INT64_C(1) << 30 : 1 - (INT64_C(1) << 30)",
               "INT64_C(1) << 30 : -(INT64_C(1) << 30)"),
        scalar("high product: cut", "(ab + nudge) / (INT64_C(1) << 31)", "(ab + 0 * nudge) / (INT64_C(1) << 31)"),
        scalar("high product of the lowest numbers", "if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;", ""),
        scalar("division by a power: half upward", "((one - 1) >> 1) + (x < 0)", "((one - 1) >> 1)"),
        scalar("nearest becomes upward", "rule == QC_REQUANTIZE_NEAREST);", "false);"),
        scalar("upward becomes nearest", "rule == QC_REQUANTIZE_NEAREST);", "rule != QC_REQUANTIZE_FLOAT);"),
        scalar("no half", "(x + half - (negative && !away)) >> n", "(x + 0 * half - (negative && !away)) >> n"),
        scalar("half upward of negative numbers", "(x + half - (negative && !away)) >> n", "(x + half) >> n"),
        scalar("rounded twice: rounded once", "rule == QC_REQUANTIZE_DOUBLE && m.shift < 0",
               "rule == QC_REQUANTIZE_DOUBLE && m.shift < -99"),
        scalar("rounded twice: the first half away", "round_shift(product, 31, negative, false)",
               "round_shift(product, 31, negative, true)"),
        scalar("rounded twice: the second half upward", "-m.shift, negative, true)", "-m.shift, negative, false)"),
        scalar("the sign of a multiplier", "(x < 0) != (m.multiplier < 0)", "x < 0"),
        requantize("tflite's mean: shift may leave the multiplier", "if (k > 31 + m.shift) k = 31 + m.shift;", ""),
        requantize("tflite's dense: ratio in double", "if (tflite && d->count == 1) return",
                   "if (d->count == 0) return"),
        requantize("ratio of a sum: no divisor", "if (!tflite) return sx / (sy * (double)d->divisor);",
                   "if (!tflite) return sx / sy;"),
        requantize("tflite's mean: no divisor", "if (d->source == QC_FROM_SUM && twice) {", "if (0) {"),
        requantize("requantize one: zero point of the input", "qc_saturate32(acc) - r->input_zero_point;",
                   "qc_saturate32(acc);"),
        requantize("requantize one, float: zero point of the input", "(float)(acc - r->input_zero_point)",
                   "(float)acc"),
        requantize("requantize one: sums wider than 32 bits", "(int64_t)qc_saturate32(acc) -",
                   "(int64_t)(int32_t)acc -"),
        requantize("requantize one: zero point of the result, float", "v / r->divisor : v + r->addend, r->zero_point,",
                   "v / r->divisor : v + r->addend, 0,"),
        requantize("requantize one: zero point of the result, fixed", "r->fixed[c])) + r->zero_point, r->levels)",
                   "r->fixed[c])), r->levels)"),
        requantize("loops: zero point of the input", "(uint32_t)x[i] - (uint32_t)zx",
                   "(uint32_t)x[i] - 0 * (uint32_t)zx"),
        requantize("loops: zero point of the result", "qc_clamp_int((expression), lo, hi) + zy;",
                   "qc_clamp_int((expression), lo, hi);"),
        requantize("loops: limits without the zero point", "lo = r->levels.lo - zy, hi = r->levels.hi - zy;",
                   "lo = r->levels.lo, hi = r->levels.hi;"),
        requantize("loops: float: one factor instead of two steps",
                   "qc_level_of_quantizer((float)v, factor[c], divisor, low, high, native)",
                   "qc_level_of_product((float)v, factor[c] / divisor, low, high, native)"),
        requantize("loops: no shift to the left", "loop.raises |= s.left > 0;", ""),
        requantize("loops: nearest becomes upward", "offset[c], true))", "offset[c], false))"),
        requantize("loops: upward becomes nearest", "offset[c], false))", "offset[c], true))"),
        steps("no half of the first rounding", "((int64_t)x * multiplier) + (UINT64_C(1) << 30)",
              "((int64_t)x * multiplier)"),
        steps("second rounding half upward", "threshold = (mask >> 1) + (high < 0);", "threshold = (mask >> 1);"),
        steps("rounded once: half away becomes half upward", "+ bias - less) >> shift", "+ bias - 0 * less) >> shift"),
        steps("rounded once: no limit", "const int32_t v = qc_clamp_int(x, -limit - 1, limit);",
              "const int32_t v = x + 0 * limit;"),
        steps("to the left: no limit", "(uint32_t)qc_clamp_int(x, -limit - 1, limit) << left",
              "(uint32_t)(x + 0 * limit) << left"),
        steps("a shift of 31", "m.shift < 30 ? m.shift : 30;", "m.shift;"),
        binary("sums: shift of bytes", "m->left_shift = 20;", "m->left_shift = 19;"),
        binary("sums: shift of 16 bits with zero points", "? 15 : 14;", "? 15 : 13;"),
        binary("sums: shift by the result alone", "is_byte(levels[0]) && is_byte(levels[1]) && is_byte(levels[2])",
               "is_byte(levels[2])"),
        binary("qbinary one: zero point of a", "fixed_result(m, a - m->za, b - m->zb)",
               "fixed_result(m, a, b - m->zb)"),
        binary("qbinary one: zero point of b", "fixed_result(m, a - m->za, b - m->zb)",
               "fixed_result(m, a - m->za, b)"),
        binary("qbinary one: zero point of the result", "fixed_result(m, a - m->za, b - m->zb) + m->zc",
               "fixed_result(m, a - m->za, b - m->zb)"),
        binary("qbinary one, float: zero point of a", "(float)(a - m->za)", "(float)a"),
        binary("qbinary one, float: zero point of b", "(float)(b - m->zb)", "(float)b"),
        binary("qbinary one: products of 32 bits", "(int64_t)va * vb, m->c",
               "(int32_t)((uint32_t)va * (uint32_t)vb), m->c"),
        binary("loops: products of 32 bits", "> INT32_MAX;", "> INT64_MAX / 2;"),
        binary("loops: wide products: half upward where negative", "s->half - less)", "s->half - 0 * less)"),
        binary("loops: wide products: no half", "p * s->multiplier + s->half", "p * s->multiplier + 0 * s->half"),
        binary("loops: wide products: no second half", "(q + s->second_half)", "(q + 0 * s->second_half)"),
        binary("loops: wide products: no limit", "p = p < s->limit ? p : s->limit;", ""),
        binary("loops: wide products: wrap", "(uint32_t)q < INT32_MAX ? (uint32_t)q : INT32_MAX;", "(uint32_t)q;"),
        binary("loops: wide products: nearest becomes upward", ".away = rule == QC_REQUANTIZE_NEAREST || right == 0",
               ".away = right == 0"),
        binary("loops: sums beyond 32 bits", "m->a.shift > 13 || m->b.shift > 13", "m->a.shift > 99"),
        binary("loops: zero point of a", "const int32_t va = a[i] - m.za,", "const int32_t va = a[i],"),
        binary("loops: zero point of b", "vb = b[i] - m.zb; ", "vb = b[i]; "),
        binary("loops: zero point of the result", "qc_clamp_int((expression), lo, hi) + m.zc;",
               "qc_clamp_int((expression), lo, hi);"),
        binary("loops: sub adds", "m.op == QC_QBINARY_SUB ? -1 : 1", "m.op == QC_QBINARY_SUB ? 1 : 1"),
        binary("loops: nearest becomes upward", "away = m.rule == QC_REQUANTIZE_NEAREST",
               "away = m.rule == QC_REQUANTIZE_FLOAT"),
        scalar("mean in place: half upward", "sum >= 0 ? sum + n / 2 : sum - n / 2", "sum + n / 2", "arith/real_steps.c"),
        Mutation("fixed point", "int32 numbers stay two float steps", "simq/plan/plan_fuse.c",
                 "!qc_contract_is_float(b->plan->contract) && !b->g->simulated",
                 "b->plan->contract == QC_CONTRACT_COUNT", INTEGER),
        Mutation("fixed point", "int32 numbers are requantized under onnx", "simq/plan/plan_fuse.c",
                 "!qc_contract_is_float(b->plan->contract) && !b->g->simulated", "!b->g->simulated", INTEGER,
                 "under onnx a requantize of int32 numbers is the two float steps"),
        tflite("fixed zero point of a sigmoid", "{.scale = 0x1p-8f, .zero_point = t->lo}",
               "{.scale = 0x1p-8f, .zero_point = 0}", known),
        tflite("fixed scale of tanh", "{.scale = 0x1p-7f, .zero_point = t->is_signed",
               "{.scale = 0x1p-8f, .zero_point = t->is_signed", known),
        tflite("exponential: one term less",
               "const int32_t high = qc_divide_by_pot(qc_high_mul(qc_divide_by_pot(x4, 2) + x3, third) + x2, 1);",
               "const int32_t high = qc_divide_by_pot(qc_high_mul(x3, third) + x2, 1) + 0 * x4;", softmax),
        tflite("inverse: two steps of Newton", "for (int i = 0; i < 3; i++) x += qc_fixed_raise",
               "for (int i = 0; i < 2; i++) x += qc_fixed_raise", softmax),
        tflite("softmax: largest is not taken off", "exp_of_difference(s, x[i] - largest), 12)",
               "exp_of_difference(s, x[i]), 12)", softmax),
        tflite("softmax: lowest level", "y[i] = lowest + (level", "y[i] = (level", softmax),
        tflite("16-bit product: half down where negative", "ab >= 0 ? 1 << 14 : 1 - (1 << 14)",
               "ab >= 0 ? 1 << 14 : -(1 << 14)"),
        tflite("16-bit multiplier: cut", "(m + (1 << 15)) >> 16", "m >> 16"),
        tflite("hard swish: rounds its last product", "const int32_t product = high_mul16_truncated(",
               "const int32_t product = high_mul16("),
        tflite("hard swish: zero point of the input", "(q - u->input.zero_point) * (1 << 7)", "q * (1 << 7)"),
        tflite("hard swish: zero point of the result", "-u->identity.shift) + u->output.zero_point",
               "-u->identity.shift)"),
        tflite("functions: zero point of the input", "const int32_t v = q - u->input.zero_point,",
               "const int32_t v = q,"),
        tflite("leaky relu: zero point of the result", "v >= 0 ? u->identity : u->negative) + zo,",
               "v >= 0 ? u->identity : u->negative),"),
        tflite("functions: half to even", "y = roundf(u->function", "y = nearbyintf(u->function"),
        tflite("functions: zero point of the result", "(int32_t)y + zo", "(int32_t)y"),
    ]


def integers():
    """Zero-point terms of the kernels on stored integers, of conversions between qparams and of files."""
    def term(name, file, old, new, tests=INTEGER, equivalent=""):
        return Mutation("stored integers", name, file, old, new, tests, equivalent)

    integer = "simq/kernels/integer/"
    mean, table, mac = integer + "kernel_int_average.c", integer + "kernel_int_table.c", integer + "int_mac.c"
    run = integer + "int_mac_run.c"
    pack, convert = integer + "int_pack.c", "simq/core/convert.c"
    return [
        term("mean: of rows side by side", mean, "for (int64_t i = 0; i < n; i++) y[i] += x[i] - zero; ",
             "for (int64_t i = 0; i < n; i++) y[i] += x[i]; "),
        term("mean: of one sum", mean, "sum += x[i * xs] - zero;", "sum += x[i * xs];"),
        term("mean: of rows apart", mean, "y[i * ys] += x[i * xs] - zero;", "y[i * ys] += x[i * xs];"),
        term("mean: no 1/n", mean, "float scale = to.scale[0] * (float)s->over.count;", "float scale = to.scale[0];"),
        term("clip: lower bound", table, "*(const float *)p->in[1].data, a, s->levels) - a.zero_point)",
             "*(const float *)p->in[1].data, a, s->levels))"),
        term("clip: upper bound", table, "*(const float *)p->in[2].data, a, s->levels) - a.zero_point)",
             "*(const float *)p->in[2].data, a, s->levels))"),
        term("average pool: taken off", "simq/kernels/integer/kernel_int_average.c",
             "sum += q - s->zero;", "sum += q;"),
        term("average pool: put back", "simq/kernels/integer/kernel_int_average.c", "sum + count * s->zero, count",
             "sum, count"),
        term("products: data held less 128", mac, "m->zero -= m->shift;", ""),
        term("products: pads of bytes", "simq/kernels/integer/int_mac_run.c", "memset(to, m->zero, n);",
             "memset(to, 0, n);"),
        term("products: pads of 16 bits", "simq/kernels/integer/int_mac_run.c", "y[i] = (int16_t)m->zero;", "y[i] = 0;"),
        term("products: of the data, in the bias", mac, ".zero = m->serial ? 0 : m->zero,", ".zero = 0,"),
        term("products: of the data by channel, in the bias", mac, ".zeros = m->serial ? NULL : m->zeros,",
             ".zeros = NULL,"),
        term("products: pairs above 16 bits", pack, "return up <= INT16_MAX &&", "return up <= INT16_MAX + 255 &&"),
        term("products: pairs below 16 bits", pack, "down >= INT16_MIN;", "down >= INT16_MIN - 255;"),
        term("products: pairs whatever the data", mac, "most = hi - m->shift;", "most = 1;"),
        term("products: by channel, data held less 128", mac, "s->zero_point[c]) - m->shift;", "s->zero_point[c]);"),
        term("products: pads of bytes by channel", "simq/kernels/integer/int_mac_run.c",
             "to[i] = (uint8_t)m->zeros[i % channels];", "to[i] = (uint8_t)m->zeros[0];"),
        term("products: pads of 16 bits by channel", "simq/kernels/integer/int_mac_run.c",
             "(int16_t)m->zeros[i % channels];", "(int16_t)m->zeros[0];"),
        term("products: bytes that hold all channels", mac, "m->d.data_type == QC_F32 && c < s->count",
             "m->d.data_type == QC_F32 && c < 1"),
        term("products: of the data, in narrow sums", run, "m->zeros ? m->zeros[group] : m->zero,", "0,"),
        term("products: of the data by channel, in narrow sums", run, "m->zeros ? m->zeros[group] : m->zero,",
             "m->zero,"),
        term("products: of weights in the bound of a sum", "graph/types/tensor.c",
             "const int64_t d = (int64_t)v[k] - z;", "const int64_t d = v[k];", ("test_graph",)),
        term("products: of weights of 8 bits", pack, "((const uint8_t *)weights)[at]) - zero;",
             "((const uint8_t *)weights)[at]);"),
        term("products: of uint16 weights", pack, "((const uint16_t *)weights)[at] - zero",
             "((const uint16_t *)weights)[at]"),
        term("products: of int16 weights", pack, "((const int16_t *)weights)[at] - zero",
             "((const int16_t *)weights)[at]",
             equivalent="weights less their zero point fit 16 bits (qc_int_levels_fit), so that of int16 is 0"),
        term("dense: bias", pack,
             "(uint32_t)((p->zeros ? p->zeros[g] : p->zero) - p->less) * (uint32_t)sums[c]);", "0);"),
        term("depthwise: bias", pack, "(uint32_t)given[g] - (uint32_t)(p->zeros ? p->zeros[g] : p->zero) * sum",
             "(uint32_t)given[g] - 0 * sum"),
        term("clip: bounds by channel", "simq/kernels/real/kernel_clamp.c",
             "qc_quantize_one(bound, p, q->levels) - p.zero_point)", "qc_quantize_one(bound, p, q->levels))"),
        term("centred from stored, per channel", convert, "y[i] = (float)(x[i] - zero[i]);", "y[i] = (float)x[i];"),
        term("centred from stored", convert, "y[i] = (float)(x[i] - *zero);", "y[i] = (float)x[i];"),
        term("stored from centred, per channel", convert, "y[i] = (T)((int32_t)x[i] + zero[i]);",
             "y[i] = (T)(int32_t)x[i];"),
        term("stored from centred", convert, "y[i] = (T)((int32_t)x[i] + *zero);", "y[i] = (T)(int32_t)x[i];"),
        term("requantize for a quantizer", convert, "qc_level_of_product(v, a[k], lo[k], hi[k], native) + zero[k]",
             "qc_level_of_product(v, a[k], lo[k], hi[k], native)"),
        term("quantize for a quantizer", convert, "qc_level_of_real(v, b[k], lo[k], hi[k], native) + zero[k]",
             "qc_level_of_real(v, b[k], lo[k], hi[k], native)"),
        term("fixed-point limits of a fused clip", convert, "(int32_t)centred + zero : level",
             "(int32_t)centred : level"),
        term("a pad's constant", "simq/kernels/real/kernel_pad.c", ".zero_point = scales->zero_point[0]}",
             ".zero_point = 0}", INTEGER),
        term("read from a quantized model", "rewrite/canonical/canonical_classes.c", "zeros[i] = (int32_t)q;",
             "zeros[i] = 0;", REWRITE),
        term("a bound between integers, as a real number", "rewrite/canonical/canonical_build.c",
             "(float)(level - s->zero_point[0]) * s->scale[0]", "(float)level * s->scale[0]", REWRITE),
        term("relu between integers", "rewrite/canonical/canonical_build.c",
             "bound[0] == s->zero_point[0] && bound[1] == levels.hi", "bound[1] == levels.hi", REWRITE),
    ]


def allow_list():
    text = (ROOT / "rewrite/rules/allow.rules").read_text()
    for line in re.finditer(r"^allow (\w+) ((?:[A-Z]\w*(?: +|\n +)?)+)([^\n]*)", text, re.M):
        for op in line[2].split():
            start, end = line.start(2), line.end(2)
            without = text[:start] + re.sub(rf"\b{op}\b ?", "", text[start:end], count=1) + text[end:]
            where = " target fused" if "target" in line[3] else ""
            yield Mutation("allow-list", f"{line[1]} {op}{where}", "rewrite/rules/allow.rules", text, without, REWRITE)


def rules():
    """Each rule without its guards, and each rule removed."""
    same = {"conv3d_bias_apart": "convolutions have one to three spatial dimensions, and those of one and two are "
                                 "taken by the rules before it"}
    for name in ("normalise", "as_convs", "patterns", "islands", "requantize", "bias_apart", "bias_narrowed"):
        file = f"rewrite/rules/{name}.rules"
        text = (ROOT / file).read_text()
        for rule in re.finditer(r"^(rule|pattern|island) (\w+)\n(?:[ \t].*\n)+", text, re.M):
            yield Mutation("rule", f"{rule[2]} is gone", file, rule[0], "", REWRITE)
            guards = re.search(r"^  when (?:.* and\n)*.*\n", rule[0], re.M)
            if guards:
                yield Mutation("rule", f"{rule[2]} without guards", file, rule[0], rule[0].replace(guards[0], ""),
                               REWRITE, same.get(rule[2], ""))


def guards():
    """Each guard of the table inverted: 0 becomes 1, 1 becomes 0, other numbers are raised by 1."""
    text = (ROOT / "rewrite/language/guard.c").read_text()
    begin = text.index("const struct qc_builtin qc_guards[]")
    for entry in re.finditer(r"\{\"(\w+)\",[^{}]*?\.value = (\w+)\}", text[begin:]):
        broken = "static double broken(const struct qc_asked *call)\n{\n    double v = " + entry[2] + "(call);\n" \
                 "    return v == 0 ? 1 : v == 1 ? 0 : v + 1;\n}\n\n"
        table = text[begin:]
        changed = table[:entry.start(2)] + "broken" + table[entry.end(2):]
        yield Mutation("guard", entry[1], "rewrite/language/guard.c", text, text[:begin] + broken + changed, REWRITE)


def every():
    return [*by_hand(), *contracts(), *integers(), *of_rooms(Mutation), *allow_list(), *guards(), *rules()]
