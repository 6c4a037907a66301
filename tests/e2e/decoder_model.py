# SPDX-License-Identifier: Apache-2.0
"""A small decoder with a key/value cache, as exporters write it: `concat` as PyTorch and optimum (attention in ONNX's
operators), `gqa` as onnxruntime-genai (GroupQueryAttention with rotary embeddings). The table of tokens is also the
matrix of the last product."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS, KV, SIZE, LAYERS = 160, 64, 4, 2, 16, 2


class Builder:
    def __init__(self, seed=1):
        self.random = np.random.default_rng(seed)
        self.nodes, self.tensors = [], {}

    def weight(self, name, *shape, scale=None):
        scale = 1.6 / np.sqrt(shape[0]) if scale is None else scale
        return self.constant(name, (self.random.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, name, value):
        self.tensors[name] = np.asarray(value)
        return name

    def add(self, op, inputs, *names, domain="", **attributes):
        names = names or (f"v{len(self.nodes)}",)
        self.nodes.append(helper.make_node(op, inputs, list(names), name=f"{op}_{len(self.nodes)}", domain=domain, **attributes))
        return names[0]

    def ints(self, *values):
        return self.constant("ints_" + "_".join(map(str, values)).replace("-", "m"), np.array(values, np.int64))

    def norm(self, x, name):
        gamma = self.constant(f"{name}.gamma", (1 + 0.1 * self.random.standard_normal(WIDTH)).astype(np.float32))
        mean = self.add("ReduceMean", [self.add("Mul", [x, x])], axes=[-1], keepdims=1)
        root = self.add("Sqrt", [self.add("Add", [mean, self.constant("epsilon", np.float32(1e-6))])])
        return self.add("Mul", [self.add("Div", [x, root]), gamma])


def attention_concat(b, q, k, v, layer, mask):
    def heads(x, count):
        return b.add("Transpose", [b.add("Reshape", [x, b.ints(0, 0, count, SIZE)])], perm=[0, 2, 1, 3])

    keys = b.add("Concat", [f"past_key_values.{layer}.key", heads(k, KV)], f"present.{layer}.key", axis=2)
    values = b.add("Concat", [f"past_key_values.{layer}.value", heads(v, KV)], f"present.{layer}.value", axis=2)
    rows = b.add("Reshape", [heads(q, HEADS), b.ints(0, KV, -1, SIZE)])
    scores = b.add("MatMul", [rows, b.add("Transpose", [keys], perm=[0, 1, 3, 2])])
    scores = b.add("Reshape", [b.add("Mul", [scores, b.constant("scale", np.float32(SIZE**-0.5))]), "by_head"])
    shares = b.add("Reshape", [b.add("Softmax", [b.add("Add", [scores, mask])], axis=-1), "by_group"])
    y = b.add("Reshape", [b.add("MatMul", [shares, values]), "heads_again"])
    return b.add("Reshape", [b.add("Transpose", [y], perm=[0, 2, 1, 3]), b.ints(0, 0, HEADS * SIZE)])


def shapes_concat(b):
    """The shapes that attention needs, and the mask: 0 where a token may look, else a large negative number."""
    count = b.add("Shape", ["input_ids"])
    n, t = (b.add("Gather", [count, b.ints(i)]) for i in (0, 1))
    total = b.add("Gather", [b.add("Shape", ["attention_mask"]), b.ints(1)])
    b.add("Concat", [n, b.ints(HEADS), t, total], "by_head", axis=0)
    b.add("Concat", [n, b.ints(KV), b.ints(-1), total], "by_group", axis=0)
    b.add("Concat", [n, b.ints(HEADS), t, b.ints(SIZE)], "heads_again", axis=0)
    whole = b.add("Squeeze", [total])
    keys = b.add("Range", [b.constant("zero", np.int64(0)), whole, b.constant("one", np.int64(1))])
    later = b.add("Greater", [keys, b.add("Unsqueeze", ["position_ids", b.ints(2)])])  # [N,T,total]
    padding = b.add("Equal", [b.add("Unsqueeze", ["attention_mask", b.ints(1)]), b.constant("zero", np.int64(0))])
    hidden = b.add("Unsqueeze", [b.add("Or", [later, padding]), b.ints(1)])
    return b.add("Where", [hidden, b.constant("never", np.float32(-1e4)), b.constant("free", np.float32(0))])


def shapes_gqa(b):
    ones = b.add("ReduceSum", ["attention_mask", b.ints(1)], keepdims=0)
    b.add("Cast", [b.add("Sub", [ones, b.ints(1)])], "seqlens_k", to=TensorProto.INT32)
    total = b.add("Gather", [b.add("Shape", ["attention_mask"]), b.constant("one", np.int64(1))], axis=0)
    b.add("Cast", [total], "total_length", to=TensorProto.INT32)
    angle = np.arange(64)[:, None] / 100.0 ** np.linspace(0, 1, SIZE // 2, endpoint=False)
    b.constant("cos", np.cos(angle).astype(np.float32))
    b.constant("sin", np.sin(angle).astype(np.float32))


def save(path, form="concat", dimension=None, extra=(), gemm=False):
    """gemm: the last product is a Gemm of all tokens in one batch that reads the table as it is. dimension: what the files say of the size of a head; its number if None. extra: more inputs, as value infos."""
    b = Builder()
    table = b.weight("embedding", VOCABULARY, WIDTH, scale=0.3)
    x = b.add("Gather", [table, "input_ids"], "embedded")
    if form == "concat":
        mask = shapes_concat(b)
        x = b.add("Add", [x, b.add("Gather", [b.weight("places", 64, WIDTH, scale=0.2), "position_ids"])])
    else:
        shapes_gqa(b)
    for layer in range(LAYERS):
        a = b.norm(x, f"before.{layer}")
        q, k, v = (
            b.add("MatMul", [a, b.weight(f"{name}.{layer}", WIDTH, count * SIZE)])
            for name, count in (("q", HEADS), ("k", KV), ("v", KV))
        )
        if form == "concat":
            y = attention_concat(b, q, k, v, layer, mask)
        else:
            past = [f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"]
            results = [f"y.{layer}", f"present.{layer}.key", f"present.{layer}.value"]
            y = b.add(
                "GroupQueryAttention", [q, k, v, *past, "seqlens_k", "total_length", "cos", "sin"], *results,
                domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV, do_rotary=1,
            )
        x = b.add("Add", [x, b.add("MatMul", [y, b.weight(f"o.{layer}", HEADS * SIZE, WIDTH)])])
        up = b.add("MatMul", [b.norm(x, f"after.{layer}"), b.weight(f"up.{layer}", WIDTH, 2 * WIDTH)])
        gate = b.add("Mul", [up, b.add("Sigmoid", [up])])
        x = b.add("Add", [x, b.add("MatMul", [gate, b.weight(f"down.{layer}", 2 * WIDTH, WIDTH)])])
    x = b.norm(x, "last")
    if gemm:
        rows = b.add("Gemm", [b.add("Reshape", [x, b.ints(-1, WIDTH)]), table], transB=1)
        b.add("Reshape", [rows, b.add("Concat", [b.add("Shape", ["input_ids"]), b.ints(VOCABULARY)], axis=0)], "logits")
    else:
        b.add("MatMul", [x, b.add("Transpose", [table], perm=[1, 0])], "logits")

    def info(name, kind, *shape):
        return helper.make_tensor_value_info(name, kind, list(shape))

    size = SIZE if dimension is None else dimension
    inputs = [info("input_ids", TensorProto.INT64, "batch", "length"), info("attention_mask", TensorProto.INT64, "batch", "total")]
    if form == "concat":
        inputs.append(info("position_ids", TensorProto.INT64, "batch", "length"))
    outputs = [info("logits", TensorProto.FLOAT, "batch", "length", VOCABULARY)]
    for layer in range(LAYERS):
        for part in ("key", "value"):
            heads = KV if dimension is None else str(KV)
            inputs.append(info(f"past_key_values.{layer}.{part}", TensorProto.FLOAT, "batch", heads, "past", size))
            outputs.append(info(f"present.{layer}.{part}", TensorProto.FLOAT, "batch", KV, "total", SIZE))
    for value in extra:
        inputs.append(value)
        b.add("Identity", [value.name], f"{value.name}.out")
        outputs.append(info(f"{value.name}.out", value.type.tensor_type.elem_type))
    initializers = [numpy_helper.from_array(value, name) for name, value in b.tensors.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(b.nodes, "decoder", inputs, outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(path))


def feeds(tokens, past=None, form="concat"):
    """The inputs of one step: tokens [N,T], and the results of the step before as a dict."""
    n, t = tokens.shape
    p = past["present.0.key"].shape[2] if past else 0
    values = {"input_ids": tokens, "attention_mask": np.ones((n, p + t), np.int64)}
    if form == "concat":
        values["position_ids"] = np.tile(np.arange(p, p + t), (n, 1))
    for layer in range(LAYERS):
        for part in ("key", "value"):
            none = np.zeros((n, KV, 0, SIZE), np.float32)
            values[f"past_key_values.{layer}.{part}"] = past[f"present.{layer}.{part}"] if past else none
    return values


if __name__ == "__main__":  # docs/language-models.md
    save("decoder.onnx")
    np.save("tokens.npy", np.random.default_rng(3).integers(0, VOCABULARY, (64, 24)))
