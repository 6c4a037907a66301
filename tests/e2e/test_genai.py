# SPDX-License-Identifier: Apache-2.0
"""Files of decoders in onnxruntime-genai: they load, and generate the tokens of the model."""

import importlib.util
import json
import shutil
import subprocess
import sys

import decoder_model
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_few_bits_kept import save as save_few_bits
from test_kv_type import step

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("onnxruntime_genai"), reason="onnxruntime-genai is not installed")
PROMPTS = [[5, 17, 42, 99, 3], [8, 9], [100, 20, 30]]
GENERATE = """
import json, sys
import numpy as np
import onnxruntime_genai as og
model, found = og.Model(sys.argv[1]), []
for prompt in json.loads(sys.argv[2]):
    parameters = og.GeneratorParams(model)
    parameters.set_search_options(max_length=len(prompt) + int(sys.argv[3]), do_sample=False)
    generator = og.Generator(model, parameters)
    generator.append_tokens(np.array([prompt], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    found.append([int(t) for t in generator.get_sequence(0)][len(prompt):])
print(json.dumps(found))
"""


def generated(folder, name, count=8):
    """The tokens after each prompt, the most likely ones."""
    place = folder / f"{name}.genai"
    place.mkdir()
    shutil.copy(folder / name, place / "model.onnx")
    ports = lambda p: {"key_names": f"{p}.%d.key", "value_names": f"{p}.%d.value"}
    past, present = ports("past_key_values"), ports("present")
    decoder = {
        "filename": "model.onnx", "head_size": decoder_model.SIZE, "hidden_size": decoder_model.WIDTH,
        "num_attention_heads": decoder_model.HEADS, "num_key_value_heads": decoder_model.KV, "num_hidden_layers": decoder_model.LAYERS,
        "session_options": {"provider_options": []},
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **{f"past_{k}": v for k, v in past.items()}},
        "outputs": {"logits": "logits", **{f"present_{k}": v for k, v in present.items()}},
    }  # fmt: skip
    last = decoder_model.VOCABULARY - 1
    model = {"type": "llama", "vocab_size": last + 1, "context_length": 64, "bos_token_id": 1, "eos_token_id": last, "pad_token_id": 0, "decoder": decoder}
    search = {"do_sample": False, "max_length": 40, "num_beams": 1, "past_present_share_buffer": False, "top_k": 1}
    (place / "genai_config.json").write_text(json.dumps({"model": model, "search": search}))
    done = subprocess.run([sys.executable, "-c", GENERATE, place, json.dumps(PROMPTS), str(count)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tokens(folder):
    np.save(folder / "tokens.npy", np.random.default_rng(0).integers(2, decoder_model.VOCABULARY - 2, (32, 12)))


def add_experts(path):
    """Replaces the last product of layer 0 by QMoE with 4 experts of 4 bits."""
    decoder_model.save(path, "gqa")
    model, rng = onnx.load(path), np.random.default_rng(3)
    graph, width, experts, inner = model.graph, decoder_model.WIDTH, 4, 64
    (up,) = (n for n in graph.node if n.op_type == "MatMul" and n.input[1] == "up.0")
    (down,) = (n for n in graph.node if n.op_type == "MatMul" and n.input[1] == "down.0")
    packed = lambda *shape: rng.integers(0, 256, shape).astype(np.uint8)
    scales = lambda *shape: rng.uniform(0.02, 0.03, shape).astype(np.float32)
    constants = {
        "route": (rng.normal(size=(width, experts)) / 4).astype(np.float32), "rows": np.int64([-1, width]),
        "fc1": packed(experts, inner, width // 2), "fc1s": scales(experts, inner), "fc2": packed(experts, width, inner // 2), "fc2s": scales(experts, width),
    }  # fmt: skip
    nodes = [
        helper.make_node("Reshape", [up.input[0], "rows"], ["mx"], name="mx"),
        helper.make_node("MatMul", ["mx", "route"], ["mp"], name="router"),
        helper.make_node("QMoE", ["mx", "mp", "fc1", "fc1s", "", "fc2", "fc2s"], ["my"], name="experts", domain="com.microsoft", k=2, activation_type="silu",
                         normalize_routing_weights=1, expert_weight_bits=4),
        helper.make_node("Shape", [up.input[0]], ["shape"], name="shape"),
        helper.make_node("Reshape", ["my", "shape"], list(down.output), name="back"),
    ]  # fmt: skip
    kept = [m for n in graph.node for m in (nodes if n is down or n.output[0] == down.output[0] else [n])]
    del graph.node[:]
    graph.node.extend(kept)
    used = {i for n in kept for i in n.input}
    weights = [t for t in graph.initializer if t.name in used] + [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    del graph.initializer[:]
    graph.initializer.extend(weights)
    onnx.save(model, path)


@pytest.mark.parametrize("level", ["0", "1", "4"])
def test_weights_in_blocks_with_accuracy_level(level, qcalib, tmp_path):
    """MatMulNBits of each level generates what DequantizeLinear of the same weights does."""
    decoder_model.save(tmp_path / "m.onnx", "gqa")
    tokens(tmp_path)
    given = ("--data", "tokens.npy", "m.onnx", "--activation-type", "none", "--weight-type", "uint8", "--weight-block", "32", "--no-report", "--effort", "low")
    qcalib(*given, "--format", "qoperator", "--accuracy-level", level, "-o", "q.onnx")
    qcalib(*given, "-o", "plain.onnx")
    assert "MatMulNBits" in {n.op_type for n in onnx.load(tmp_path / "q.onnx").graph.node}
    assert generated(tmp_path, "q.onnx", 4) == generated(tmp_path, "plain.onnx", 4)  # later logits of random weights tie


def test_weights_of_8_bits(qcalib, tmp_path):
    decoder_model.save(tmp_path / "m.onnx", "gqa")
    tokens(tmp_path)
    qcalib("--data", "tokens.npy", "m.onnx", "--activation-type", "none", "--no-report", "-o", "q.onnx")
    assert generated(tmp_path, "q.onnx") == generated(tmp_path, "m.onnx")


def stepped(path, stored, count):
    """The tokens after each prompt by ONNX Runtime itself: the prompt, then a token at a time."""
    found = []
    for prompt in PROMPTS:
        past, given, made = None, np.array([prompt]), []
        for _ in range(count):
            past = step(path, given, past, "gqa", stored)
            made.append(int(past["logits"].numpy()[0, -1].argmax()))
            given = np.array([made[-1:]])
        found.append(made)
    return found


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_caches_of_integers(kind, qcalib, tmp_path):
    decoder_model.save(tmp_path / "m.onnx", "gqa")
    tokens(tmp_path)
    qcalib("--data", "tokens.npy", "m.onnx", "--activation-type", "none", "--weight-type", "none", "--kv-type", kind, "--no-report", "-o", "q.onnx")
    made = generated(tmp_path, "q.onnx")
    assert made == stepped(tmp_path / "q.onnx", TensorProto.INT8 if kind == "int8" else TensorProto.UINT8, 8)
    assert kind == "int4" or made == generated(tmp_path, "m.onnx")


def test_few_bits_of_the_model(qcalib, tmp_path):
    """MatMulNBits, GatherBlockQuantized and GroupQueryAttention of the model; the last product is quantized."""
    save_few_bits(tmp_path / "m.onnx", 4, [f"{n}.{k}" for n in ("q", "k", "v", "o", "up", "down") for k in range(2)][1:])
    tokens(tmp_path)
    qcalib("--data", "tokens.npy", "m.onnx", "--activation-type", "none", "--no-report", "-o", "q.onnx")
    assert generated(tmp_path, "q.onnx", 2) == generated(tmp_path, "m.onnx", 2)


def test_experts_of_4_bits(qcalib, tmp_path):
    """QMoE is carried through, and what is before it is quantized."""
    add_experts(tmp_path / "m.onnx")
    tokens(tmp_path)
    done = qcalib("--data", "tokens.npy", "m.onnx", "--activation-type", "none", "--no-report", "-o", "q.onnx")
    assert "QMoE" in done.err
    made = [n.op_type for n in onnx.load(tmp_path / "q.onnx").graph.node]
    assert "QMoE" in made and "DequantizeLinear" in made
    assert [g[:4] for g in generated(tmp_path, "q.onnx")] == [g[:4] for g in generated(tmp_path, "m.onnx")]
