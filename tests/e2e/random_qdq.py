# SPDX-License-Identifier: Apache-2.0
"""Random small QDQ models with float constants among quantized tensors. All tensors have the shape of the input."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SIDE = 4, 6
SHAPE = [1, CHANNELS, SIDE, SIDE]
TYPES = {"u8": (np.uint8, 0, 255), "i8": (np.int8, -128, 127)}


class Maker:
    """Nodes and constants of one model."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.count = [], [], 0

    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def constant(self, array):
        name = self.name("k")
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, op, *inputs, **attributes):
        out = self.name("t")
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=f"n_{out}", **attributes))
        return out

    def floats(self, *shape, scale=1.0):
        return self.constant((self.rng.normal(size=shape) * scale).astype(np.float32))

    def parameters(self):
        dtype, lo, hi = TYPES[self.rng.choice(list(TYPES))]
        scale = np.float32(np.exp(self.rng.uniform(-5, -3)))
        return self.constant(scale), self.constant(dtype((lo + hi) // 2 + self.rng.integers(-40, 40)))

    def stored(self, v, parameters=None):
        """Through QuantizeLinear and DequantizeLinear."""
        scale, zero = parameters or self.parameters()
        return self.op("DequantizeLinear", self.op("QuantizeLinear", v, scale, zero), scale, zero)

    def middle(self, v, axis, first):
        """As many elements along an axis as the input has there."""
        at = [self.constant(np.int64([i])) for i in (first, first + SHAPE[axis], axis)]
        return self.op("Slice", v, *at)

    def number(self, v):
        """A float constant that lies between levels; some are far smaller than what is beside them."""
        shape = [SHAPE, [1, CHANNELS, 1, 1], [1]][self.rng.integers(3)]
        return v if self.rng.random() < 0.3 else self.floats(*shape, scale=10.0 ** self.rng.uniform(-3, 0.5))


def concat(m, v, w):
    axis = int(m.rng.integers(1, 4))
    shape = list(SHAPE)
    shape[axis] = 2
    other = w if m.rng.random() < 0.3 else m.floats(*shape, scale=10.0 ** m.rng.uniform(-3, 0))
    both = [other, v] if m.rng.random() < 0.5 else [v, other]
    return m.middle(m.op("Concat", *both, axis=axis), axis, int(m.rng.integers(0, 3)))


def arithmetic(m, v, w):
    return m.op(str(m.rng.choice(["Add", "Sub", "Mul", "Max", "Min"])), v, m.number(w))


def where(m, v, w):
    mask = m.constant(m.rng.random(SHAPE) < 0.5)
    return m.op("Where", mask, *([v, m.number(w)] if m.rng.random() < 0.5 else [m.number(w), v]))


def pad(m, v, _):
    value = m.constant(np.float32(m.rng.choice([0.0, 0.01234, -1.2345, 3.3])))
    return m.middle(m.op("Pad", v, m.constant(np.int64([0, 0, 1, 0, 0, 0, 1, 0])), value), 2, int(m.rng.integers(0, 3)))


def clip(m, v, _):
    return m.op("Clip", v, m.constant(np.float32(-0.7123)), m.constant(np.float32(0.5437)))


def move(m, v, _):
    kind = m.rng.integers(5)
    if kind == 0:
        return m.op("Transpose", m.op("Relu", m.op("Transpose", v, perm=[0, 2, 3, 1])), perm=[0, 3, 1, 2])
    if kind == 1:
        return m.op("Reshape", m.op("Reshape", v, m.constant(np.int64([1, -1]))), m.constant(np.int64(SHAPE)))
    if kind == 2:
        return m.op("MaxPool", v, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    if kind == 3:
        return m.op("Gather", v, m.constant(m.rng.permutation(CHANNELS)), axis=1)
    return m.op("Relu", v)


def function(m, v, _):
    return m.op(str(m.rng.choice(["Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Softmax"])), v)


def conv(m, v, _):
    shape = (CHANNELS, CHANNELS, 3, 3)
    weight = m.constant(m.rng.integers(-127, 128, shape).astype(np.int8))
    scale, zero = m.constant(np.float32(np.full(CHANNELS, 0.002))), m.constant(np.zeros(CHANNELS, np.int8))
    w = m.op("DequantizeLinear", weight, scale, zero, axis=0)
    bias = [m.floats(CHANNELS)] if m.rng.random() < 0.5 else []
    return m.op("Conv", v, w, *bias, pads=[1, 1, 1, 1])


def twice(m, v, _):
    return m.stored(m.stored(v))


STEPS = [concat, concat, arithmetic, arithmetic, where, pad, clip, move, move, function, conv, twice]


def random_model(seed, steps=8):
    """Every second tensor or so is stored; one output is stored, and one may be."""
    m = Maker(seed)
    pool = [m.stored("x"), "x"]
    for _ in range(steps):
        v, w = (pool[-1 - int(m.rng.integers(0, min(3, len(pool))))] for _ in range(2))
        pool.append(STEPS[m.rng.integers(len(STEPS))](m, v, w))
        if m.rng.random() < 0.5:
            pool.append(m.stored(pool[-1]))
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in (pool[-1], m.stored(pool[-2]))]
    graph = helper.make_graph(
        m.nodes, "random", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)], outputs, m.constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
