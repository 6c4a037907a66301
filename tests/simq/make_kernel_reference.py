#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes kernel_reference.txt: one-node graphs with the outputs that numpy or ONNX Runtime give, for what ONNX's node tests leave
out (element types, odd parameters). Needs numpy, onnx, onnxruntime. Usage: make_kernel_reference.py > kernel_reference.txt"""
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

warnings.simplefilter("ignore")
rng = np.random.default_rng(20240607)
NAMES = {np.dtype(t): n for t, n in [
    (np.float32, "f32"), (np.float64, "f64"), (np.float16, "f16"), (np.uint8, "u8"), (np.int8, "i8"), (np.uint16, "u16"),
    (np.int16, "i16"), (np.uint32, "u32"), (np.int32, "i32"), (np.uint64, "u64"), (np.int64, "i64"), (np.bool_, "bool")]}
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
ANY_SIZE = [np.uint8, np.float16, np.float32, np.int64]
f32 = np.float32


def number(v):
    if isinstance(v, (np.bool_, np.integer)):
        return str(int(v))
    if np.isnan(v):
        return "nan"
    if np.isinf(v):
        return "inf" if v > 0 else "-inf"
    text = repr(v.item()) if isinstance(v, np.float64) else np.format_float_scientific(v, unique=True, trim="-") if (
        v != 0 and not 1e-4 <= abs(v) < 1e6) else np.format_float_positional(v, unique=True, trim="-")
    return text


def tensor(a):
    a = np.asarray(a)
    return "%s[%s] = {%s}" % (NAMES[a.dtype], ",".join(map(str, a.shape)), ", ".join(number(v) for v in a.ravel()))


def attribute(v):
    if isinstance(v, str):
        return '"%s"' % v
    if isinstance(v, float):
        return number(f32(v)) + "f"
    if isinstance(v, list) and isinstance(v[0], str):
        return "strings[" + ",".join(map(attribute, v)) + "]"
    if isinstance(v, list) and isinstance(v[0], float):
        return "floats[" + ",".join(number(f32(a)) for a in v) + "]"
    if isinstance(v, list):
        return "[" + ",".join(map(str, v)) + "]"
    return str(v)


def case(name, op, inputs, want, early=(), **attrs):
    """early: numbers of the inputs that the kernel is given before it runs."""
    print("case %s" % name)
    late = 0
    names = []
    for i, a in enumerate(inputs):
        if a is None:
            names.append("-")
            continue
        print("const %%%d %s" % (len(names) + 1, tensor(a)))
        names.append("%%%d" % (i + 1))
        late |= 0 if i in early else 1 << i
    want = want if isinstance(want, (list, tuple)) else [want]
    first = max(int(n[1:]) for n in names if n != "-") + 1
    outs = ", ".join("%%%d : %s" % (first + k, tensor(w).split(" =")[0]) for k, w in enumerate(want))
    text = ", ".join("%s=%s" % (k, attribute(v)) for k, v in sorted(attrs.items()))
    print("%s = %s(%s)%s" % (outs, op, ", ".join(names), " {%s}" % text if text else ""))
    print("late %d" % late)
    for w in want:
        print("want %s" % tensor(w))
    print()


def runtime(op, inputs, opset=13, outputs=1, **attrs):
    names = ["" if a is None else "x%d" % i for i, a in enumerate(inputs)]
    node = helper.make_node(op, names, ["y%d" % k for k in range(outputs)], **attrs)
    given = [(n, a) for n, a in zip(names, inputs) if a is not None]
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given[:1]],
        [helper.make_tensor_value_info("y%d" % k, onnx.TensorProto.UNDEFINED, None) for k in range(outputs)],
        [numpy_helper.from_array(a, n) for n, a in given[1:]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    del graph.output[:]
    del model.graph.output[:]
    for k in range(outputs):
        model.graph.output.add().name = "y%d" % k
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {given[0][0]: given[0][1]})


def floats(*shape, t=f32, lo=-3.0, hi=3.0):
    return np.round(rng.uniform(lo, hi, shape), 3).astype(t)


def values(t, *shape):
    if np.issubdtype(t, np.floating):
        return floats(*shape, t=t)
    if t == np.bool_:
        return rng.integers(0, 2, shape).astype(t)
    info = np.iinfo(t)
    a = rng.integers(max(info.min, -2**40), min(info.max, 2**40), shape, endpoint=True).astype(t)
    return a


def distinct(t, *shape):
    return rng.permutation(int(np.prod(shape))).reshape(shape).astype(t)


def unary():
    wide = np.concatenate([np.linspace(-10, 10, 17), [0.0, -0.0, 0.3]]).astype(f32)
    unit = np.linspace(-1, 1, 15).astype(f32)
    positive = np.geomspace(1e-3, 1e3, 15).astype(f32)
    for op, opset, x, attrs in [
            ("LeakyRelu", 13, wide, {"alpha": 0.3}), ("Sigmoid", 13, wide, {}), ("Tanh", 13, wide, {}), ("HardSigmoid", 13, wide, {"alpha": 0.3, "beta": 0.4}),
            ("HardSwish", 14, wide, {}), ("Elu", 13, wide, {"alpha": 1.5}), ("Selu", 13, wide, {}), ("Selu", 13, wide, {"alpha": 1.2, "gamma": 0.8}),
            ("Celu", 13, wide, {"alpha": 0.7}), ("ThresholdedRelu", 13, wide, {"alpha": 2.0}), ("Softplus", 13, wide, {}), ("Softsign", 13, wide, {}),
            ("Mish", 18, wide, {}), ("Erf", 13, wide, {}), ("Exp", 13, wide, {}), ("Log", 13, positive, {}), ("Sqrt", 13, positive, {}),
            ("Reciprocal", 13, positive, {}), ("Sin", 13, wide, {}), ("Cos", 13, wide, {}), ("Tan", 13, unit, {}), ("Atan", 13, wide, {}),
            ("Asin", 13, unit, {}), ("Acos", 13, unit, {}), ("Sinh", 13, wide / f32(4), {}), ("Cosh", 13, wide / f32(4), {}), ("Floor", 13, wide, {}),
            ("Ceil", 13, wide, {}), ("Round", 13, wide, {}), ("Gelu", 20, wide, {}), ("Gelu", 20, wide, {"approximate": "tanh"})]:
        case("unary_" + op, op, [x.reshape(5, -1)], runtime(op, [x.reshape(5, -1)], opset, **attrs), **attrs)


def binary():
    with np.errstate(all="ignore"):
        for t in INTEGERS + [np.float32, np.float64]:
            a, b = values(t, 2, 3, 2), values(t, 3, 1)
            b[b == 0] = 1
            n = NAMES[np.dtype(t)]
            for op, f in [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Greater", np.greater), ("LessOrEqual", np.less_equal)]:
                case("%s_%s" % (op, n), op, [a, b], f(a, b))
            case("Div_" + n, "Div", [a, b], a / b if np.issubdtype(t, np.floating) else
                 np.array([[[int(abs(int(x)) // abs(int(y))) * (1 if (int(x) < 0) == (int(y) < 0) else -1) for x in r] for r, y in zip(m, b[:, 0])] for m in a]).astype(t))
            same = np.where(rng.integers(0, 2, a.shape), a, np.broadcast_to(b, a.shape)).astype(t)
            case("Equal_" + n, "Equal", [same, b], same == b)
            case("Max_" + n, "Max", [b, a], np.maximum(b, a))
            case("Min_" + n, "Min", [a, b], np.minimum(a, b))
            if t in INTEGERS:
                case("Mod_" + n, "Mod", [a, b], np.mod(a, b))
                case("Fmod_" + n, "Mod", [a, b], np.fmod(a, b), fmod=1)
    case("Div_most_negative", "Div", [np.array([-2**31, 7], np.int32), np.array([-1, -1], np.int32)], np.array([-2**31, -7], np.int32))
    case("Mod_most_negative", "Mod", [np.array([-2**63, 7], np.int64), np.array([-1, -2], np.int64)], np.array([0, -1], np.int64))
    base = np.array([[-3], [2], [0], [1], [-1]], np.int64)
    case("Pow_i64_i64", "Pow", [base, np.array([0, 1, 2, 5], np.int64)], base ** np.array([0, 1, 2, 5], np.int64))
    case("Pow_i32_negative", "Pow", [np.array([2, 1, -1, -1, -5], np.int32), np.array([-1, -4, -3, -2, -2], np.int64)], np.array([0, 1, -1, 1, 0], np.int32))
    case("Pow_i32_f32", "Pow", [np.array([2, 9, 4], np.int32), f32([3, 0.5, 1.5])], np.array([8, 3, 8], np.int32))
    x = floats(3, 4, lo=0.1)
    for e in (2, 3, 0.5, -1.5):
        case("Pow_f32_%g" % e, "Pow", [x, f32(e)], np.power(x, f32(e)))
    case("Pow_f32_i32", "Pow", [x, np.int32([2, 0, -1, 3])], np.power(x.astype(np.float64), [2, 0, -1, 3]).astype(f32))
    case("Pow_f64_f32", "Pow", [x.astype(np.float64), f32([2, 0.5, -1, 3])], np.power(x.astype(np.float64), [2, 0.5, -1, 3]))
    y = floats(2, 3, 4, 4)
    case("PRelu", "PRelu", [y, f32([[[0.1]], [[0.2]], [[-0.3]]])], np.where(y < 0, y * f32([[[0.1]], [[0.2]], [[-0.3]]]), y))
    nan = f32([1, np.nan, 3, np.inf])
    case("Max_nan", "Max", [nan, f32([2, 2, np.nan, 5])], np.maximum(nan, f32([2, 2, np.nan, 5])))
    case("Min_nan", "Min", [nan, f32([2, 2, np.nan, 5])], np.minimum(nan, f32([2, 2, np.nan, 5])))
    a, b, c = floats(2, 1, 4), floats(3, 1), floats(1)
    case("Sum_three", "Sum", [a, b, c], a + b + c)
    case("Mean_three", "Mean", [c, b, a], ((c + b + a) / f32(3)).astype(f32))
    p, q = values(np.bool_, 3, 4), values(np.bool_, 4)
    for op, f in [("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor), ("Equal", np.equal)]:
        case(op + "_bool", op, [p, q], f(p, q))
    for t in ANY_SIZE:
        a, b = values(t, 3, 1, 4), values(t, 2, 1)
        case("Where_" + NAMES[np.dtype(t)], "Where", [q, a, b], np.where(q, a, b))


def any_unary():
    for t in INTEGERS + [np.float32, np.float64]:
        x = values(t, 2, 3)
        if not np.issubdtype(t, np.floating):
            x[0, 0] = np.iinfo(t).min
        n = NAMES[np.dtype(t)]
        case("Abs_" + n, "Abs", [x], np.abs(x))
        case("Sign_" + n, "Sign", [x], np.sign(x))
        if not np.issubdtype(t, np.unsignedinteger):
            case("Neg_" + n, "Neg", [x], -x)
    case("Sign_nan", "Sign", [f32([np.nan, -0.0, np.inf])], f32([np.nan, 0, 1]))
    for t in (np.float16, np.float32, np.float64):
        x = np.array([1, np.nan, np.inf, -np.nan, 0], t)
        case("IsNaN_" + NAMES[np.dtype(t)], "IsNaN", [x], np.isnan(x))
    p = values(np.bool_, 7)
    case("Not", "Not", [p], ~p)


def cast():
    to = {NAMES[np.dtype(t)]: helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in NAMES}
    sources = {t: np.array([0, 1, 2, 100, 127, 3.75, 0.5, 60.25], np.float64).astype(t) for t in NAMES}
    for a in NAMES:
        for b in NAMES:
            if a != b:
                case("Cast_%s_%s" % (NAMES[a], NAMES[b]), "Cast", [sources[a]], sources[a].astype(b), to=to[NAMES[b]])
    negative = np.array([-1, -2.75, -0.5, -100], np.float64)
    for b in (np.int8, np.int16, np.int32, np.int64, np.float16, np.float32):
        case("Cast_negative_" + NAMES[np.dtype(b)], "Cast", [negative], negative.astype(b), to=to[NAMES[np.dtype(b)]])
    wide = np.array([2**40 + 300, -1, -129, 65537, 2**63 - 1], np.int64)
    for b in INTEGERS[:6] + [np.uint64, np.float32, np.float64]:
        case("Cast_wrap_" + NAMES[np.dtype(b)], "Cast", [wide], wide.astype(b), to=to[NAMES[np.dtype(b)]])
    # Halfway between two float16 in float32, but not in double: a detour over float32 rounds twice.
    tricky = np.array([1 + 2**-11 + 2**-40, 1 + 2**-11, 1 + 3 * 2**-11 - 2**-40, 1e-8, 70000.0, -np.inf, np.nan, 65519.999999999])
    case("Cast_f64_f16_once", "Cast", [tricky], tricky.astype(np.float16), to=to["f16"])
    outside = f32([1e10, -1e10, np.nan, np.inf, -np.inf, 255.9])
    case("Cast_saturates_u8", "Cast", [outside], np.uint8([255, 0, 0, 255, 0, 255]), to=to["u8"])
    case("Cast_saturates_i32", "Cast", [outside], np.int32([2**31 - 1, -2**31, 0, 2**31 - 1, -2**31, 255]), to=to["i32"])
    case("Cast_bool", "Cast", [f32([0, -0.0, 0.1, np.nan, -3])], np.array([0, 0, 1, 1, 1], np.bool_), to=to["bool"])


def moving():
    i64 = np.int64
    for t in ANY_SIZE:
        n = "_" + NAMES[np.dtype(t)]
        x = distinct(t, 2, 4, 2, 3)
        case("Transpose" + n, "Transpose", [x], x.transpose(0, 2, 3, 1), perm=[0, 2, 3, 1])
        case("Slice" + n, "Slice", [x, i64([3, -1, 0]), i64([0, -100, 100]), i64([1, -1, 2]), i64([-2, -2, 1])], x[:, 3:0:-2, 0:100, ::-2], early=(1, 2, 3, 4))
        case("Split" + n, "Split", [x, i64([1, 0, 3])], np.split(x, [1, 1], 1), early=(1,), axis=1)
        case("Gather" + n, "Gather", [x, np.int32([[1, -4], [3, 1], [0, 0]])], x.take([[1, -4], [3, 1], [0, 0]], 1), axis=1)
        case("Gather_scalar" + n, "Gather", [x, i64(-1)], x[..., -1], axis=3)
        index = rng.integers(-4, 4, (2, 2, 2, 3))
        case("GatherElements" + n, "GatherElements", [x, index], np.take_along_axis(x, index, 1), axis=1)
        case("Expand" + n, "Expand", [x[:, :1, :, :1], i64([2, 4, 1, 3])], np.broadcast_to(x[:, :1, :, :1], (2, 4, 2, 3)), early=(1,))
        case("Tile" + n, "Tile", [x, i64([1, 2, 1, 2])], np.tile(x, (1, 2, 1, 2)), early=(1,))
        case("Concat" + n, "Concat", [x, x[:, :1], x[:, :0], x[:, 2:]], np.concatenate([x, x[:, :1], x[:, 2:]], 1), axis=-3)
        case("Reshape" + n, "Reshape", [x, i64([6, 8])], x.reshape(6, 8), early=(1,))
        pads = i64([0, 1, 1, -1, 0, 0, 1, 2])
        width = [(0, 0), (1, 0), (1, 1), (0, 2)]
        cut = x[..., 1:]
        fill = values(t, 1)[0]
        case("Pad_constant" + n, "Pad", [x, pads, fill], np.pad(cut, width, constant_values=fill), early=(1,))
        case("Pad_edge" + n, "Pad", [x, np.abs(pads)], np.pad(x, [(0, 0), (1, 0), (1, 1), (1, 2)], mode="edge"), early=(1,), mode="edge")
        case("Pad_reflect" + n, "Pad", [x, np.abs(pads)], np.pad(x, [(0, 0), (1, 0), (1, 1), (1, 2)], mode="reflect"), early=(1,), mode="reflect")
        d = distinct(t, 1, 12, 2, 3)
        b = d.reshape(1, 2, 2, 3, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 3, 4, 6)
        case("DepthToSpace_DCR" + n, "DepthToSpace", [d], b, blocksize=2, mode="DCR")
        case("DepthToSpace_CRD" + n, "DepthToSpace", [d], d.reshape(1, 3, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 3, 4, 6), blocksize=2, mode="CRD")
        case("SpaceToDepth" + n, "SpaceToDepth", [b], d, blocksize=2)
        case("Resize_nearest" + n, "Resize", [x, None, f32([1, 1, 2, 0.5])], x[:, :, [0, 0, 1, 1]][..., :1], early=(2,),
             coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    x = values(np.int16, 2, 1, 2, 1, 2)
    case("Tile_many_axes", "Tile", [x, i64([2, 3, 2, 1, 3])], np.tile(x, (2, 3, 2, 1, 3)), early=(1,))
    x = values(np.uint8, 2, 2, 2, 1, 2)
    case("Tile_more_axes_than_a_copy_has", "Tile", [x, i64([2, 2, 2, 2, 2])], np.tile(x, (2, 2, 2, 2, 2)), early=(1,))
    x = floats(4)
    case("Pad_all_but_one_outside", "Pad", [x, i64([-3, 5]), f32(7)], f32([x[3]] + [7] * 5), early=(1,))
    x = floats(3)
    case("Pad_reflect_wide", "Pad", [x, i64([2, 2])], np.pad(x, 2, mode="reflect"), early=(1,), mode="reflect")


def reducing():
    x = floats(2, 3, 2, 4)
    forms = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
             "ReduceL1": lambda v, **k: np.sum(np.abs(v), **k), "ReduceL2": lambda v, **k: np.sqrt(np.sum(v * v, **k)),
             "ReduceSumSquare": lambda v, **k: np.sum(v * v, **k), "ReduceLogSumExp": lambda v, **k: np.log(np.sum(np.exp(v), **k))}
    for op, f in forms.items():
        for axes, keep in [((1,), 1), ((2, 3), 1), ((0, 2), 0), ((-1,), 0)]:
            want = f(x.astype(np.float64), axis=axes, keepdims=bool(keep)).astype(f32)
            case("%s_%s" % (op, "".join(map(str, axes))), op, [x], want, axes=list(axes), keepdims=keep)
        case(op + "_all", op, [x], f(x.astype(np.float64), keepdims=True).astype(f32))
        if op == "ReduceLogSumExp":
            continue
        for t in INTEGERS:
            v = rng.integers(0 if np.issubdtype(t, np.unsignedinteger) else -5, 6, (3, 4)).astype(t)
            want = f(v.astype(np.float64), axis=(0,))
            case("%s_%s" % (op, NAMES[np.dtype(t)]), op, [v], np.trunc(want).astype(np.int64).astype(t), axes=[0], keepdims=0)
    big = f32([[-np.inf, 1000, 1001], [-np.inf, -np.inf, -np.inf], [np.inf, 0, 1]])
    case("ReduceLogSumExp_extremes", "ReduceLogSumExp", [big], f32([1001.3132616875182, -np.inf, np.inf]), axes=[1], keepdims=0)
    nan = f32([[1, np.nan, 3], [np.nan, 1, 2], [4, 5, 6]])
    case("ReduceMax_nan", "ReduceMax", [nan], f32([np.nan, np.nan, 6]), axes=[1], keepdims=0)
    empty = np.zeros((2, 0), f32)
    for op, v in [("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMax", -np.inf), ("ReduceMin", np.inf), ("ReduceLogSumExp", -np.inf)]:
        case(op + "_empty", op, [empty], f32([v, v]), axes=[1], keepdims=0)
    ties = np.array([[2, 5, 5, 1], [7, 7, 7, 7]])
    for t in INTEGERS + [np.float32, np.float64]:
        v = ties.astype(t)
        n = NAMES[np.dtype(t)]
        case("ArgMax_" + n, "ArgMax", [v], np.int64([[1], [0]]), axis=1)
        case("ArgMax_last_" + n, "ArgMax", [v], np.int64([2, 3]), axis=-1, keepdims=0, select_last_index=1)
        case("ArgMin_" + n, "ArgMin", [v], np.int64([0, 0, 0, 0]), axis=0, keepdims=0)
        w = values(t, 2, 4)
        axis = np.int32(1)
        with np.errstate(all="ignore"):
            sums = np.cumsum(w, 1, dtype=t)
            case("CumSum_" + n, "CumSum", [w, axis], sums, early=(1,))
            case("CumSum_back_" + n, "CumSum", [w, axis], (np.cumsum(w[:, ::-1], 1, dtype=t)[:, ::-1] - w).astype(t), early=(1,), exclusive=1, reverse=1)


def normalising():
    x = floats(2, 5, 2, 3)
    s, b, m, v = floats(5), floats(5), floats(5), floats(5, lo=0.1)
    case("BatchNormalization", "BatchNormalization", [x, s, b, m, v], runtime("BatchNormalization", [x, s, b, m, v], 15, epsilon=0.01), epsilon=0.01)
    case("BatchNormalization_early", "BatchNormalization", [x[:, :, 0], s, b, m, v],
         runtime("BatchNormalization", [x[:, :, 0], s, b, m, v], 15), early=(1, 2, 3, 4))
    case("InstanceNormalization", "InstanceNormalization", [x, s, b], runtime("InstanceNormalization", [x, s, b]))
    case("InstanceNormalization_1d", "InstanceNormalization", [x[:, :, 0], s, b], runtime("InstanceNormalization", [x[:, :, 0], s, b], epsilon=0.1), epsilon=0.1)
    for size in (1, 2, 3, 4, 7):
        a = {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 1.5}
        d = x.astype(np.float64)
        squares = np.stack([np.sum(d[:, max(0, c - (size - 1) // 2):c + size // 2 + 1] ** 2, 1) for c in range(5)], 1)
        case("LRN_%d" % size, "LRN", [x], (d / (1.5 + 0.5 / size * squares) ** 0.6).astype(f32), **a)
    for axis in (0, 1, -1):
        for p in (1, 2):
            case("LpNormalization_%d_%d" % (axis, p), "LpNormalization", [x], runtime("LpNormalization", [x], axis=axis, p=p), axis=axis, p=p)
        for op in ("Softmax", "LogSoftmax"):
            case("%s_%d" % (op, axis), op, [x * f32(30)], runtime(op, [x * f32(30)], axis=axis), axis=axis)
    wide = floats(1, 3, 70)
    case("Softmax_many_lanes", "Softmax", [wide], runtime("Softmax", [wide], axis=1), axis=1)
    short = np.ascontiguousarray(wide.transpose(0, 2, 1))
    case("Softmax_short_lines", "Softmax", [short], runtime("Softmax", [short], axis=-1), axis=-1)
    y = floats(2, 3, 4)
    for axis, shape in ((-1, (4,)), (1, (3, 4)), (-2, (3, 4)), (1, (4,)), (0, (1, 4)), (0, (1,))):
        d = y.astype(np.float64)
        axes = tuple(range(axis % 3, 3))
        scale, bias = floats(*shape), floats(*shape)
        want = (d - d.mean(axes, keepdims=True)) / np.sqrt(d.var(axes, keepdims=True) + 1e-5) * scale
        case("LayerNormalization_%d_%d" % (axis, len(shape)), "LayerNormalization", [y, scale, bias], (want + bias).astype(f32), axis=axis)
        case("LayerNormalization_no_bias_%d_%d" % (axis, len(shape)), "LayerNormalization", [y, scale], want.astype(f32), axis=axis)


def resizing():
    x = floats(1, 2, 4, 5)
    count = 0
    for coordinate in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
        for mode in ("nearest", "linear", "cubic"):
            for scale in ((1, 1, 1.7, 0.6), (1, 1, 0.4, 2.3)):
                # ONNX takes the corners of what the scale makes before it is rounded, ONNX Runtime those of the result.
                if coordinate == "align_corners":
                    scale = (1, 1, 2, 0.6) if scale[2] > 1 else (1, 1, 0.5, 2)
                attrs = {"coordinate_transformation_mode": coordinate, "mode": mode}
                if mode == "nearest":
                    attrs["nearest_mode"] = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")[count % 4]
                    count += 1
                inputs = [x, None, f32(scale)]
                case("Resize_%s_%s_%g" % (coordinate, mode, scale[2]), "Resize", inputs, runtime("Resize", inputs, 19, **attrs), early=(2,), **attrs)
    for mode in ("nearest", "linear", "cubic"):
        attrs = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": mode, "extrapolation_value": 9.5}
        inputs = [x, f32([0, 0, 0.2, -0.3, 1, 1, 1.1, 0.9]), None, np.int64([1, 2, 3, 6])]
        case("Resize_crop_" + mode, "Resize", inputs, runtime("Resize", inputs, 13, **attrs), early=(1, 3), **attrs)
    for a in (-0.5, -1.0):
        attrs = {"mode": "cubic", "cubic_coeff_a": a, "exclude_outside": 1}
        inputs = [x, None, f32([1, 1, 1.5, 2])]
        case("Resize_cubic_a_%g" % a, "Resize", inputs, runtime("Resize", inputs, 13, **attrs), early=(2,), **attrs)
    inputs = [x[0, 0], None, None, np.int64([7, 3])]
    case("Resize_rank_2", "Resize", inputs, runtime("Resize", inputs, 13, mode="linear"), early=(3,), mode="linear")
    v = floats(1, 2, 3, 2, 3)
    inputs = [v, None, f32([1, 1, 2, 1.5, 0.7])]
    case("Resize_volume", "Resize", inputs, runtime("Resize", inputs, 13, mode="linear"), early=(2,), mode="linear")
    inputs = [v[:, :, 0, 0], None, f32([1, 1, 2.5])]
    case("Resize_line", "Resize", inputs, runtime("Resize", inputs, 13, mode="nearest"), early=(2,))
    inputs = [x, None, None, np.int64([1, 2, 9, 1])]
    case("Resize_to_one", "Resize", inputs, runtime("Resize", inputs, 13, mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
         early=(3,), mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    tie = floats(1, 1, 1, 8)
    inputs = [tie, None, f32([1, 1, 1, 0.5])]
    for how in ("round_prefer_floor", "round_prefer_ceil"):
        case("Resize_tie_" + how, "Resize", inputs, runtime("Resize", inputs, 13, nearest_mode=how), early=(2,), nearest_mode=how)


def making():
    x = values(np.uint8, 2, 0, 3)
    case("Shape", "Shape", [x], np.int64([2, 0, 3]))
    case("Shape_part", "Shape", [x], np.int64([0]), start=-2, end=-1)
    case("Size", "Size", [values(np.uint8, 2, 5, 3)], np.int64(30))
    for t, a in [(np.int16, (3, 11, 2)), (np.int32, (10, -8, -3)), (np.int64, (2**40, 2**40 + 3, 1)), (np.float32, (0, 1, 0.3)), (np.float64, (1, 0, -0.25))]:
        start, limit, delta = (t(v) for v in a)
        want = (start + np.arange(int(np.ceil((limit - start) / delta)), dtype=t) * delta).astype(t)
        case("Range_" + NAMES[np.dtype(t)], "Range", [start, limit, delta], want, early=(0, 1, 2))


def recurrent():
    """Every attribute and optional input of RNN, GRU and LSTM. ONNX Runtime has no layout 1: its results are those of layout 0, turned."""
    names = {"RNN": 1, "GRU": 3, "LSTM": 4}

    def one(label, op, direction="forward", batch=2, hidden=3, steps=4, lengths=None, without=(), early=(1, 2, 3, 7), layout=0, **attrs):
        gates, ways = names[op], 2 if direction == "bidirectional" else 1
        x = floats(steps, batch, 5, lo=-1, hi=1)
        inputs = [x, floats(ways, gates * hidden, 5, lo=-1, hi=1), floats(ways, gates * hidden, hidden, lo=-1, hi=1),
                  floats(ways, 2 * gates * hidden, lo=-1, hi=1), None if lengths is None else np.int32(lengths), floats(ways, batch, hidden, lo=-1, hi=1)]
        if op == "LSTM":
            inputs += [floats(ways, batch, hidden, lo=-1, hi=1), floats(ways, 3 * hidden, lo=-1, hi=1)]
        inputs = [None if i in without else a for i, a in enumerate(inputs)]
        while inputs[-1] is None:
            inputs.pop()
        attrs = dict(attrs, hidden_size=hidden, **({} if direction == "forward" else {"direction": direction}))
        want = runtime(op, inputs, 14, outputs=3 if op == "LSTM" else 2, **attrs)
        if layout:
            inputs = [a.swapaxes(0, 1).copy() if a is not None and i in (0, 5, 6) else a for i, a in enumerate(inputs)]
            want = [want[0].transpose(2, 0, 1, 3)] + [w.swapaxes(0, 1) for w in want[1:]]
            attrs["layout"] = 1
        case("%s_%s" % (op, label), op, inputs, want, early=tuple(i for i in early if i < len(inputs)), **attrs)

    for op in names:
        for direction in ("forward", "reverse", "bidirectional"):
            one(direction, op, direction)
            one(direction + "_lengths", op, direction, batch=4, lengths=[2, 0, 4, 1])
            one(direction + "_layout", op, direction, layout=1, lengths=[3, 4])
        one("plain", op, without=(3, 5, 6, 7))
        one("one_sample", op, "bidirectional", batch=1, hidden=17, steps=3)
        one("weights_late", op, "bidirectional", early=())
        one("clip", op, clip=0.3)
        each = {"RNN": 1, "GRU": 2, "LSTM": 3}[op]
        for name, alpha, beta in [("Relu", (), ()), ("Affine", (0.5,), (0.25,)), ("LeakyRelu", (0.3,), ()), ("ThresholdedRelu", (0.2,), ()),
                                  ("ScaledTanh", (1.25,), (0.75,)), ("HardSigmoid", (0.3,), (0.4,)), ("Elu", (0.6,), ()), ("Softsign", (), ()),
                                  ("Sigmoid", (), ()), ("Tanh", (), ())]:
            given = {key: list(value) * each for key, value in (("activation_alpha", alpha), ("activation_beta", beta)) if value}
            one(name, op, activations=[name] * each, **given)
        # A gate that may be larger than 1 makes a state without bounds, and ONNX Runtime's h gives NaN.
        one("Softplus", op, activations={"RNN": ["Softplus"], "GRU": ["Sigmoid", "Softplus"], "LSTM": ["Sigmoid", "Softplus", "Tanh"]}[op])
        one("usual_parameters", op, activations=(["LeakyRelu", "HardSigmoid", "Elu"] * 2)[:each])
        if op != "RNN":
            one("lower_case", op, activations=["sigmoid"] * each)
        one("mixed_parameters", op, "bidirectional", activations=(["LeakyRelu", "Tanh", "HardSigmoid", "Elu", "Sigmoid", "HardSigmoid"])[:2 * each],
            activation_alpha=[0.2, 0.3, 0.4, 0.5], activation_beta=[0.6, 0.7])
    one("linear_before_reset", "GRU", "bidirectional", linear_before_reset=1)
    one("linear_before_reset_plain", "GRU", without=(3, 5), linear_before_reset=1)
    one("linear_before_reset_clip", "GRU", linear_before_reset=1, clip=0.4)
    one("input_forget", "LSTM", input_forget=1)
    one("input_forget_no_peepholes", "LSTM", "bidirectional", without=(7,), input_forget=1)
    one("no_bias", "LSTM", without=(3,))
    one("no_cell", "LSTM", without=(6,))


for group in (unary, binary, any_unary, cast, moving, reducing, normalising, resizing, making, recurrent):
    group()
