# SPDX-License-Identifier: Apache-2.0
"""What scripts/mutate breaks, one thing at a time, and the tests that should notice."""
import dataclasses
import pathlib
import re

from mutations_rooms import of_rooms

ROOT = pathlib.Path(__file__).resolve().parent.parent
TFLITE = ("tests/tflite/test_tflite_ops.py", "test_graph")
FIXED = ("test_simq_rounding_fixed", "test_graph", "test_simq_contracts", "tests/tflite/test_tflite_ops.py")
INTEGER = ("test_simq_contracts", "test_simq_integer", "test_simq_mac", "test_simq_accumulator", "test_simq_qlinear", "test_simq_affine", "test_simq_plan_run")
REWRITE = ("test_rewrite",)
ROUNDING = ("test_graph", "test_observers", "test_simq_rounding", "test_simq_rounding_steps", "test_simq_affine", "test_rewrite")
AFFINE = ("test_simq_affine", "test_simq_rounding_steps", "test_simq_rounding", "test_simq_mac", "test_simq_plan_run", "test_simq_integer", "test_rewrite")


@dataclasses.dataclass
class Mutation:
    kind: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple  # unit test programs, and files of pytest
    equivalent: str = ""  # why nothing can notice it


def by_hand():
    """Rounding rules and zero-point terms."""
    def rounding(name, file, old, new, tests=ROUNDING):
        return Mutation("rounding", name, file, old, new, tests)

    def zero(name, file, old, new, tests=AFFINE):
        return Mutation("zero point", name, file, old, new, tests)

    numerics, header, rounds, merge = "graph/numerics.c", "graph/numerics.h", "simq/rounding.c", "simq/merge.c"
    return [
        rounding("restricted levels keep the lowest", numerics, ".lo = restricted && t->is_signed ? -t->hi : t->lo", ".lo = t->lo"),
        rounding("a range need not hold zero: low end", numerics, "lo = lo < 0 ? lo : 0;", ""),
        rounding("a range need not hold zero: high end", numerics, "hi = hi > 0 ? hi : 0;", ""),
        rounding("one step more in a range", numerics, "(double)levels.hi - (double)levels.lo;", "(double)levels.hi - (double)levels.lo + 1;"),
        rounding("no least scale", numerics, "if (s < (double)QC_SCALE_MIN) return QC_SCALE_MIN;", ""),
        rounding("symmetric range from the high end alone", numerics, "double top = -lo > hi ? -lo : hi;", "double top = hi;"),
        rounding("middle level of unsigned symmetric", numerics, "int32_t middle = levels.hi / 2 + 1;", "int32_t middle = levels.hi / 2;"),
        rounding("zero point of a range is cut, not rounded", numerics, "nearbyint(levels.lo - lo / (double)scale)", "trunc(levels.lo - lo / (double)scale)"),
        rounding("zero point may leave its levels", numerics, "return z < levels.hi ? (int32_t)z : levels.hi;", "return (int32_t)z;"),
        rounding("quantize one: up instead of half to even", header, "nearbyintf(x / p.scale)", "floorf(x / p.scale + 0.5f)"),
        rounding("quantize one: no saturation above", header, "(r < hi ? r : hi)", "r"),
        rounding("quantize: half to even becomes cutting", rounds, "QC_ROW(qc_clamp(qc_round_even(v / b[c], native), lo[c], hi[c]))", "QC_ROW(qc_clamp(truncf(v / b[c]), lo[c], hi[c]))"),
        rounding("requantize: rounds before it saturates", rounds, "QC_ROW(qc_round_even(qc_clamp(v * a[c], lo[c], hi[c]), native))",
                 "QC_ROW(qc_clamp(floorf(v * a[c] + 0.5f), lo[c], hi[c]))"),
        rounding("rescale: one factor instead of two steps", rounds, "qc_round_even(v * a[c] / b[c], native)", "qc_round_even(v * (a[c] / b[c]), native)"),
        rounding("requantize factor the other way round", rounds, "kind == QC_ROUNDING_REQUANTIZE ? sf / st : sf", "kind == QC_ROUNDING_REQUANTIZE ? st / sf : sf"),
        rounding("an accumulator is rescaled in two steps", rounds, "return from->product ? QC_ROUNDING_REQUANTIZE : QC_ROUNDING_RESCALE;", "return QC_ROUNDING_RESCALE;"),
        rounding("no saturation below", rounds, "lo = qc_clamp(lo, low, high);", ""),
        rounding("no saturation above", rounds, "hi = qc_clamp(hi, low, high);", ""),
        rounding("add: no fused multiply-add", merge, "fmaf(va + s.za, s.ra, fmaf(vb + s.zb, s.rb, s.k))", "(va + s.za) * s.ra + ((vb + s.zb) * s.rb + s.k)", AFFINE),
        rounding("mul: rounds before it adds the zero point", merge, "qc_round_even(va *vb *s.m + s.zc, native)", "(qc_round_even(va *vb *s.m, native) + s.zc)", AFFINE),
        rounding("mean: no 1/n", merge, "to.scale[0] * n;", "to.scale[0];", AFFINE),
        rounding("scale of a product", "graph/space.c", "a->scale[a->count == 1 ? 0 : i] * b->scale[", "b->scale[", ("test_graph",) + AFFINE),
        zero("quantize one: limits", header, "float lo = (float)(levels.lo - p.zero_point), hi = (float)(levels.hi - p.zero_point);", "float lo = (float)levels.lo, hi = (float)levels.hi;", ROUNDING),
        zero("quantize one: result", header, "return (int32_t)r + p.zero_point;", "return (int32_t)r;", ROUNDING),
        zero("dequantize one", header, "(float)(q - p.zero_point)", "(float)q", ROUNDING),
        zero("levels of centred values", rounds, "to->rounds ? to->zero_point[to->count > 1 ? c : 0] : 0", "0"),
        zero("add: of a", merge, "s->za = (float)a->zero_point[0];", "s->za = 0;"),
        zero("add: of b", merge, "s->zb = (float)b->zero_point[0];", "s->zb = 0;"),
        zero("add and mul: of the result", merge, "s->zc = (float)c->zero_point[0];", "s->zc = 0;"),
        zero("add: in the constant, a", merge, "fmaf(s->ra, s->za, s->rb * s->zb)", "(s->rb * s->zb)"),
        zero("add: in the constant, b", merge, "fmaf(s->ra, s->za, s->rb * s->zb)", "(s->ra * s->za)"),
        zero("stored integers of a constant", "simq/evaluate.c", "(int64_t)x[i] + zero;", "(int64_t)x[i];", AFFINE),
        zero("bounds of clip", "simq/kernel_clamp.c", "lo, s->parameters, s->levels) - s->parameters.zero_point", "lo, s->parameters, s->levels)"),
        zero("bounds of a fused clip", "simq/plan_fuse.c", "hi, p, s->levels) - p.zero_point", "hi, p, s->levels)"),
        Mutation("duplication", "equal nodes are made again", "graph/node.c", "if (known) {", "if (known && outputs > 99) {", REWRITE + ("test_graph",)),
        Mutation("duplication", "the verifier does not count", "graph/verify.c", "now.of[op] > before->of[op]", "now.of[op] > before->of[op] + 1000", ("test_graph",)),
        Mutation("duplication", "ops that others use are matched too", "rewrite/match.c", "!root && x->uses[v] != 1 &&", "!root && x->uses[v] == 0 &&", REWRITE),
    ]


def contracts():
    """Fixed-point rounding: the scalar functions, their vector forms and TensorFlow Lite's arithmetic."""
    def scalar(name, old, new):
        return Mutation("fixed point", name, "graph/numerics.c", old, new, FIXED)

    def vector(name, old, new):
        return Mutation("fixed point", f"loops: {name}", "simq/rounding_fixed.c", old, new, FIXED)

    def tflite(name, old, new):
        return Mutation("fixed point", f"tflite: {name}", "graph/numerics_tflite.c", old, new, TFLITE)

    return [
        scalar("quantize: half away becomes half to even", "case QC_QUANTIZE_AWAY: r = roundf(v)", "case QC_QUANTIZE_AWAY: r = nearbyintf(v)"),
        scalar("quantize: half to even becomes half away", "case QC_QUANTIZE_EVEN: r = nearbyintf(v)", "case QC_QUANTIZE_EVEN: r = roundf(v)"),
        scalar("the multiplier is cut, not rounded", "round(frexp(m, &shift) * 0x1p31)", "trunc(frexp(m, &shift) * 0x1p31)"),
        scalar("a significand that rounds to one", "if (multiplier == 0x1p31) {", "if (multiplier > 0x1p31) {"),
        scalar("ratios below 2^-32 are kept", "if (shift < -31) return (struct qc_fixed){0};", ""),
        scalar("high product: half down where negative", "INT64_C(1) << 30 : 1 - (INT64_C(1) << 30)", "INT64_C(1) << 30 : -(INT64_C(1) << 30)"),
        scalar("high product: cut", "(ab + nudge) / (INT64_C(1) << 31)", "(ab + 0 * nudge) / (INT64_C(1) << 31)"),
        scalar("high product of the lowest numbers", "if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;", ""),
        scalar("division by a power: half upward", "((one - 1) >> 1) + (x < 0)", "((one - 1) >> 1)"),
        scalar("nearest becomes upward", "return multiply_once(x, m, true);", "return multiply_once(x, m, false);"),
        scalar("upward becomes nearest", "return multiply_once(x, m, false);", "return multiply_once(x, m, true);"),
        scalar("rounded once: no half", "(uint64_t)product + (uint64_t)half", "(uint64_t)product + 0 * (uint64_t)half"),
        scalar("rounded once: wraps above", "if (product > most) return INT32_MAX;", ""),
        scalar("rounded once: wraps below", "if (product < -most) return INT32_MIN;", ""),
        scalar("twice: no left shift", "m.shift > 0 ? (int32_t)((uint32_t)x << m.shift) : x", "x"),
        scalar("tflite's mean: shift may leave the multiplier", "if (k > 31 + m.shift) k = 31 + m.shift;", ""),
        scalar("tflite's dense: ratio in double", "if (tflite && d->count == 1) return", "if (d->count == 0) return"),
        scalar("ratio of a sum: no divisor", "if (!tflite) return sx / (sy * (double)d->divisor);", "if (!tflite) return sx / sy;"),
        scalar("tflite's mean: no divisor", "if (d->source == QC_FROM_SUM && twice) m =", "if (0) m ="),
        scalar("requantize one: zero point of the input", "const int64_t x = acc - r->input_zero_point;", "const int64_t x = acc;"),
        scalar("requantize one: zero point of the result, float", "v / r->divisor : v, r->zero_point,", "v / r->divisor : v, 0,"),
        scalar("requantize one: zero point of the result, fixed", "narrow, m)) + r->zero_point, r->levels)", "narrow, m)), r->levels)"),
        scalar("sums: shift of bytes", "!wide ? 20 :", "!wide ? 19 :"),
        scalar("sums: shift of 16 bits with zero points", "m->levels.lo < 0 ? 15 : 14;", "m->levels.lo < 0 ? 15 : 13;"),
        scalar("merge one: zero point of a", "const int32_t va = a - m->za, vb = b - m->zb;\n    int64_t sum", "const int32_t va = a, vb = b - m->zb;\n    int64_t sum"),
        scalar("merge one: zero point of b", "const int32_t va = a - m->za, vb = b - m->zb;\n    int64_t sum", "const int32_t va = a - m->za, vb = b;\n    int64_t sum"),
        scalar("merge one: zero point of the result", "saturate(sum + m->zc, m->levels)", "saturate(sum, m->levels)"),
        scalar("merge one, float: zero point of a", "const float va = (float)(a - m->za)", "const float va = (float)a"),
        scalar("merge one, float: zero point of b", "vb = (float)(b - m->zb);", "vb = (float)b;"),
        scalar("mean in place: half upward", "sum >= 0 ? sum + n / 2 : sum - n / 2", "sum + n / 2"),
        vector("no half of the first rounding", "((int64_t)v * multiplier) + (UINT64_C(1) << 30)", "((int64_t)v * multiplier)"),
        vector("second rounding half upward", "threshold = (mask >> 1) + (high < 0);", "threshold = (mask >> 1);"),
        vector("rounded once: half away becomes half upward", "+ bias - less) >> shift", "+ bias - 0 * less) >> shift"),
        vector("rounded once: no limit", "const int32_t v = clamp_int(x, -limit - 1, limit);", "const int32_t v = x;"),
        vector("zero point of the input", "(uint32_t)x[i] - (uint32_t)zx", "(uint32_t)x[i] - 0 * (uint32_t)zx"),
        vector("zero point of the result", "clamp_int((expression), lo, hi) + zy;", "clamp_int((expression), lo, hi);"),
        vector("limits without the zero point", "lo = r->levels.lo - zy, hi = r->levels.hi - zy;", "lo = r->levels.lo, hi = r->levels.hi;"),
        vector("float: cut", "(int32_t)qc_round_even(clamp_float((float)v * factor[c], low, high), native)", "(int32_t)clamp_float((float)v * factor[c], low, high)"),
        vector("float: one factor instead of two steps", "(float)v * factor[c] / divisor", "(float)v * (factor[c] / divisor)"),
        vector("nearest becomes upward", "offset[c], true))", "offset[c], false))"),
        vector("upward becomes nearest", "offset[c], false))", "offset[c], true))"),
        vector("merge: zero point of a", "const int32_t va = a[i] - m.za,", "const int32_t va = a[i],"),
        vector("merge: zero point of b", "vb = b[i] - m.zb;", "vb = b[i];"),
        vector("merge: zero point of the result", "clamp_int((expression), lo, hi) + m.zc;", "clamp_int((expression), lo, hi);"),
        vector("merge: float zero point of a", "va = (float)(qa - m.za)", "va = (float)qa"),
        vector("merge: float zero point of b", "vb = (float)(qb - m.zb)", "vb = (float)qb"),
        vector("merge: sub adds", "m.op == QC_MERGE_SUB ? -1 : 1", "m.op == QC_MERGE_SUB ? 1 : 1"),
        vector("merge: nearest becomes upward", "away = m.rule == QC_REQUANTIZE_NEAREST", "away = m.rule == QC_REQUANTIZE_FLOAT"),
        tflite("fixed zero point of a sigmoid", "{.scale = 0x1p-8f, .zero_point = t->lo}", "{.scale = 0x1p-8f, .zero_point = 0}"),
        tflite("fixed scale of tanh", "{.scale = 0x1p-7f, .zero_point = t->is_signed", "{.scale = 0x1p-8f, .zero_point = t->is_signed"),
        tflite("exponential: one term less", "const int32_t high = qc_divide_by_pot(qc_high_mul(qc_divide_by_pot(x4, 2) + x3, third) + x2, 1);",
               "const int32_t high = qc_divide_by_pot(qc_high_mul(x3, third) + x2, 1) + 0 * x4;"),
        tflite("inverse: two steps of Newton", "for (int i = 0; i < 3; i++) x += raise", "for (int i = 0; i < 2; i++) x += raise"),
        tflite("softmax: largest is not taken off", "exp_of_difference(s, x[i] - largest), 12)", "exp_of_difference(s, x[i]), 12)"),
        tflite("softmax: lowest level", "y[i] = lowest + (level", "y[i] = (level"),
        tflite("16-bit product: half down where negative", "ab >= 0 ? 1 << 14 : 1 - (1 << 14)", "ab >= 0 ? 1 << 14 : -(1 << 14)"),
        tflite("16-bit multiplier: cut", "(m + (1 << 15)) >> 16", "m >> 16"),
        tflite("hard swish: rounds its last product", "const int32_t product = high_mul16_truncated(", "const int32_t product = high_mul16("),
        tflite("hard swish: zero point of the input", "(q - u->input.zero_point) * (1 << 7)", "q * (1 << 7)"),
        tflite("hard swish: zero point of the result", "-u->identity.shift) + u->output.zero_point", "-u->identity.shift)"),
        tflite("functions: zero point of the input", "const int32_t v = q - u->input.zero_point,", "const int32_t v = q,"),
        tflite("leaky relu: zero point of the result", "v >= 0 ? u->identity : u->negative) + zo,", "v >= 0 ? u->identity : u->negative),"),
        tflite("functions: half to even", "y = roundf(u->function", "y = nearbyintf(u->function"),
        tflite("functions: zero point of the result", "(int32_t)y + zo", "(int32_t)y"),
    ]


def integers():
    """Zero-point terms of the kernels on stored integers, of conversions between spaces and of what is read from a file."""
    def term(name, file, old, new, tests=INTEGER, equivalent=""):
        return Mutation("stored integers", name, file, old, new, tests, equivalent)

    merge, mac, pack, convert = "simq/kernel_int_merge.c", "simq/int_mac.c", "simq/int_pack.c", "simq/convert.c"
    return [
        term("add, mul: of a", merge, "s->za = (float)a->zero_point[0];", "s->za = 0;"),
        term("add, mul: of b", merge, "s->zb = (float)b->zero_point[0];", "s->zb = 0;"),
        term("add, mul: of the result", merge, "s->zc = (float)c->zero_point[0];", "s->zc = 0;"),
        term("add: no fused multiply-add", merge, "fmaf(qa, s.ra, fmaf(qb, s.rb, s.k))", "(qa * s.ra + (qb * s.rb + s.k))"),
        term("add: constant without a", merge, "s->k = s->zc - fmaf(s->ra, s->za, s->rb * s->zb);", "s->k = s->zc - s->rb * s->zb;"),
        term("add: constant without b", merge, "s->k = s->zc - fmaf(s->ra, s->za, s->rb * s->zb);", "s->k = s->zc - s->ra * s->za;"),
        term("mul: rounds before it adds the zero point", merge, "((qb)-s.zb) * s.m + s.zc, native)", "((qb)-s.zb) * s.m, native) + s.zc"),
        term("sub: limits without the zero point", merge, "s.lo - s.zc, s.hi - s.zc) + s.zc)", "s.lo, s.hi) + s.zc)"),
        term("sub: of the result", merge, "s.lo - s.zc, s.hi - s.zc) + s.zc)", "s.lo - s.zc, s.hi - s.zc))"),
        term("mean: of rows side by side", merge, "for (int64_t i = 0; i < n; i++) y[i] += x[i] - zero; ", "for (int64_t i = 0; i < n; i++) y[i] += x[i]; "),
        term("mean: of one sum", merge, "sum += x[i * xs] - zero;", "sum += x[i * xs];"),
        term("mean: of rows apart", merge, "y[i * ys] += x[i * xs] - zero;", "y[i * ys] += x[i * xs];"),
        term("mean: no 1/n", merge, "float scale = to.scale[0] * n;", "float scale = to.scale[0];"),
        term("clip: lower bound", merge, "*(const float *)p->in[1].data, a, s->levels) - a.zero_point)", "*(const float *)p->in[1].data, a, s->levels))"),
        term("clip: upper bound", merge, "*(const float *)p->in[2].data, a, s->levels) - a.zero_point)", "*(const float *)p->in[2].data, a, s->levels))"),
        term("average pool: taken off", "simq/kernel_int_average.c", "sum += level_at(x, at) - s->zero;", "sum += level_at(x, at);"),
        term("average pool: put back", "simq/kernel_int_average.c", "sum + count * s->zero, count", "sum, count"),
        term("products: data held less 128", mac, "m->zero -= m->shift;", ""),
        term("products: pads of bytes", mac, "memset(to, m->zero, n);", "memset(to, 0, n);"),
        term("products: pads of 16 bits", mac, "y[i] = (int16_t)m->zero;", "y[i] = 0;"),
        term("products: of the data, in the bias", mac, ".zero = m->serial ? 0 : m->zero,", ".zero = 0,"),
        term("products: of the data by channel, in the bias", mac, ".zeros = m->serial ? NULL : m->zeros}", ".zeros = NULL}"),
        term("products: by channel, data held less 128", mac, "s->zero_point[c]) - m->shift;", "s->zero_point[c]);"),
        term("products: pads of bytes by channel", mac, "to[i] = (uint8_t)m->zeros[i % channels];", "to[i] = (uint8_t)m->zeros[0];"),
        term("products: pads of 16 bits by channel", mac, "(int16_t)m->zeros[i % channels];", "(int16_t)m->zeros[0];"),
        term("products: bytes that hold all channels", mac, "m->d.data_type == QC_F32 && c < s->count", "m->d.data_type == QC_F32 && c < 1"),
        term("products: of the data, in narrow sums", mac, "m->zeros ? m->zeros[group] : m->zero,", "0,"),
        term("products: of the data by channel, in narrow sums", mac, "m->zeros ? m->zeros[group] : m->zero,", "m->zero,"),
        term("products: of weights in the bound of a sum", "graph/tensor.c", "const int64_t d = (int64_t)v[k] - z;", "const int64_t d = v[k];", ("test_graph",)),
        term("products: of uint8 weights", pack, "((const uint8_t *)weights)[at] - zero", "((const uint8_t *)weights)[at]"),
        term("products: of int8 weights", pack, "((const int8_t *)weights)[at] - zero", "((const int8_t *)weights)[at]"),
        term("products: of uint16 weights", pack, "((const uint16_t *)weights)[at] - zero", "((const uint16_t *)weights)[at]"),
        term("products: of int16 weights", pack, "((const int16_t *)weights)[at] - zero", "((const int16_t *)weights)[at]",
             equivalent="weights less their zero point fit 16 bits (check_weights), so that of int16 is 0"),
        term("dense: bias", pack, "(uint32_t)given[c] : 0) - (uint32_t)(p->zeros ? p->zeros[g] : p->zero) * (uint32_t)bias[c]", "(uint32_t)given[c] : 0)"),
        term("depthwise: bias", pack, "(uint32_t)given[g] - (uint32_t)(p->zeros ? p->zeros[g] : p->zero) * sum", "(uint32_t)given[g] - 0 * sum"),
        term("clip: bounds by channel", "simq/kernel_clamp.c", "qc_quantize_one(bound, p, q->levels) - p.zero_point)", "qc_quantize_one(bound, p, q->levels))"),
        term("centred from stored, per channel", convert, "y[i] = (float)(x[i] - zero[i]);", "y[i] = (float)x[i];"),
        term("centred from stored", convert, "y[i] = (float)(x[i] - *zero);", "y[i] = (float)x[i];"),
        term("stored from centred, per channel", convert, "y[i] = (T)((int32_t)x[i] + zero[i]);", "y[i] = (T)(int32_t)x[i];"),
        term("stored from centred", convert, "y[i] = (T)((int32_t)x[i] + *zero);", "y[i] = (T)(int32_t)x[i];"),
        term("requantize into a site", convert, "qc_clamp(v *a[k], lo[k], hi[k]), native) + zero[k]", "qc_clamp(v *a[k], lo[k], hi[k]), native)"),
        term("quantize into a site", convert, "v / b[k], native), lo[k], hi[k]) + zero[k]", "v / b[k], native), lo[k], hi[k])"),
        term("fixed-point limits of a fused clip", convert, "(int32_t)centred + zero : level", "(int32_t)centred : level"),
        term("a pad's constant", "simq/kernel_pad.c", ".zero_point = scales->zero_point[0]}", ".zero_point = 0}", INTEGER),
        term("read from a quantized model", "rewrite/canonical_classes.c", "zero[i] = (int32_t)q;", "zero[i] = 0;", REWRITE),
        term("a bound between integers, as a real number", "rewrite/canonical_op.c", "(float)(level - s->zero_point[0]) * s->scale[0]", "(float)level * s->scale[0]", REWRITE),
        term("relu between integers", "rewrite/canonical_op.c", "bound[0] == s->zero_point[0] && bound[1] == levels.hi", "bound[1] == levels.hi", REWRITE),
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
    """Each rule without its guards, and each rule gone."""
    same = {"conv3d_bias_apart": "convolutions have one to three spatial dimensions, and those of one and two are taken by the rules before it"}
    for name in ("normalise", "patterns", "islands", "requantize", "bias_apart", "bias_narrowed"):
        file = f"rewrite/rules/{name}.rules"
        text = (ROOT / file).read_text()
        for rule in re.finditer(r"^(rule|pattern|island) (\w+)\n(?:[ \t].*\n)+", text, re.M):
            yield Mutation("rule", f"{rule[2]} is gone", file, rule[0], "", REWRITE)
            guards = re.search(r"^  when (?:.* and\n)*.*\n", rule[0], re.M)
            if guards:
                yield Mutation("rule", f"{rule[2]} without guards", file, rule[0], rule[0].replace(guards[0], ""), REWRITE, same.get(rule[2], ""))


def guards():
    """Each guard of the table turned round: 0 becomes 1, 1 becomes 0, other numbers one more."""
    text = (ROOT / "rewrite/guard.c").read_text()
    begin = text.index("static const struct qc_guard_info guards[]")
    for entry in re.finditer(r"\.name = \"(\w+)\"[^}]*?(?:\{[^}]*\}[^}]*?)?\.value = (\w+)\}", text[begin:]):
        broken = "static double broken(const struct qc_guard_call *call)\n{\n    double v = " + entry[2] + "(call);\n    return v == 0 ? 1 : v == 1 ? 0 : v + 1;\n}\n\n"
        table = text[begin:]
        changed = table[:entry.start(2)] + "broken" + table[entry.end(2):]
        yield Mutation("guard", entry[1], "rewrite/guard.c", text, text[:begin] + broken + changed, REWRITE)


def every():
    return [*by_hand(), *contracts(), *integers(), *of_rooms(Mutation), *allow_list(), *guards(), *rules()]
