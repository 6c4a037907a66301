# SPDX-License-Identifier: Apache-2.0
"""Models of real sizes with random weights, and samples for them, which scripts/benchmark measures besides the given
models. Their shapes are those of the models they are named after; times do not depend on the values of weights."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    def __init__(self, seed=0):
        self.rng, self.nodes, self.weights = np.random.default_rng(seed), [], []

    def constant(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def random(self, *shape, fan):
        return self.constant((self.rng.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32))

    def op(self, kind, *inputs, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def conv(self, x, inputs, outputs, kernel, stride=1, relu=True):
        bias = self.constant(np.full(outputs, 0.01, np.float32))
        x = self.op("Conv", x, self.random(outputs, inputs, kernel, kernel, fan=inputs * kernel ** 2), bias,
                    strides=[stride] * 2, pads=[kernel // 2] * 4)
        return self.op("Relu", x) if relu else x

    def dense(self, x, inputs, outputs):
        x = self.op("MatMul", x, self.random(inputs, outputs, fan=2 * inputs))
        return self.op("Add", x, self.constant(np.full(outputs, 0.01, np.float32)))

    def norm(self, x, width):
        return self.op("LayerNormalization", x, self.constant(np.ones(width, np.float32)),
                       self.constant(np.zeros(width, np.float32)), axis=-1)

    def write(self, path, x, y):
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(self.nodes, path.stem, [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return x


def head(n, x, width, path, shape):
    n.op("Gemm", n.op("Flatten", n.op("GlobalAveragePool", x)), n.random(width, 1000, fan=2 * width))
    return n.write(path, shape, ["n", 1000])


def resnet18(path, size=96):
    n = Network()
    x, width = n.op("MaxPool", n.conv("x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for out in (64, 64, 128, 128, 256, 256, 512, 512):
        stride = 1 + (out != width)
        y = n.conv(n.conv(x, width, out, 3, stride), out, out, 3, relu=False)
        x = n.op("Relu", n.op("Add", y, x if out == width else n.conv(x, width, out, 1, stride, False)))
        width = out
    return head(n, x, width, path, ["n", 3, size, size])


def resnet50(path, size=96):
    n = Network()
    x, width = n.op("MaxPool", n.conv("x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for k, blocks in enumerate((3, 4, 6, 3)):
        mid = 64 << k
        for block in range(blocks):
            stride = 1 + (k > 0 and block == 0)
            y = n.conv(n.conv(n.conv(x, width, mid, 1), mid, mid, 3, stride), mid, 4 * mid, 1, relu=False)
            x = n.op("Relu", n.op("Add", y, x if block else n.conv(x, width, 4 * mid, 1, stride, False)))
            width = 4 * mid
    return head(n, x, width, path, ["n", 3, size, size])


def attention(n, x, tokens, width, heads):
    """Adds an encoder layer: attention and two products, with residual connections."""
    split = n.constant(np.array([0, tokens, heads, width // heads]))
    scale = n.constant(np.float32((width // heads) ** -0.5))
    y = n.norm(x, width)
    q, k, v = (n.op("Transpose", n.op("Reshape", n.dense(y, width, width), split), perm=order)
               for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    a = n.op("MatMul", n.op("Softmax", n.op("Mul", n.op("MatMul", q, k), scale), axis=-1), v)
    a = n.op("Reshape", n.op("Transpose", a, perm=[0, 2, 1, 3]), n.constant(np.array([0, tokens, width])))
    x = n.op("Add", x, n.dense(a, width, width))
    h = n.op("Relu", n.dense(n.norm(x, width), width, 4 * width))
    return n.op("Add", x, n.dense(h, 4 * width, width))


def vit_b(path, tokens=64, width=768, layers=12, heads=12):
    """The encoder of ViT-B, on embedded patches."""
    n, x = Network(), "x"
    for _ in range(layers):
        x = attention(n, x, tokens, width, heads)
    n.norm(x, width)
    return n.write(path, ["n", tokens, width], ["n", tokens, width])


def dense(path, width=4096):
    n = Network()
    x = n.op("Relu", n.op("MatMul", "x", n.random(width, width, fan=2 * width)))
    n.op("MatMul", x, n.random(width, width, fan=2 * width))
    return n.write(path, ["n", width], ["n", width])


def separable(n, x, inputs, outputs, stride=1, act="Relu"):
    """Adds a depthwise and a pointwise convolution."""
    for fan, count, kernel, group, step in ((9, inputs, 3, inputs, stride), (inputs, outputs, 1, 1, 1)):
        bias = n.constant(np.full(count, 0.01, np.float32))
        steps = list(step) if isinstance(step, tuple) else [step] * 2
        x = n.op(act, n.op("Conv", x, n.random(count, inputs // group, kernel, kernel, fan=fan), bias, group=group,
                           strides=steps, pads=[kernel // 2] * 4))
    return x


def recogniser(path, height=48, length=320, width=256, words=4000):
    """A text recogniser: a mobile network, two attention layers along the line, and a score for each character."""
    n, tokens = Network(), length // 4
    x = n.conv("x", 3, 32, 3, 2)
    for inputs, outputs, stride in ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, width, (2, 1)), (width, width, 1),
                                    (width, width, (2, 1))):
        x = separable(n, x, inputs, outputs, stride)
    x = n.op("Transpose", n.op("ReduceMean", x, axes=[2], keepdims=0), perm=[0, 2, 1])
    for _ in range(2):
        x = attention(n, x, tokens, width, 8)
    n.op("Softmax", n.dense(x, width, words), axis=-1)
    return n.write(path, ["n", 3, height, length], ["n", tokens, words])


def detector(path, size=320, width=96):
    """An object detector: a mobile network and heads at three sizes, whose scores are joined."""
    n, scores, width_now = Network(), [], 24
    x = n.op("MaxPool", n.conv("x", 3, 24, 3, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for outputs, blocks in ((116, 3), (232, 7), (464, 3)):
        for block in range(blocks):
            x, width_now = separable(n, x, width_now, outputs, 1 + (block == 0), "LeakyRelu"), outputs
        y = n.op("LeakyRelu", n.conv(x, outputs, width, 1, relu=False))
        y = separable(n, separable(n, y, width, width, act="LeakyRelu"), width, width, act="LeakyRelu")
        y = n.op("Reshape", n.conv(y, width, 85, 1, relu=False), n.constant(np.array([0, 85, -1])))
        scores.append(n.op("Transpose", n.op("Sigmoid", y), perm=[0, 2, 1]))
    n.op("Concat", *scores, axis=1)
    return n.write(path, ["n", 3, size, size], ["n", sum((size // s) ** 2 for s in (8, 16, 32)), 85])


def densenet(path, size=96, growth=32):
    n, width = Network(), 64
    x = n.op("MaxPool", n.conv("x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for k, layers in enumerate((6, 12, 24, 16)):
        if k:
            width //= 2
            x = n.op("AveragePool", n.conv(x, 2 * width, width, 1), kernel_shape=[2, 2], strides=[2, 2])
        for _ in range(layers):
            x = n.op("Concat", x, n.conv(n.conv(x, width, 4 * growth, 1), 4 * growth, growth, 3), axis=1)
            width += growth
    return head(n, x, width, path, ["n", 3, size, size])


def deeplab(path, size=256, width=128, classes=21):
    """DeepLab: a mobile network, three parallel convolutions of different kernels, and a result of the size of the
    image."""
    n, x = Network(), "x"
    for inputs, outputs, stride in ((3, 32, 2), (32, 64, 2), (64, width, 2), (width, width, 2)):
        x = n.conv(x, inputs, outputs, 3, stride)
    x = n.op("Concat", *[n.conv(n.conv(x, width, width, 1), width, width, kernel) for kernel in (1, 3, 5)], axis=1)
    x = n.conv(n.conv(x, 3 * width, width, 1), width, classes, 1, relu=False)
    n.op("Resize", x, "", n.constant(np.array([1, 1, 16, 16], np.float32)), mode="linear")
    return n.write(path, ["n", 3, size, size], ["n", classes, size, size])


def chain(path, length):
    n, x = Network(), "x"
    for _ in range(length):
        x = n.conv(x, 16, 16, 3)
    return n.write(path, ["n", 16, 8, 8], ["n", 16, 8, 8])


# The function that makes each model, and its number of samples.
LARGE = {"ResNet-18-shaped, 96x96": (resnet18, 40), "ResNet-50-shaped, 96x96": (resnet50, 40),
         "ViT-B-shaped, 64 tokens": (vit_b, 16), "two dense layers of 4096 x 4096": (dense, 64),
         "text recogniser, 48x320": (recogniser, 32), "detector, 320x320": (detector, 32),
         "DenseNet-shaped, 96x96": (densenet, 32), "DeepLab-shaped, 256x256": (deeplab, 16)}


def starnet(path, size=224, base=24):
    """StarNet-S1: depthwise convolutions of 7x7, and products of two branches."""
    n = Network()
    low, high = n.constant(np.float32(0)), n.constant(np.float32(6))

    def conv(x, inputs, outputs, kernel, stride=1, group=1, act=False, gain=1.0):
        weight = n.random(outputs, inputs // group, kernel, kernel, fan=inputs // group * kernel ** 2 / gain ** 2)
        x = n.op("Conv", x, weight, n.constant(np.full(outputs, 0.1, np.float32)), strides=[stride] * 2,
                 pads=[kernel // 2] * 4, group=group)
        return n.op("Clip", x, low, high) if act else x

    x, width = conv("x", 3, 32, 3, 2, act=True), 32
    for k, depth in enumerate((2, 2, 8, 3)):
        x, width = conv(x, width, base << k, 3, 2), base << k
        for _ in range(depth):
            y = conv(x, width, width, 7, group=width)
            y = n.op("Mul", conv(y, width, 4 * width, 1, act=True), conv(y, width, 4 * width, 1, gain=0.5))
            y = conv(conv(y, 4 * width, width, 1, gain=0.5), width, width, 7, group=width, gain=0.1)
            x = n.op("Add", x, y)
    return head(n, x, width, path, ["n", 3, size, size])


def make(build, samples, folder, *how):
    """Returns (model, samples as .npy) in a folder, which are made once."""
    name = "_".join(map(str, (build.__name__, *how)))
    model, data = folder / f"{name}.onnx", folder / f"{name}.npy"
    if not data.exists():
        shape = build(model, *how)
        np.save(data, np.random.default_rng(1).standard_normal([samples, *shape[1:]]).astype(np.float32))
    return model, data
