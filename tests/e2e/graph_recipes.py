# SPDX-License-Identifier: Apache-2.0
"""Recipes of graph_fuzz.py: each makes one node of an operator. A recipe takes a Graph, picks operands and calls
`graph.op`, which raises Retry if ONNX Runtime refuses the node or if it is ill-conditioned. So a recipe need not know
every rule of its operator."""

import numpy as np
from onnx import TensorProto, helper

FLOATS = ("float32", "float16", "float64")
INTS = ("int64", "int32", "int8", "uint8")
NEEDS_POSITIVE = {"Log", "Sqrt", "Reciprocal", "Acosh"}
NEEDS_UNIT = {"Asin", "Acos", "Atanh"}
UNARY = (
    "LeakyRelu Sigmoid Tanh HardSigmoid HardSwish Elu Selu Celu ThresholdedRelu Softplus Softsign Mish Erf Exp Log Sqrt Reciprocal Sin Cos"
    " Tan Atan Asin Acos Asinh Acosh Atanh Sinh Cosh Floor Ceil Round Relu Abs Neg Sign Identity"
).split()
BINARY = "Add Sub Mul Div Max Min Sum Mean PRelu Pow Mod".split()
COMPARE = "Equal Greater GreaterOrEqual Less LessOrEqual".split()
REDUCE = "Mean Sum Max Min Prod L1 L2 SumSquare LogSumExp".split()
RECIPES = {}


def recipe(*ops, weight=1):
    """Registers a function as the recipe of operators; it is given the operator's name."""

    def register(function):
        for op in ops:
            RECIPES[op] = function, weight
        return function

    return register


@recipe(*UNARY)
def unary(g, op):
    v = g.pick(FLOATS)
    if op in NEEDS_POSITIVE:
        v = g.op("Add", g.op("Abs", v), g.constant(np.array(1.25, v.dtype)))
    if op in NEEDS_UNIT:
        v = g.op("Mul", g.op("Tanh", v), g.constant(np.array(0.75, v.dtype)))
    attributes = {"alpha": float(g.rng.choice([0.25, 0.1, 1.0]))} if op in ("LeakyRelu", "Elu", "Celu") else {}
    return g.op(op, v, **attributes)


@recipe("Gelu")
def gelu(g, op):
    return g.op(op, g.pick(FLOATS), approximate=str(g.rng.choice(["none", "tanh"])))


@recipe(*BINARY, weight=3)
def binary(g, op):
    v = g.pick(FLOATS if g.chance(0.8) or op == "PRelu" else INTS)
    w = g.partner(v)
    if op == "PRelu":  # broadcasts in one direction
        w = g.constant(g.numbers(g.broadcastable(v), v.dtype))
    if op == "Pow" and v.dtype.kind != "f":
        w = g.constant(np.array(g.rng.integers(0, 4), v.dtype))
    if op in ("Div", "Pow", "Mod") and v.dtype.kind == "f":
        w = g.constant(np.abs(g.numbers(g.broadcastable(v), v.dtype)) + np.array(0.5, v.dtype))
        v = g.op("Abs", v) if op == "Pow" else v
    if op in ("Max", "Min", "Sum", "Mean"):
        operands = [v] if g.chance(0.1) else [v, w] if g.chance(0.7) else [v, w, g.partner(v)]
        return g.op(op, *operands)
    attributes = {"fmod": 1} if op == "Mod" and v.dtype.kind == "f" else {}
    return g.op(op, *([w, v] if g.chance(0.3) and op not in ("PRelu", "Div", "Pow", "Mod") else [v, w]), **attributes)


@recipe(*COMPARE)
def compare(g, op):
    v = g.pick(FLOATS + INTS)
    return g.op(op, v, g.partner(v))


@recipe("And", "Or", "Xor")
def logic(g, op):
    v = g.condition()
    return g.op(op, v, g.partner(v))


@recipe("Not")
def negation(g, op):
    return g.op(op, g.condition())


@recipe("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(g, op):
    v = g.integers()
    return g.op(op, v, g.partner(v))


@recipe("BitwiseNot")
def bits_not(g, op):
    return g.op(op, g.integers())


@recipe("BitShift")
def shift(g, op):
    v = g.integers("uint8")
    by = g.constant(g.rng.integers(0, 7, g.broadcastable(v)).astype(v.dtype))
    return g.op(op, v, by, direction=str(g.rng.choice(["LEFT", "RIGHT"])))


@recipe("Cast", weight=2)
def cast(g, op):
    to = str(g.rng.choice(["float32", "float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool"]))
    return g.cast(g.pick(FLOATS + INTS + ("bool",)), to)


@recipe("IsInf", "IsNaN")
def is_what(g, op):
    return g.op(op, g.pick(("float32",)))


@recipe("Clip", weight=2)
def clip(g, op):
    v = g.pick(FLOATS if g.chance(0.8) else INTS)
    lo, hi = (g.constant(np.array(n, v.dtype)) for n in ((-0.5, 0.75) if v.dtype.kind == "f" else (1, 5)))
    return g.op(op, v, *[[lo, hi], [lo], [None, hi], []][g.rng.integers(4)])


@recipe("Where", weight=2)
def where(g, op):
    v = g.pick(FLOATS + INTS)
    w = g.partner(v)
    mask = g.constant(g.rng.random(g.broadcastable(v)) < 0.5) if g.chance(0.7) else g.condition()
    return g.op(op, mask, *([v, w] if g.chance(0.5) else [w, v]))


@recipe("Conv", weight=14)
def conv(g, op):
    v = g.image()
    c, spatial = v.shape[1], len(v.shape) - 2
    group = int(g.rng.choice([d for d in range(1, c + 1) if c % d == 0]))
    out = group * int(g.rng.integers(1, 5))
    kernel = [int(g.rng.choice([1, 2, 3, 5])) for _ in range(spatial)]
    attributes = g.window(v, kernel)
    w = g.weight((out, c // group, *kernel))
    bias = [g.constant(g.numbers((out,), v.dtype))] if g.chance(0.6) else []
    return g.op(op, v, w, *bias, group=group, **attributes)


@recipe("ConvTranspose", weight=2)
def conv_transpose(g, op):
    v = g.image()
    c, spatial = v.shape[1], len(v.shape) - 2
    group = int(g.rng.choice([d for d in range(1, c + 1) if c % d == 0]))
    kernel = [int(g.rng.choice([1, 2, 3])) for _ in range(spatial)]
    out = int(g.rng.integers(1, 4))
    w = g.weight((c, out, *kernel))
    bias = [g.constant(g.numbers((out * group,), v.dtype))] if g.chance(0.5) else []
    attributes = {"strides": [int(g.rng.integers(1, 3)) for _ in kernel]}
    if g.chance(0.4):
        attributes["output_padding"] = [s - 1 for s in attributes["strides"]]
    if g.chance(0.4):
        attributes["pads"] = [int(g.rng.integers(0, max(1, k))) for k in kernel] * 2
    return g.op(op, v, w, *bias, group=group, **attributes)


@recipe("MatMul", weight=10)
def matmul(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 1)
    k = v.shape[-1]
    if g.chance(0.25):
        other = g.pick(("float32",), lambda s: len(s) >= 2 and s[-2] == k)
        return g.op(op, v, other)
    n = g.size()
    batch = v.shape[:-2] if len(v.shape) > 2 and g.chance(0.2) else ()
    shape = (*batch, k, n) if g.chance(0.9) else (k,)
    return g.op(op, v, g.weight(shape))


@recipe("Gemm", weight=10)
def gemm(g, op):
    v = g.pick(("float32",), lambda s: len(s) == 2)
    ta, tb = int(g.chance(0.2)), int(g.chance(0.5))
    k, m, n = v.shape[0 if ta else 1], v.shape[1 if ta else 0], g.size()
    w = g.weight((n, k) if tb else (k, n))
    c = [g.constant(g.numbers([(n,), (1, n), (m, 1), (m, n), ()][g.rng.integers(5)], v.dtype))] if g.chance(0.7) else []
    alpha, beta = (float(g.rng.choice([1, 1, 0.5])) for _ in range(2))
    return g.op(op, v, w, *c, transA=ta, transB=tb, alpha=alpha, beta=beta)


@recipe("Einsum")
def einsum(g, op):
    v = g.pick(("float32",), lambda s: len(s) in (2, 3))
    n, k = g.size(), v.shape[-1]
    equation = {2: "ij,jk->ik", 3: "bij,jk->bki"}[len(v.shape)]
    return g.op(op, v, g.weight((k, n)), equation=equation)


@recipe("RNN", "GRU", "LSTM", weight=2)
def recurrent(g, op):
    v = g.pick(("float32",), lambda s: len(s) == 3)
    gates, hidden = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], int(g.rng.integers(1, 6))
    direction = str(g.rng.choice(["forward", "reverse", "bidirectional"]))
    d = 2 if direction == "bidirectional" else 1
    steps, batch, width = v.shape
    w, r = g.weight((d, gates * hidden, width)), g.weight((d, gates * hidden, hidden))
    more = []
    if g.chance(0.6):
        more.append(g.constant(g.numbers((d, 2 * gates * hidden), v.dtype)))
        if g.chance(0.4):
            lengths = g.constant(g.rng.integers(1, steps + 1, batch).astype(np.int32)) if g.chance(0.5) else None
            more += [lengths, g.constant(g.numbers((d, batch, hidden), v.dtype))]
    attributes = {"linear_before_reset": int(g.chance(0.5))} if op == "GRU" else {}
    count = int(g.rng.integers(1, 4 if op == "LSTM" else 3))
    return g.op(op, v, w, r, *more, outputs=count, hidden_size=hidden, direction=direction, **attributes)


@recipe("BatchNormalization", weight=2)
def batch_norm(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 2)
    c = (v.shape[1],)
    scale, bias, mean = (g.constant(g.numbers(c, v.dtype)) for _ in range(3))
    var = g.constant(np.abs(g.numbers(c, v.dtype)) + np.float32(0.5))
    return g.op(op, v, scale, bias, mean, var, epsilon=float(g.rng.choice([1e-5, 1e-3])))


@recipe("InstanceNormalization")
def instance_norm(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 3 and np.prod(s[2:]) > 3)
    return g.op(op, v, *(g.constant(g.numbers((v.shape[1],), v.dtype)) for _ in range(2)), epsilon=0.01)


@recipe("LayerNormalization")
def layer_norm(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 1 and s[-1] > 2)
    axis = int(g.rng.integers(0, len(v.shape)))
    shape = v.shape[axis:]
    bias = [g.constant(g.numbers(shape, v.dtype))] if g.chance(0.6) else []
    return g.op(op, v, g.constant(g.numbers(shape, v.dtype)), *bias, axis=axis - g.rng.integers(2) * len(v.shape), epsilon=0.01)


@recipe("LpNormalization")
def lp_norm(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 1)
    return g.op(op, v, axis=g.axis(v), p=int(g.rng.integers(1, 3)))


@recipe("LRN")
def lrn(g, op):
    return g.op(op, g.image(), size=int(g.rng.choice([1, 3, 5])), alpha=0.1, bias=1.5)


@recipe("Softmax", "LogSoftmax", "Hardmax", weight=2)
def softmax(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 1)
    return g.op(op, v, axis=g.axis(v))


@recipe("MaxPool", "AveragePool", "LpPool", weight=2)
def pool(g, op):
    v = g.image()
    spatial = len(v.shape) - 2
    kernel = [int(g.rng.integers(1, 4)) for _ in range(spatial)]
    attributes = g.window(v, kernel, dilations=op == "MaxPool" or g.opset >= 19)
    if g.chance(0.3) and "auto_pad" not in attributes and (op != "LpPool" or g.opset >= 18) and all(s <= k for s, k in zip(attributes["strides"], kernel)):
        attributes["ceil_mode"] = 1
    if op == "AveragePool":
        attributes["count_include_pad"] = int(g.chance(0.5))
    return g.op(op, v, outputs=2 if op == "MaxPool" and g.chance(0.15) else 1, **attributes)


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(g, op):
    return g.op(op, g.image())


@recipe(*(f"Reduce{r}" for r in REDUCE))
def reduce(g, op):
    whole = g.chance(0.15) and op not in ("ReduceLogSumExp", "ReduceL2")  # of integers: no kernel
    v = g.pick(INTS if whole else FLOATS, lambda s: len(s) >= 1)
    axes = None if g.chance(0.2) else sorted({g.axis(v, negative=False) for _ in range(int(g.rng.integers(1, 3)))})
    keep = int(g.chance(0.6))
    if g.opset >= 18 or (op == "ReduceSum" and g.opset >= 13):
        operands = [v] if axes is None else [v, g.constant(np.int64(axes))]
        more = {"noop_with_empty_axes": 1} if axes is None and g.chance(0.2) else {}
        return g.op(op, *operands, keepdims=keep, **more)
    return g.op(op, v, keepdims=keep, **({} if axes is None else {"axes": axes}))


@recipe("ArgMax", "ArgMin")
def arg(g, op):
    v = g.pick(("float32", "int32"), lambda s: len(s) >= 1)
    return g.op(op, v, axis=g.axis(v), keepdims=int(g.chance(0.5)), select_last_index=int(g.chance(0.3)))


@recipe("CumSum", "CumProd")
def cumulative(g, op):
    v = g.pick(("float32", "int64"), lambda s: len(s) >= 1)
    axis = g.constant(np.int64(g.axis(v)))
    return g.op(op, v, axis, exclusive=int(g.chance(0.5)), reverse=int(g.chance(0.5)))


@recipe("TopK")
def top_k(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 1)
    axis = g.axis(v, negative=False)
    k = g.constant(np.int64([g.rng.integers(1, v.shape[axis] + 1)]))
    return g.op(op, v, k, outputs=2, axis=axis, largest=int(g.chance(0.5)))


@recipe("Det")
def det(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 2 and s[-1] == s[-2])
    return g.op(op, v)


@recipe("DFT")
def dft(g, op):
    v = g.op("Unsqueeze", g.pick(("float32",), lambda s: len(s) == 2), g.constant(np.int64([-1])))
    if g.opset >= 20:
        return g.op(op, v, None, g.constant(np.int64(1)), onesided=int(g.chance(0.5)))
    return g.op(op, v, axis=1, onesided=int(g.chance(0.5)))


@recipe("Reshape", weight=3)
def reshape(g, op):
    v = g.pick(FLOATS + INTS)
    rest, shape = int(np.prod(v.shape)), []
    while rest > 1 and len(shape) < 4 and g.chance(0.7):
        d = int(g.rng.choice([d for d in range(1, rest + 1) if rest % d == 0]))
        shape.append(d)
        rest //= d
    shape.append(rest)
    if g.chance(0.5):
        shape[int(g.rng.integers(len(shape)))] = -1
    if v.shape and shape[0] == v.shape[0] and g.chance(0.3):
        shape[0] = 0
    return g.op(op, v, g.constant(np.int64(shape)))


@recipe("Flatten")
def flatten(g, op):
    v = g.pick(FLOATS, lambda s: len(s) >= 1)
    return g.op(op, v, axis=int(g.rng.integers(-len(v.shape), len(v.shape) + 1)))


@recipe("Squeeze")
def squeeze(g, op):
    v = g.pick(FLOATS + INTS, lambda s: 1 in s)
    axes = [i for i, d in enumerate(v.shape) if d == 1 and g.chance(0.7)]
    return g.op(op, v, *([g.constant(np.int64(axes))] if axes else []))


@recipe("Unsqueeze")
def unsqueeze(g, op):
    v = g.pick(FLOATS + INTS, lambda s: len(s) < 5)
    axes = sorted({int(a) for a in g.rng.integers(0, len(v.shape) + 1, int(g.rng.integers(1, 3)))})
    return g.op(op, v, g.constant(np.int64(axes)))


@recipe("Transpose", weight=3)
def transpose(g, op):
    v = g.pick(FLOATS + INTS, lambda s: len(s) >= 2)
    return g.op(op, v, **({} if g.chance(0.2) else {"perm": [int(a) for a in g.rng.permutation(len(v.shape))]}))


@recipe("Slice", weight=3)
def slice_(g, op):
    v = g.pick(FLOATS + INTS, lambda s: len(s) >= 1)
    axis = g.axis(v)
    n = v.shape[axis]
    start, step = int(g.rng.integers(0, n)), int(g.rng.choice([1, 1, 2, 3, -1, -2]))
    end = int(g.rng.integers(start + 1, n + 3)) if step > 0 else -n - 1
    end = start if g.empty and g.chance(0.5) else end
    return g.op(op, v, *(g.constant(np.int64([i])) for i in (start, end, axis, step)))


@recipe("Split", weight=2)
def split(g, op):
    v = g.pick(FLOATS, lambda s: len(s) >= 1 and max(s) >= 2)
    axis = int(np.argmax(v.shape))
    first = int(g.rng.integers(1, v.shape[axis]))
    sizes = g.constant(np.int64([first, v.shape[axis] - first]))
    return g.op(op, v, sizes, outputs=2, axis=axis)


@recipe("Gather", weight=2)
def gather(g, op):
    v = g.pick(FLOATS + INTS, lambda s: len(s) >= 1)
    axis = g.axis(v)
    n = v.shape[axis]
    shape = [(), (1,), (3,), (2, 2)][g.rng.integers(4)]
    dtype = np.int64 if g.chance(0.7) else np.int32
    if g.chance(0.2):
        table = g.constant(g.numbers((7, 5), np.float32))
        v_int = g.cast(g.op("Clip", g.integers("int64"), g.constant(np.int64(0)), g.constant(np.int64(6))), "int64")
        return g.op(op, table, v_int)
    return g.op(op, v, g.constant(g.rng.integers(-n, n, shape).astype(dtype)), axis=axis)


@recipe("GatherElements")
def gather_elements(g, op):
    v = g.pick(FLOATS, lambda s: len(s) >= 1)
    axis = g.axis(v)
    shape = list(v.shape)
    shape[axis] = int(g.rng.integers(1, 4))
    return g.op(op, v, g.constant(g.rng.integers(0, v.shape[axis], shape)), axis=axis)


@recipe("GatherND")
def gather_nd(g, op):
    v = g.pick(FLOATS, lambda s: len(s) >= 2)
    return g.op(op, v, g.constant(np.stack([g.rng.integers(0, n, 3) for n in v.shape[:2]], -1)))


@recipe("ScatterElements")
def scatter_elements(g, op):
    v = g.pick(FLOATS, lambda s: len(s) >= 1)
    axis = g.axis(v)
    shape = list(v.shape)
    shape[axis] = 1
    at = g.constant(g.rng.integers(0, v.shape[axis], shape))
    more = {"reduction": str(g.rng.choice(["none", "add", "mul"]))} if g.opset >= 16 else {}
    return g.op(op, v, at, g.constant(g.numbers(shape, v.dtype)), axis=axis, **more)


@recipe("ScatterND")
def scatter_nd(g, op):
    v = g.pick(FLOATS, lambda s: len(s) >= 1)
    at = g.constant(g.rng.permutation(v.shape[0])[:2].reshape(-1, 1))
    n = min(2, v.shape[0])
    return g.op(op, v, at, g.constant(g.numbers((n, *v.shape[1:]), v.dtype)))


@recipe("OneHot")
def one_hot(g, op):
    at = g.integers("int64")
    return g.op(op, at, g.constant(np.int64(5)), g.constant(np.float32([0, 1.5])), axis=-1)


@recipe("Trilu")
def trilu(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 2)
    return g.op(op, v, *([g.constant(np.int64(g.rng.integers(-2, 3)))] if g.chance(0.5) else []), upper=int(g.chance(0.5)))


@recipe("EyeLike")
def eye(g, op):
    return g.op(op, g.pick(("float32",), lambda s: len(s) == 2), k=int(g.rng.integers(-1, 2)))


@recipe("ReverseSequence")
def reverse(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 2)
    return g.op(op, v, g.constant(g.rng.integers(1, v.shape[0] + 1, v.shape[1])), batch_axis=1, time_axis=0)


@recipe("Compress")
def compress(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 1)
    axis = g.axis(v)
    kept = g.rng.random(v.shape[axis]) < 0.6
    kept[0] = True
    return g.op(op, v, g.constant(kept), axis=axis)


@recipe("NonZero")
def nonzero(g, op):
    v = g.condition()
    if not v.shape:
        raise ValueError  # ONNX Runtime has [1, N], ONNX [0, N]
    return g.op(op, v)


@recipe("Unique")
def unique(g, op):
    return g.op(op, g.pick(("float32", "int64")), outputs=int(g.rng.integers(1, 5)), sorted=int(g.chance(0.5)))


@recipe("GridSample")
def grid_sample(g, op):
    v = g.pick(("float32",), lambda s: len(s) == 4)
    grid = g.constant((g.numbers((v.shape[0], 3, 2, 2), np.float32) * 0.4).astype(np.float32))
    mode = str(g.rng.choice(["bilinear", "nearest"] if g.opset < 20 else ["linear", "nearest", "cubic"]))
    padding = str(g.rng.choice(["zeros", "border", "reflection"]))
    return g.op(op, v, grid, mode=mode, padding_mode=padding, align_corners=int(g.chance(0.5)))


@recipe("Expand")
def expand(g, op):
    v = g.pick(FLOATS, lambda s: len(s) < 5)
    shape = [int(g.rng.integers(1, 4)) if d == 1 else d for d in v.shape]
    return g.op(op, v, g.constant(np.int64(([2] if g.chance(0.3) else []) + shape)))


@recipe("Tile")
def tile(g, op):
    v = g.pick(FLOATS, lambda s: len(s) >= 1)
    return g.op(op, v, g.constant(g.rng.integers(1, 3, len(v.shape))))


@recipe("Concat", weight=5)
def concat(g, op):
    v = g.pick(FLOATS + INTS, lambda s: len(s) >= 1)
    axis = g.axis(v)
    shape = list(v.shape)
    shape[axis] = int(g.rng.integers(1, 4))
    parts = [v]
    for _ in range(int(g.rng.integers(0, 3))):
        same = g.others(v, lambda s: len(s) == len(v.shape) and all(a == b for i, (a, b) in enumerate(zip(s, v.shape)) if i != axis % len(s)))
        parts.append(g.rng.choice(same) if same and g.chance(0.6) else g.constant(g.numbers(shape, v.dtype)))
    return g.op(op, *[parts[i] for i in g.rng.permutation(len(parts))], axis=axis)


@recipe("Pad", weight=2)
def pad(g, op):
    v = g.pick(("float32", "float16"), lambda s: len(s) >= 1)
    mode = str(g.rng.choice(["constant", "reflect", "edge"]))
    pads = g.rng.integers(0, 3, 2 * len(v.shape))
    value = [g.constant(np.array(g.rng.choice([0, 0.3, -1.25]), v.dtype))] if mode == "constant" and g.chance(0.7) else []
    return g.op(op, v, g.constant(pads), *value, mode=mode)


@recipe("DepthToSpace", "SpaceToDepth")
def depth(g, op):
    if op == "DepthToSpace":
        v = g.pick(("float32",), lambda s: len(s) == 4 and s[1] % 4 == 0)
        return g.op(op, v, blocksize=2, mode=str(g.rng.choice(["DCR", "CRD"])))
    return g.op(op, g.pick(("float32",), lambda s: len(s) == 4 and s[2] % 2 == s[3] % 2 == 0), blocksize=2)


@recipe("Resize", weight=2)
def resize(g, op):
    v = g.pick(("float32",), lambda s: len(s) in (3, 4))
    to = [*v.shape[:2], *(int(g.rng.integers(1, 9)) for _ in v.shape[2:])]
    mode = str(g.rng.choice(["nearest", "linear"]))
    how = str(g.rng.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]))
    if g.chance(0.5):
        # ONNX divides by the size before it is cut to a whole number, ONNX Runtime by that after.
        how = "half_pixel" if how == "align_corners" else how
        scales = np.float32([1, 1, *(g.rng.choice([0.5, 1, 2, 3]) for _ in v.shape[2:])])
        return g.op(op, v, None, g.constant(scales), mode=mode, coordinate_transformation_mode=how)
    return g.op(op, v, None, None, g.constant(np.int64(to)), mode=mode, coordinate_transformation_mode=how)


@recipe("Shape", "Size")
def shape_of(g, op):
    return g.op(op, g.pick(FLOATS))


@recipe("ConstantOfShape")
def constant_of_shape(g, op):
    from onnx import numpy_helper

    v = g.op("Shape", g.pick(FLOATS, lambda s: len(s) >= 1))
    return g.op(op, v, value=numpy_helper.from_array(np.float32([0.375])))


@recipe("Range")
def range_(g, op):
    return g.op(op, *(g.constant(np.array(n, np.int64)) for n in (1, int(g.rng.integers(3, 20)), int(g.rng.integers(1, 4)))))


@recipe("QuantizeLinear", weight=0.5)
def quantize_dequantize(g, op):
    v = g.pick(("float32",))
    dtype = np.dtype(g.rng.choice(["uint8", "int8"]))
    scale, zero = g.constant(np.float32(np.exp(g.rng.uniform(-5, -2)))), g.constant(np.array(g.rng.integers(0, 100), dtype))
    q = g.op("QuantizeLinear", v, scale, zero)
    return g.op("DequantizeLinear", q, scale, zero)


@recipe("DynamicQuantizeLinear", weight=0.5)
def dynamic_quantize(g, op):
    q, scale, zero = g.op(op, g.pick(("float32",)), outputs=3)
    return g.op("DequantizeLinear", q, scale, zero)


@recipe("MatMulInteger", weight=0.5)
def matmul_integer(g, op):
    v = g.pick(("uint8", "int8"), lambda s: len(s) >= 2)
    w = g.constant(g.rng.integers(-127, 128, (v.shape[-1], g.size())).astype(np.int8))
    return g.op(op, v, w, *([g.constant(np.array(3, v.dtype))] if g.chance(0.5) else []))


@recipe("ConvInteger", weight=0.5)
def conv_integer(g, op):
    v = g.pick(("uint8",), lambda s: len(s) == 4)
    w = g.constant(g.rng.integers(0, 255, (2, v.shape[1], 1, 2)).astype(np.uint8))
    return g.op(op, v, w, g.constant(np.uint8(7)))


def branch(g, names, v, result, name):
    """A body of one or two nodes on a value of outside; its result has the name given."""
    nodes, at = [], v.name
    for i in range(int(g.rng.integers(1, 3))):
        out = f"{result}_{i}"
        if g.chance(0.4):
            k = g.constant(g.numbers(g.broadcastable(v), v.dtype))
            nodes.append(helper.make_node(str(g.rng.choice(["Add", "Mul"])), [at, k.name], [out], name=g.name("n")))
            names.append(k)
        else:
            nodes.append(helper.make_node(str(g.rng.choice(["Relu", "Tanh", "Sigmoid"])), [at], [out], name=g.name("n")))
        at = out
    nodes.append(helper.make_node("Identity", [at], [result], name=g.name("n")))
    return nodes


def shaped(name, v):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)


@recipe("If", weight=2)
def if_(g, op):
    v = g.pick(("float32",))
    if g.chance(0.6):
        half = g.op("ReduceMean", v, keepdims=0)
        condition = g.op("Greater", half, g.constant(np.array(g.rng.choice([-0.2, 0, 0.2]), v.dtype)))
    else:
        condition = g.constant(np.array(g.chance(0.5)))
    outer, bodies = [v], {}
    for which in ("then_branch", "else_branch"):
        result = g.name("b")
        bodies[which] = helper.make_graph(branch(g, outer, v, result, which), which, [], [shaped(result, v)])
    return g.op(op, condition, outer=outer, **bodies)


@recipe("Loop", weight=2)
def loop(g, op):
    v = g.pick(("float32",))
    i, go, carried, after, result, scanned = (g.name("b") for _ in range(6))
    inner = type(v)(carried, v.arrays, v.shadows, False, False)
    outer = []
    nodes = branch(g, outer, inner, result, "body")
    nodes.append(helper.make_node("Identity", [go], [after], name=g.name("n")))
    outputs = [helper.make_tensor_value_info(after, TensorProto.BOOL, []), shaped(result, v)]
    scans = g.chance(0.4)
    if scans:
        nodes.append(helper.make_node("Neg", [carried], [scanned], name=g.name("n")))
        outputs.append(shaped(scanned, v))
    inputs = [
        helper.make_tensor_value_info(i, TensorProto.INT64, []),
        helper.make_tensor_value_info(go, TensorProto.BOOL, []),
        shaped(carried, v),
    ]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    trips = g.constant(np.array(g.rng.integers(1, 4), np.int64))
    more = g.constant(np.array(True)) if g.chance(0.5) else None
    return g.op(op, trips, more, v, outer=outer, outputs=2 if scans else 1, body=body)


@recipe("Scan")
def scan(g, op):
    v = g.pick(("float32",), lambda s: len(s) >= 2)
    state = g.constant(g.numbers(v.shape[1:], v.dtype))
    a, x, b, y = (g.name("b") for _ in range(4))
    inner = type(v)("", [u[0] for u in v.arrays], None, False, False)
    nodes = [
        helper.make_node("Add", [a, x], [b], name=g.name("n")),
        helper.make_node("Tanh", [b], [y], name=g.name("n")),
    ]
    body = helper.make_graph(nodes, "body", [shaped(a, inner), shaped(x, inner)], [shaped(b, inner), shaped(y, inner)])
    return g.op(op, state, v, outputs=2, body=body, num_scan_inputs=1)


@recipe("Function", weight=2)
def function(g, op):
    """A call of a function of the model; a second call shares it."""
    v = g.pick(("float32",), lambda s: len(s) >= 1)
    names = [f.name for f in g.functions]
    if names and g.chance(0.5):
        return g.op(str(g.rng.choice(names)), v, g.partner(v), domain="local")
    name = g.name("F")
    first = str(g.rng.choice(["Add", "Mul", "Sub"]))
    second = str(g.rng.choice(["Relu", "Tanh", "HardSigmoid", "Neg"]))
    nodes = [
        helper.make_node(first, ["a", "b"], ["c"], name="f1"),
        helper.make_node(second, ["c"], ["d"], name="f2"),
        helper.make_node("Add", ["d", "a"], ["e"], name="f3"),
    ]
    made = helper.make_function("local", name, ["a", "b"], ["e"], nodes, [helper.make_opsetid("", g.opset)])
    g.functions.append(made)
    return g.op(name, v, g.partner(v), domain="local")
