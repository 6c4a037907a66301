# SPDX-License-Identifier: Apache-2.0
"""A network with ONNX's operators and the same network with the fused operators of ONNX Runtime's optimizer: the
default job loses the same in both."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
BATCH, TOKENS, WIDTH, HEADS = 1, 6, 16, 4


class Net:
    """A network of nodes that are added one by one; constants are named by their use, equal in both forms."""

    def __init__(self):
        self.nodes, self.constants, self.random, self.count = [], {}, np.random.default_rng(11), 0

    def const(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weight(self, *shape, scale=0.3):
        return self.const(self.random.normal(size=shape).astype(np.float32) * np.float32(scale))

    def add(self, op, *inputs, outputs=1, domain="", **attributes):
        self.count += 1
        names = [f"v{self.count}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"n{self.count}", domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def fused(self, op, *inputs, **attributes):
        return self.add(op, *inputs, domain=MS, **attributes)

    def dense(self, x, rows=WIDTH, columns=WIDTH):
        return self.add("MatMul", x, self.weight(rows, columns))

    def linear(self, x, rows=WIDTH, columns=WIDTH):
        return self.add("Add", self.dense(x, rows, columns), self.weight(columns))

    def layer_norm(self, x, gamma, beta):
        return self.add("LayerNormalization", x, gamma, beta, epsilon=1e-5)

    def stream(self):
        """A residual stream of which some channels are large: in 8 bits the others would be lost."""
        x = self.add("Conv", "x", self.weight(TOKENS, TOKENS, 3), kernel_shape=[3], pads=[1, 1])
        return self.add("Add", x, self.const(np.r_[[300.0, 100.0], np.ones(WIDTH - 2)].astype(np.float32)))

    def save(self, path, y):
        made = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", TOKENS, WIDTH])]
        graph = helper.make_graph(
            self.nodes,
            "g",
            made,
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(v, k) for k, v in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))


def norm_weights(n):
    return n.const(np.ones(WIDTH, np.float32)), n.weight(WIDTH)


def skip_layer_norm(n, fused, swapped=False):
    stream, product = n.stream(), n.dense("x")
    bias, (gamma, beta) = n.weight(WIDTH), norm_weights(n)
    if fused:
        pair = (stream, product) if swapped else (product, stream)
        y, _, _, total = n.fused("SkipLayerNormalization", *pair, gamma, beta, bias, outputs=4, epsilon=1e-5)
    else:
        total = n.add("Add", n.add("Add", product, bias), stream)
        y = n.layer_norm(total, gamma, beta)
    second = n.linear(y)
    return n.linear(n.layer_norm(n.add("Add", second, total), *norm_weights(n)))


def skip_layer_norm_swapped(n, fused):
    return skip_layer_norm(n, fused, swapped=True)


def rms_norm(n, x, gamma):
    square = n.add("ReduceMean", n.add("Pow", x, n.const(np.float32(2))), n.const(np.array([-1])), keepdims=1)
    root = n.add("Sqrt", n.add("Add", square, n.const(np.float32(1e-5))))
    return n.add("Mul", n.add("Div", x, root), gamma)


def skip_simplified_layer_norm(n, fused, swapped=False):
    stream, product, bias, gamma = n.stream(), n.dense("x"), n.weight(WIDTH), n.weight(WIDTH, scale=1)
    if fused:
        pair = (stream, product) if swapped else (product, stream)
        y = n.fused("SkipSimplifiedLayerNormalization", *pair, gamma, bias, epsilon=1e-5)
    else:
        y = rms_norm(n, n.add("Add", n.add("Add", product, bias), stream), gamma)
    return n.linear(y)


def skip_simplified_layer_norm_swapped(n, fused):
    return skip_simplified_layer_norm(n, fused, swapped=True)


def bias_gelu(n, fused):
    x, bias = n.dense("x"), n.weight(WIDTH)
    if fused:
        return n.linear(n.fused("BiasGelu", x, bias))
    x = n.add("Add", x, bias)
    half = n.add("Mul", x, n.const(np.float32(0.5)))
    erf = n.add("Erf", n.add("Div", x, n.const(np.float32(2**0.5))))
    return n.linear(n.add("Mul", half, n.add("Add", erf, n.const(np.float32(1)))))


def gelu(n, fused):
    x = n.linear("x")
    return n.linear(n.fused("Gelu", x) if fused else n.add("Gelu", x))


def fast_gelu(n, fused):
    x, bias = n.dense("x"), n.weight(WIDTH)
    if fused:
        return n.linear(n.fused("FastGelu", x, bias))
    x = n.add("Add", x, bias)
    cube = n.add("Mul", n.add("Pow", x, n.const(np.float32(3))), n.const(np.float32(0.044715)))
    inner = n.add("Tanh", n.add("Mul", n.add("Add", x, cube), n.const(np.float32((2 / np.pi) ** 0.5))))
    half = n.add("Mul", x, n.const(np.float32(0.5)))
    return n.linear(n.add("Mul", half, n.add("Add", inner, n.const(np.float32(1)))))


def quick_gelu(n, fused):
    x = n.linear("x")
    if fused:
        return n.linear(n.fused("QuickGelu", x, alpha=1.702))
    return n.linear(n.add("Mul", x, n.add("Sigmoid", n.add("Mul", x, n.const(np.float32(1.702))))))


def fused_matmul(n, fused):
    x, y = n.linear("x"), n.linear("x")
    if fused:
        product = n.fused("FusedMatMul", x, y, transB=1, alpha=0.25)
    else:
        product = n.add("MatMul", x, n.add("Transpose", y, perm=[0, 2, 1]))
        product = n.add("Mul", product, n.const(np.float32(0.25)))
    return n.linear(n.add("MatMul", n.add("Softmax", product, axis=-1), n.linear("x")))


def fused_matmul_of_weights(n, fused):
    x, w = n.linear("x"), n.random.normal(size=(WIDTH, WIDTH)).astype(np.float32)
    if fused:
        return n.linear(n.fused("FusedMatMul", x, n.const(w.T.copy()), transB=1))
    return n.linear(n.add("MatMul", x, n.const(w)))


def heads(n, x, perm=(0, 2, 1, 3)):
    x = n.add("Reshape", x, n.const(np.array([0, TOKENS, HEADS, WIDTH // HEADS])))
    return n.add("Transpose", x, perm=list(perm))


def scores_and_values(n, q, k, v):
    scores = n.add("MatMul", heads(n, q), heads(n, k, (0, 2, 3, 1)))
    scores = n.add("Mul", scores, n.const(np.float32((WIDTH // HEADS) ** -0.5)))
    y = n.add("MatMul", n.add("Softmax", scores, axis=-1), heads(n, v))
    return n.add("Reshape", n.add("Transpose", y, perm=[0, 2, 1, 3]), n.const(np.array([0, TOKENS, WIDTH])))


def attention(n, fused):
    x, w, b = n.linear("x"), n.weight(WIDTH, 3 * WIDTH), n.weight(3 * WIDTH)
    if fused:
        return n.linear(n.fused("Attention", x, w, b, num_heads=HEADS))
    w, b = n.constants[w], n.constants[b]
    qkv = [
        n.add("Add", n.add("MatMul", x, n.const(w[:, i : i + WIDTH].copy())), n.const(b[i : i + WIDTH].copy()))
        for i in range(0, 3 * WIDTH, WIDTH)
    ]
    return n.linear(scores_and_values(n, *qkv))


def multi_head_attention(n, fused):
    x = n.linear("x")
    qkv, biases = [n.dense(x) for _ in range(3)], n.random.normal(size=(3, WIDTH)).astype(np.float32)
    if fused:
        return n.linear(n.fused("MultiHeadAttention", *qkv, n.const(biases.reshape(-1)), num_heads=HEADS))
    return n.linear(scores_and_values(n, *(n.add("Add", v, n.const(b)) for v, b in zip(qkv, biases))))


def fused_gemm(n, fused):
    x = n.add("Reshape", n.linear("x"), n.const(np.array([-1, TOKENS * WIDTH])))
    w, b = n.weight(TOKENS * WIDTH, 24), n.weight(24)
    if fused:
        y = n.fused("FusedGemm", x, w, b, activation="Relu")
    else:
        y = n.add("Relu", n.add("Gemm", x, w, b))
    return n.linear(y, 24, 8)


def fused_conv(n, fused):
    w, b = n.weight(12, TOKENS, 3), n.weight(12)
    if fused:
        y = n.fused("FusedConv", "x", w, b, activation="Relu", pads=[1, 1], kernel_shape=[3])
    else:
        y = n.add("Relu", n.add("Conv", "x", w, b, pads=[1, 1], kernel_shape=[3]))
    return n.add("Conv", y, n.weight(4, 12, 3), n.weight(4), kernel_shape=[3])


def embed_layer_norm(n, fused):
    """Words by the largest of some logits, so that the input may be float."""
    ids = n.add("Cast", n.add("ArgMax", n.linear("x", WIDTH, 40), axis=-1, keepdims=0), to=TensorProto.INT32)
    words, places, (gamma, beta) = n.weight(40, WIDTH, scale=3), n.weight(TOKENS, WIDTH), norm_weights(n)
    if fused:
        y = n.fused("EmbedLayerNormalization", ids, "", words, places, "", gamma, beta, outputs=2, epsilon=1e-5)[0]
    else:
        y = n.layer_norm(n.add("Add", n.add("Gather", words, ids), places), gamma, beta)
    return n.linear(y)


FORMS = [
    skip_layer_norm,
    skip_layer_norm_swapped,
    skip_simplified_layer_norm,
    skip_simplified_layer_norm_swapped,
    bias_gelu,
    gelu,
    fast_gelu,
    quick_gelu,
    fused_matmul,
    fused_matmul_of_weights,
    attention,
    multi_head_attention,
    fused_gemm,
    fused_conv,
    embed_layer_norm,
]


@pytest.mark.integers
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_fused_and_plain_lose_the_same(form, qcalib, tmp_path):
    x = np.random.default_rng(3).normal(size=(48, TOKENS, WIDTH)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    lost = []
    for fused in (False, True):
        n = Net()
        n.save(tmp_path / f"{fused}.onnx", form(n, fused))
        report = qcalib("--data", "x.npz", f"{fused}.onnx", "-o", "q.onnx", "--json", "--no-report", "--method", "mse").json
        lost.append(report["outputs"][0]["sqnr_db"])
    assert lost[0] > 15, lost
    assert abs(lost[0] - lost[1]) < 0.5, lost
