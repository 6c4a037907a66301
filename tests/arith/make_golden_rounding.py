#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden_rounding.txt: the results of the rounding contracts of docs/numerics.md, in Python's exact rational
arithmetic (no code of the project, no numpy). A float32 step is the exact rational result, rounded half to even to 24
bits.

    python3 tests/arith/make_golden_rounding.py > tests/arith/golden_rounding.txt
"""

import math
import random
import struct
from fractions import Fraction as F

random.seed(20240607)
CONTRACTS = ["onnx", "tflite", "tflite-single", "qnn-tonearest"]
TYPES = {
    "u8": (0, 255),
    "i8": (-128, 127),
    "u16": (0, 65535),
    "i16": (-32768, 32767),
    "u4": (0, 15),
    "i4": (-8, 7),
    "i32": (-(2**31), 2**31 - 1),
}


def half_even(x):
    return round(x)  # Python rounds Fractions half to even


def half_up(x):
    return math.floor(x + F(1, 2))


def half_away(x):
    return half_up(x) if x >= 0 else -half_up(-x)


def f(x):
    """The float32 nearest to a rational, half to even (normal results only)."""
    x = F(x)
    if x == 0:
        return x
    e = math.floor(math.log2(abs(x)))
    e += (F(2) ** (e + 1) <= abs(x)) - (F(2) ** e > abs(x))
    assert -126 <= e < 128
    unit = F(2) ** (e - 23)
    return half_even(x / unit) * unit


def double(x):
    return F(float(x))  # true division of ints, correctly rounded by Python


def clamp(x, lo, hi):
    return max(lo, min(hi, x))


def fixed(m):
    """QuantizeMultiplier of a double: m = M / 2^31 * 2^shift."""
    significand, shift = math.frexp(float(m))
    multiplier = half_away(F(significand) * 2**31)
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    return (multiplier, shift) if shift >= -31 else (0, 0)


def multiply(contract, x, multiplier, shift):
    """Not saturated. tflite: SaturatingRoundingDoublingHighMul of x * 2^shift, which is half upward, then
    RoundingDivideByPOT."""
    if contract == "tflite":
        return half_away(F(half_up(F(x * 2 ** max(shift, 0)) * multiplier / 2**31), 2 ** max(-shift, 0)))
    exact = F(x) * multiplier / 2**31 * F(2) ** shift
    return half_up(exact) if contract == "tflite-single" else half_away(exact)


def saturate32(x):
    return clamp(x, -(2**31), 2**31 - 1)


def quantize(contract, x, s, z, lo, hi):
    if contract == "xnnpack":
        return clamp(half_even(f(x * f(1 / s))) + z, lo, hi)
    r = f(x / s)
    return clamp((half_even(r) if contract == "onnx" else half_away(r)) + z, lo, hi)


def requantize(contract, source, sx, zx, sw, sy, zy, lo, hi, n, acc):
    if contract == "xnnpack":
        ratio = f(sx / sy)
        if source == "sum":
            a = f(ratio * f(F(1, n)))
            return clamp(half_even(f(f((acc + n * zx) * a) + f(zy - f(f(n * zx) * a)))), lo, hi)
        if source == "site" and F(1, 2**8) <= ratio <= 2**7:
            return clamp((half_even(ratio * 2**8) * (acc - zx) + 2**7 >> 8) + zy, lo, hi)
        contract = "tflite" if source == "site" else "onnx"
    if contract == "onnx":
        if source == "site":
            r = f(f(sx * f(acc - zx)) / sy)
        elif source == "sum":
            r = f(f(acc) * f(sx / f(sy * n)))
        else:
            r = f(f(acc) * f(f(sx * sw) / sy))
        return clamp(half_even(r) + zy, lo, hi)
    if source == "site":
        if sx == sy:
            return clamp(acc - zx + zy, lo, hi)
        m = fixed(double(sx / sy))
        return clamp(multiply(contract, acc - zx, *m) + zy, lo, hi)
    if source == "sum":
        if contract != "tflite":
            return clamp(multiply(contract, acc, *fixed(double(sx / double(sy * n)))) + zy, lo, hi)
        multiplier, shift = fixed(double(sx / sy))
        k = min(n.bit_length() - 1, 32, 31 + shift)
        return clamp(multiply(contract, acc, (multiplier << k) // n, shift - k) + zy, lo, hi)
    product = f(sx * sw) if source == "dense" and contract == "tflite" else double(sx * sw)
    return clamp(multiply(contract, acc, *fixed(double(product / sy))) + zy, lo, hi)


def qbinary(contract, op, types, sa, za, sb, zb, sc, zc, a, b):
    va, vb, (lo, hi) = a - za, b - zb, TYPES[types[2]]
    if contract == "xnnpack":
        ra, rb, rm = f(sa / sc), f(sb / sc), f(f(sa * sb) / sc)
        if types == ("i8",) * 3 and op == "mul" and F(1, 2**16) <= rm < 2**8:
            return clamp(half_even(f(va * vb * rm)) + zc, lo, hi)
        if types == ("i8",) * 3 and op != "mul" and all(F(1, 2**10) <= r < 2**8 for r in (ra, rb)):
            shift = 21 - math.frexp(float(max(ra, rb)))[1]
            ma, mb = half_even(ra * 2**shift), half_even(rb * 2**shift) * (1 if op == "add" else -1)
            return clamp((va * ma + vb * mb + 2 ** (shift - 1) >> shift) + zc, lo, hi)
        contract = "tflite"
    if contract == "onnx":
        if op == "add":
            ra, rb = f(sa / sc), f(sb / sc)
            k = f(zc - f(ra * za + f(rb * zb)))
            return clamp(half_even(f(a * ra + f(b * rb + k))), lo, hi)
        if op == "mul":
            return clamp(half_even(f(f(f(va * vb) * f(f(sa * sb) / sc)) + zc)), lo, hi)
        return clamp(half_even(f(f(f(va * sa) - f(vb * sb)) / sc)) + zc, lo, hi)
    if op == "mul":
        m = f(f(sa * sb) / sc) if contract == "tflite" else double(double(sa * sb) / sc)
        return clamp(multiply(contract, va * vb, *fixed(m)) + zc, lo, hi)
    sign = 1 if op == "add" else -1
    if contract == "tflite":
        left, most = left_shift(types, za, zb), 2 * max(sa, sb)
        ra = multiply(contract, va * 2**left, *fixed(double(sa / most)))
        rb = multiply(contract, vb * 2**left, *fixed(double(sb / most)))
        return clamp(multiply(contract, ra + sign * rb, *fixed(double(most / double(2**left * sc)))) + zc, lo, hi)
    ra = va if sa == sc else multiply(contract, va, *fixed(double(sa / sc)))
    rb = vb if sb == sc else multiply(contract, vb, *fixed(double(sb / sc)))
    return clamp(ra + sign * rb + zc, lo, hi)


def left_shift(types, za, zb):
    """TensorFlow Lite's 20 for types of 8 bits and 15 for int16 without zero points; 15 too where both operands less their
    zero points have 16 bits, else 14."""
    if all(TYPES[t][0] >= -128 and TYPES[t][1] <= 255 for t in types):
        return 20
    largest = max(max(TYPES[t][1] - z, z - TYPES[t][0]) for t, z in zip(types, (za, zb)))
    return 15 if largest <= 2**15 else 14


def float_text(x):
    """A float32 as its bits."""
    return f"{struct.unpack('>I', struct.pack('>f', float(x)))[0]:08x}"


def scale(low=-8.0, high=0.0):
    if random.random() < 0.25:
        return F(2) ** random.randint(int(low), int(high))  # ties
    return f(F(math.exp(random.uniform(low, high))))


def levels():
    return random.choice([(-128, 127), (0, 255), (-127, 127), (-32768, 32767), (0, 65535), (-8, 7)])


def near_ties():
    """Scales that put a result as near to k + 1/2 as float32 allows, where every step of a recipe counts."""
    lo, hi = -128, 127
    for contract in CONTRACTS:
        for source in ("product", "dense", "site", "sum"):
            for _ in range(60):
                sx, sw, zx = scale(-6, -1), scale(-6, -1), random.randint(lo, hi) if source == "site" else 0
                acc, n, k = (
                    random.randint(lo, hi) if source == "site" else random.randint(-100000, 100000),
                    random.randint(1, 300),
                    random.randint(-100, 100),
                )
                real = {"site": sx * (acc - zx), "sum": sx * acc / n}.get(source, sx * sw * acc)
                if real / (k + F(1, 2)) <= 0:
                    continue
                sy, zy = f(real / (k + F(1, 2))), random.randint(-20, 20)
                write_requantize(contract, source, sx, zx, sw, sy, zy, lo, hi, n, acc)
        for op in ("add", "sub", "mul"):
            for _ in range(100):
                sa, sb, k = scale(-4, 0), scale(-4, 0), random.randint(-100, 100)
                za, zb, zc, a, b = (random.randint(-60, 60) for _ in range(5))
                va, vb = a - za, b - zb
                real = {"add": sa * va + sb * vb, "sub": sa * va - sb * vb}.get(op, sa * sb * va * vb)
                if real / (k + F(1, 2)) <= 0 or (op != "mul" and real / (k + F(1, 2)) < max(sa, sb) / 1000):
                    continue
                sc = f(real / (k + F(1, 2)))
                write_qbinary(contract, op, ("i8", "i8", "i8"), sa, za, sb, zb, sc, zc, [(a, b)])
    write_requantize("tflite", "sum", F(1, 2**20), 0, F(1), F(64), 5, lo, hi, 1000, 2**31 - 1)  # a shift of -35


def main():
    print("# Made by make_golden_rounding.py: exact rational arithmetic.")
    ratios = [
        0.5,
        1.0,
        0.01,
        1 - 2**-53,
        1 - 2**-33,
        0.5 - 2**-40,
        2.0**-31,
        2.0**-32,
        2.0**-33,
        3.0 * 2**-34,
        2.0**29,
        0.1,
        1 / 3,
        1e-20,
    ]
    for m in ratios + [math.exp(random.uniform(-20, 15)) for _ in range(100)]:
        print("fixed", struct.pack(">d", m).hex(), *fixed(m))
    edges = [
        0,
        1,
        -1,
        2,
        -2,
        3,
        -3,
        5,
        -5,
        2**30,
        -(2**30),
        2**31 - 1,
        -(2**31),
        -(2**31) + 1,
        2**24 + 1,
        12345678,
        -12345678,
    ]
    multipliers = [2**30, 2**31 - 1, 1374389535, 0, 2**30 + 1, 1518500250]
    for contract in CONTRACTS[1:]:
        cases = [(x, m, s) for x in edges for m in multipliers for s in (-31, -30, -8, -1, 0, 1, 3, 30)]
        cases = random.sample(cases, 150) + [
            (
                random.randint(-(2**31), 2**31 - 1) >> random.randint(0, 30),
                random.randint(2**30, 2**31 - 1),
                random.randint(-31, 12),
            )
            for _ in range(80)
        ]
        for x, m, s in cases:
            print("multiply", contract, x, m, s, saturate32(multiply(contract, x, m, s)))
    for contract in CONTRACTS:
        for _ in range(50):
            s, (lo, hi) = scale(), levels()
            z = random.randint(lo, hi)
            x = f(s * F(random.randint(2 * (lo - z) - 4, 2 * (hi - z) + 4), 2))
            print("quantize", contract, float_text(x), float_text(s), z, lo, hi, quantize(contract, x, s, z, lo, hi))
        for source in ("product", "dense", "site", "sum"):
            for _ in range(60):
                sx, sw, sy, (lo, hi) = scale(-6, -1), scale(-6, -1), scale(-4, 1), levels()
                if source == "site" and random.random() < 0.2:
                    sy = sx
                zy, n = random.randint(lo, hi), random.randint(1, 300)
                zx = random.randint(lo, hi) if source == "site" else 0
                ratio = {"site": sx / sy, "sum": sx / sy / n}.get(source, sx * sw / sy)
                acc = (
                    random.randint(lo, hi)
                    if source == "site"
                    else round((random.randint(2 * (lo - zy) - 4, 2 * (hi - zy) + 4) / F(2)) / ratio)
                )
                acc = clamp(acc + random.choice([0, 0, 1, -1]), -(2**31), 2**31 - 1)
                if source == "product" and random.random() < 0.05:
                    acc = random.choice([-(2**31), 2**31 - 1])
                write_requantize(contract, source, sx, zx, sw, sy, zy, lo, hi, n, acc)
        for op in ("add", "sub", "mul"):
            for _ in range(50):
                types = (random.choice(list(TYPES)[:6]),) * 3
                lo, hi = TYPES[types[0]]
                sa, sb = scale(-4, 0), scale(-4, 0)
                sc = f(max(sa, sb) * F(random.choice([1, 2, 0.7, 1.5, random.uniform(0.6, 3)])))
                if op == "mul":
                    sc = f(sa * sb * (hi - lo) * F(random.uniform(0.2, 0.6)))
                elif random.random() < 0.2:
                    sc = sa
                za, zb, zc, a, b = (random.randint(lo, hi) for _ in range(5))
                if hi > 255 and random.random() < 0.5:
                    za = zb = 0
                write_qbinary(contract, op, types, sa, za, sb, zb, sc, zc, [(a, b)])


def write_qbinary(contract, op, types, sa, za, sb, zb, sc, zc, pairs):
    print(
        "qbinary",
        contract,
        op,
        *types,
        float_text(sa),
        za,
        float_text(sb),
        zb,
        float_text(sc),
        zc,
        *(f"{a} {b} {qbinary(contract, op, types, sa, za, sb, zb, sc, zc, a, b)}" for a, b in pairs),
    )


def end_or_any(t):
    lo, hi = TYPES[t]
    return random.choice([lo, hi, lo, hi, 0, random.randint(lo, hi)])


def ratio(lowest=-40):
    """2^-40 to just below 2^30, ends and ones that put results inside the levels often."""
    if random.random() < 0.3:
        return F(2) ** random.choice([lowest, -31, -32, -17, -1, 0, 1, 14, 29])
    exponent = random.uniform(lowest, 30) if random.random() < 0.5 else random.uniform(-18, 2)
    return min(f(F(math.exp2(exponent))), f(F(2) ** 30 - 64))


def corners():
    """Every triple of types, every contract: zero points and numbers at both ends, ratios of scales from 2^-40 to 2^30."""
    short = list(TYPES)[:4]
    triples = [(a, b, c) for a in short for b in short for c in short]
    few = [
        (a, b, c) for a in TYPES for b in TYPES for c in TYPES if "i32" not in (a, b, c) and {"u4", "i4"} & {a, b, c}
    ]
    triples += [t for t in few if random.random() < 0.15]
    for types in triples:
        for contract in CONTRACTS:
            for op in ("add", "sub", "mul", "mul"):
                za, zb, zc = (end_or_any(t) for t in types)
                sc = scale(-6, 6)
                if op == "mul":
                    sa = scale(-6, 6)
                    reach = [max(abs(x - z) for x in TYPES[t]) for t, z in zip(types, (za, zb))]
                    largest = max(1, reach[0] * reach[1])
                    # Every other time the largest product is about the largest level.
                    wide = TYPES[types[2]][1] - TYPES[types[2]][0]
                    m = random.choice([ratio(), F(random.uniform(0.3, 1.5)) * wide / largest])
                    sb = f(sc * m / sa)
                    while f(sa * sb) / sc >= F(2) ** 30 or sa * sb / sc >= F(2) ** 30:
                        sb = f(sb / 2)
                else:
                    sa, sb = f(sc * ratio()), f(sc * ratio())
                    if random.random() < 0.5:  # of like size
                        sb = f(sa * F(random.uniform(0.5, 2)))
                    if random.random() < 0.1:
                        sb = sc
                    sa, sb = (s if s / sc < F(2) ** 30 else f(s / 4) for s in (sa, sb))
                pairs = [(a, b) for a in TYPES[types[0]] for b in TYPES[types[1]]]
                pairs += [(random.randint(*TYPES[types[0]]), random.randint(*TYPES[types[1]])) for _ in range(4)]
                write_qbinary(contract, op, types, sa, za, sb, zb, sc, zc, pairs)
    for contract in CONTRACTS[1:]:  # sa*sb/sc is 2^30 less 2^-16: its multiplier is that of 2^30, the shift 31
        sa, sb = 1 + F(1, 2**23), (1 - F(1, 2**23)) * 2**30
        for zc in (0, 255):
            if contract != "tflite":
                pairs = [(2, 4), (3, 9), (4, 4), (0, 255)]
                write_qbinary(contract, "mul", ("u8", "u8", "u8"), sa, 3, sb, 3, F(1), zc, pairs)
            for acc in (-(2**31), -2, -1, 0, 1, 2, 2**31 - 1):
                write_requantize(contract, "product", sa, 0, sb, F(1), zc, 0, 255, 1, acc)
    for contract in CONTRACTS:
        for source in ("product", "dense", "site", "sum"):
            for t in list(TYPES)[:6]:
                for x in list(TYPES) if source == "site" else ["i32"]:
                    for _ in range(2):
                        sx, sw, n = scale(-6, 6), scale(-6, 6), random.choice([1, 2, 49, 65536, 1000003])
                        zy, (lo, hi) = end_or_any(t), TYPES[t]
                        zx = end_or_any(x) if source == "site" else 0
                        whole = sx * sw if source in ("product", "dense") else sx
                        like = F(hi - lo) / (TYPES[x][1] - TYPES[x][0])
                        sy = f(whole / random.choice([ratio(), like * F(random.uniform(0.5, 2))]))
                        while whole / sy >= F(2) ** 30 or f(sx * sw) / sy >= F(2) ** 30:
                            sy = f(sy * 2)
                        for acc in {*TYPES[x], zx, random.randint(*TYPES[x])}:
                            write_requantize(contract, source, sx, zx, sw, sy, zy, lo, hi, n, acc)


def write_requantize(contract, source, sx, zx, sw, sy, zy, lo, hi, n, acc):
    y = requantize(contract, source, sx, zx, sw, sy, zy, lo, hi, n, acc)
    print("requantize", contract, source, float_text(sx), zx, float_text(sw), float_text(sy), zy, lo, hi, n, acc, y)


def xnnpack():
    """The arithmetic of XNNPACK: quotients and sums of bytes that are often halfway between two levels."""
    lo, hi = TYPES["i8"]
    for _ in range(120):
        zx, zy, n = (random.randint(lo, hi), random.randint(lo, hi), random.randint(1, 300))
        sx, sw, sy = scale(-6, -1), scale(-6, -1), scale(-6, 1)
        if random.random() < 0.5:
            sy = f(sx * random.choice([F(1, 2), F(2), F(3, 4), F(3), F(1, 300), F(150)]))
        x = f(sx * F(random.randint(2 * lo, 2 * hi) + 1, 2))
        print("quantize xnnpack", float_text(x), float_text(sx), zy, lo, hi, quantize("xnnpack", x, sx, zy, lo, hi))
        write_requantize("xnnpack", "site", sx, zx, sw, sy, zy, lo, hi, n, random.randint(lo, hi))
        mean = F(random.randint(2 * lo, 2 * hi) + random.randint(0, 1), 2) * sy / sx
        write_requantize("xnnpack", "sum", sx, zx, sw, sy, zy, lo, hi, n, round(mean * n))
        write_requantize("xnnpack", random.choice(["product", "dense"]), sx, 0, sw, sy, zy, lo, hi, n, random.randint(-20000, 20000))
        sa, sb = (f(sy * (F(random.uniform(0.001, 4)) if random.random() < 0.5 else F(1, 2) ** random.randint(-8, 11))) for _ in "ab")
        for op in ("add", "sub", "mul"):
            sc = f(sa * sb * F(2) ** random.randint(-9, 17)) if op == "mul" else sy
            a, b = random.randint(lo, hi), random.randint(lo, hi)
            write_qbinary("xnnpack", op, ("i8",) * 3, sa, zx, sb, zy, sc, random.randint(lo, hi), [(a, b)])
    write_qbinary("xnnpack", "add", ("i16",) * 3, F(1, 2), 0, F(1, 4), 0, F(1), 0, [(301, -77), (32767, 3)])


main()
near_ties()
corners()
xnnpack()
