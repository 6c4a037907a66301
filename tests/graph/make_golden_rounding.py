#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden_rounding.txt: what the rounding contracts of docs/numerics.md give, in exact rational arithmetic of Python (no code of the
project, no numpy). A float32 step is the exact rational result, rounded half to even to 24 bits.

    python3 tests/graph/make_golden_rounding.py > tests/graph/golden_rounding.txt
"""
import math
import random
import struct
from fractions import Fraction as F

random.seed(20240607)
CONTRACTS = ["onnx", "tflite", "tflite-single", "qnn-tonearest"]


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


def wrap(x):
    return (x + 2**31) % 2**32 - 2**31


def multiply(contract, x, multiplier, shift):
    if contract == "tflite":
        a = wrap(x << max(shift, 0)) * multiplier  # SaturatingRoundingDoublingHighMul divides by 2^31 and truncates
        nudge = 2**30 if a >= 0 else 1 - 2**30
        high = int(F(a + nudge, 2**31))
        return half_away(F(high, 2 ** max(-shift, 0)))
    exact = F(x) * multiplier / 2**31 * F(2) ** shift
    return clamp(half_up(exact) if contract == "tflite-single" else half_away(exact), -(2**31), 2**31 - 1)


def quantize(contract, x, s, z, lo, hi):
    r = f(x / s)
    return clamp((half_even(r) if contract == "onnx" else half_away(r)) + z, lo, hi)


def requantize(contract, source, sx, zx, sw, sy, zy, lo, hi, n, acc):
    if contract == "onnx":
        if source == "site":
            r = f(f(sx * (acc - zx)) / sy)
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


def merge(contract, op, sa, za, sb, zb, sc, zc, lo, hi, a, b):
    va, vb = a - za, b - zb
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
        left, most = 20 if hi < 256 else 15 if za == zb == 0 else 14, 2 * max(sa, sb)
        ra = multiply(contract, va << left, *fixed(double(sa / most)))
        rb = multiply(contract, vb << left, *fixed(double(sb / most)))
        return clamp(multiply(contract, ra + sign * rb, *fixed(double(most / double(2**left * sc)))) + zc, lo, hi)
    ra = va if sa == sc else multiply(contract, va, *fixed(double(sa / sc)))
    rb = vb if sb == sc else multiply(contract, vb, *fixed(double(sb / sc)))
    return clamp(ra + sign * rb + zc, lo, hi)


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
                acc, n, k = random.randint(lo, hi) if source == "site" else random.randint(-100000, 100000), random.randint(1, 300), random.randint(-100, 100)
                real = {"site": sx * (acc - zx), "sum": sx * acc / n}.get(source, sx * sw * acc)
                if real / (k + F(1, 2)) <= 0:
                    continue
                sy, zy = f(real / (k + F(1, 2))), random.randint(-20, 20)
                y = requantize(contract, source, sx, zx, sw, sy, zy, lo, hi, n, acc)
                print("requantize", contract, source, float_text(sx), zx, float_text(sw), float_text(sy), zy, lo, hi, n, acc, y)
        for op in ("add", "sub", "mul"):
            for _ in range(100):
                sa, sb, k = scale(-4, 0), scale(-4, 0), random.randint(-100, 100)
                za, zb, zc, a, b = (random.randint(-60, 60) for _ in range(5))
                va, vb = a - za, b - zb
                real = {"add": sa * va + sb * vb, "sub": sa * va - sb * vb}.get(op, sa * sb * va * vb)
                if real / (k + F(1, 2)) <= 0 or (op != "mul" and real / (k + F(1, 2)) < max(sa, sb) / 1000):
                    continue
                sc = f(real / (k + F(1, 2)))
                print("merge", contract, op, float_text(sa), za, float_text(sb), zb, float_text(sc), zc, lo, hi, a, b,
                      merge(contract, op, sa, za, sb, zb, sc, zc, lo, hi, a, b))
    sx, sy, y = F(1, 2**20), F(64), requantize("tflite", "sum", F(1, 2**20), 0, 1, F(64), 5, lo, hi, 1000, 2**31 - 1)
    print("requantize tflite sum", float_text(sx), 0, float_text(1), float_text(sy), 5, lo, hi, 1000, 2**31 - 1, y)  # a shift of -35


def main():
    print("# Made by make_golden_rounding.py: exact rational arithmetic.")
    ratios = [0.5, 1.0, 0.01, 1 - 2**-53, 1 - 2**-33, 0.5 - 2**-40, 2.0**-31, 2.0**-32, 2.0**-33, 3.0 * 2**-34, 2.0**29, 0.1, 1 / 3, 1e-20]
    for m in ratios + [math.exp(random.uniform(-20, 15)) for _ in range(100)]:
        print("fixed", struct.pack(">d", m).hex(), *fixed(m))
    edges = [0, 1, -1, 2, -2, 3, -3, 5, -5, 2**30, -(2**30), 2**31 - 1, -(2**31), -(2**31) + 1, 2**24 + 1, 12345678, -12345678]
    multipliers = [2**30, 2**31 - 1, 1374389535, 0, 2**30 + 1, 1518500250]
    for contract in CONTRACTS[1:]:
        cases = [(x, m, s) for x in edges for m in multipliers for s in (-31, -30, -8, -1, 0, 1, 3, 30)]
        cases = random.sample(cases, 150) + [(random.randint(-(2**31), 2**31 - 1) >> random.randint(0, 30), random.randint(2**30, 2**31 - 1),
                                              random.randint(-31, 12)) for _ in range(80)]
        for x, m, s in cases:
            print("multiply", contract, x, m, s, multiply(contract, x, m, s))
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
                acc = random.randint(lo, hi) if source == "site" else round((random.randint(2 * (lo - zy) - 4, 2 * (hi - zy) + 4) / F(2)) / ratio)
                acc = clamp(acc + random.choice([0, 0, 1, -1]), -(2**31), 2**31 - 1)
                if source == "product" and random.random() < 0.05:
                    acc = random.choice([-(2**31), 2**31 - 1])
                y = requantize(contract, source, sx, zx, sw, sy, zy, lo, hi, n, acc)
                print("requantize", contract, source, float_text(sx), zx, float_text(sw), float_text(sy), zy, lo, hi, n, acc, y)
        for op in ("add", "sub", "mul"):
            for _ in range(50):
                (lo, hi) = levels()
                sa, sb = scale(-4, 0), scale(-4, 0)
                sc = f(max(sa, sb) * F(random.choice([1, 2, 0.7, 1.5, random.uniform(0.6, 3)])))
                if op == "mul":
                    sc = f(sa * sb * (hi - lo) * F(random.uniform(0.2, 0.6)))
                elif random.random() < 0.2:
                    sc = sa
                za, zb, zc, a, b = (random.randint(lo, hi) for _ in range(5))
                if hi > 255 and random.random() < 0.5:
                    za = zb = 0
                if hi == 65535 and za == zb == 0:
                    za = 1  # TFLite's left shift of 15 is for int16 with zero points 0
                if hi > 255 and op == "mul" and contract != "onnx":
                    a, b = clamp(za + random.randint(-40000, 40000), lo, hi), clamp(zb + random.randint(-40000, 40000), lo, hi)
                print("merge", contract, op, float_text(sa), za, float_text(sb), zb, float_text(sc), zc, lo, hi, a, b,
                      merge(contract, op, sa, za, sb, zb, sc, zc, lo, hi, a, b))


main()
near_ties()
