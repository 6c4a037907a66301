# SPDX-License-Identifier: Apache-2.0
"""Networks of many architectures with random weights, exported to ONNX by both exporters of PyTorch, with samples for
each.

    python scripts/zoo.py FOLDER [NAME ...]
    python scripts/zoo.py --samples FOLDER [NAME ...]       # only samples

Needs torch and transformers. Writes FOLDER/NAME.EXPORTER.onnx, 32 calibration samples in FOLDER/NAME.h5 and 256
held-out samples in NAME.held.h5. Weights are drawn from a seed. Batch norms get the statistics of a few batches, so
that values have the size of those in a trained network. Samples are smooth random pictures, random tokens, or sums of
sines: random, but not white noise."""

import logging
import os
import pathlib
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import h5py
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import zoo_families  # noqa: F401 its networks
from zoo_parts import ZOO, Head, Inverted, Squeeze, conv, entry, features, pictures, sound, tokens

logging.disable(logging.WARNING)
# Samples are drawn in two batches: calibration samples with the first held-out ones, then the other held-out ones.
CALIB, AT_ONCE, HELD = 32, 48, 256


@entry(x=pictures(64))
def resnet18():
    class Block(nn.Module):
        def __init__(self, i, o, s):
            super().__init__()
            self.a, self.b = conv(i, o, 3, s), conv(o, o, act=None)
            self.short = conv(i, o, 1, s, act=None) if s > 1 or i != o else nn.Identity()

        def forward(self, x):
            return F.relu(self.b(self.a(x)) + self.short(x))

    widths = [64, 64, 128, 256, 512]
    blocks = [b for i, o, s in zip(widths, widths[1:], (1, 2, 2, 2)) for b in (Block(i, o, s), Block(o, o, 1))]
    return Head(nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks), 512)


@entry(x=pictures(64))
def mobilenet_v2():
    rows = [(16, 1, 1), (24, 2, 6), (24, 1, 6), (32, 2, 6), (32, 1, 6), (64, 2, 6), (64, 1, 6), (96, 1, 6), (160, 2, 6)]
    blocks, i = [], 32
    for o, s, e in rows:
        blocks.append(Inverted(i, o, s, e, nn.ReLU6))
        i = o
    return Head(nn.Sequential(conv(3, 32, 3, 2, act=nn.ReLU6), *blocks, conv(i, 640, 1, act=nn.ReLU6)), 640)


@entry(x=pictures(64))
def mobilenet_v3():
    rows = [
        (16, 1, 1, nn.ReLU, Squeeze),
        (24, 2, 4, nn.ReLU, None),
        (40, 2, 4, nn.Hardswish, Squeeze),
        (40, 1, 6, nn.Hardswish, Squeeze),
        (48, 1, 3, nn.Hardswish, Squeeze),
        (96, 2, 6, nn.Hardswish, Squeeze),
        (96, 1, 6, nn.Hardswish, Squeeze),
    ]
    blocks, i = [], 16
    for o, s, e, act, se in rows:
        blocks.append(Inverted(i, o, s, e, act, se, 5 if se else 3))
        i = o
    return Head(nn.Sequential(conv(3, 16, 3, 2, act=nn.Hardswish), *blocks, conv(i, 576, 1, act=nn.Hardswish)), 576)


@entry(x=pictures(64))
def efficientnet():
    def gate(c):
        return Squeeze(c, nn.Sigmoid)

    rows = [(16, 1, 1), (24, 2, 6), (24, 1, 6), (40, 2, 6), (80, 2, 6), (80, 1, 6), (112, 1, 6), (192, 2, 6)]
    blocks, i = [], 32
    for o, s, e in rows:
        blocks.append(Inverted(i, o, s, e, nn.SiLU, gate))
        i = o
    return Head(nn.Sequential(conv(3, 32, 3, 2, act=nn.SiLU), *blocks, conv(i, 640, 1, act=nn.SiLU)), 640)


@entry(x=pictures(64))
def shufflenet():
    class Unit(nn.Module):
        def __init__(self, c, down):
            super().__init__()
            self.down, half = down, c // 2
            i = c // 2 if down else half
            self.right = nn.Sequential(
                conv(i, half, 1), conv(half, half, 3, 2 if down else 1, half, act=None), conv(half, half, 1)
            )
            if down:
                self.left = nn.Sequential(conv(i, i, 3, 2, i, act=None), conv(i, half, 1))

        def forward(self, x):
            if self.down:
                y = torch.cat([self.left(x), self.right(x)], 1)
            else:
                a, b = x.chunk(2, 1)
                y = torch.cat([a, self.right(b)], 1)
            n, c, h, w = y.shape
            return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)

    return Head(
        nn.Sequential(
            conv(3, 32, 3, 2),
            Unit(64, True),
            Unit(64, False),
            Unit(64, False),
            Unit(128, True),
            Unit(128, False),
            conv(128, 256, 1),
        ),
        256,
    )


@entry(x=pictures(64))
def densenet():
    class Layer(nn.Module):
        def __init__(self, i, growth):
            super().__init__()
            self.n1, self.c1 = nn.BatchNorm2d(i), nn.Conv2d(i, 4 * growth, 1, bias=False)
            self.n2, self.c2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

        def forward(self, x):
            return torch.cat([x, self.c2(F.relu(self.n2(self.c1(F.relu(self.n1(x))))))], 1)

    parts, c = [conv(3, 32, 3, 2)], 32
    for stage in range(3):
        for _ in range(4):
            parts.append(Layer(c, 16))
            c += 16
        if stage < 2:
            parts += [nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c // 2, 1, bias=False), nn.AvgPool2d(2)]
            c //= 2
    return Head(nn.Sequential(*parts, nn.BatchNorm2d(c), nn.ReLU()), c)


@entry(x=pictures(64))
def unet():
    def block(i, o):
        return nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1),
            nn.GroupNorm(8, o),
            nn.SiLU(),
            nn.Conv2d(o, o, 3, padding=1),
            nn.GroupNorm(8, o),
            nn.SiLU(),
        )

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = block(3, 16), block(16, 32), block(32, 64)
            self.u1, self.u2 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
            self.d1, self.d2, self.out = block(64, 32), block(32, 16), nn.Conv2d(16, 2, 1)

        def forward(self, x):
            a = self.a(x)
            b = self.b(F.max_pool2d(a, 2))
            c = self.c(F.max_pool2d(b, 2))
            b = self.d1(torch.cat([self.u1(c), b], 1))
            return self.out(self.d2(torch.cat([self.u2(b), a], 1)))

    return Net()


@entry(x=pictures(64))
def deeplab():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.low, self.high = nn.Sequential(conv(3, 16, 3, 2), conv(16, 24, 3, 2)), nn.Sequential(
                conv(24, 64, 3, 2), conv(64, 96)
            )
            self.rates = nn.ModuleList(
                nn.Sequential(nn.Conv2d(96, 32, 3, padding=r, dilation=r, bias=False), nn.BatchNorm2d(32), nn.ReLU())
                for r in (1, 2, 4)
            )
            self.pool, self.join = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(96, 32, 1), nn.ReLU()), conv(
                128, 32, 1
            )
            self.skip, self.out = conv(24, 12, 1), nn.Sequential(conv(44, 32), nn.Conv2d(32, 5, 1))

        def forward(self, x):
            low = self.low(x)
            y = self.high(low)
            p = F.interpolate(self.pool(y), size=y.shape[2:], mode="bilinear", align_corners=False)
            y = self.join(torch.cat([*(r(y) for r in self.rates), p], 1))
            y = F.interpolate(y, size=low.shape[2:], mode="bilinear", align_corners=False)
            return F.interpolate(
                self.out(torch.cat([y, self.skip(low)], 1)), size=x.shape[2:], mode="bilinear", align_corners=False
            )

    return Net()


@entry(x=features(1, 512))
def wavenet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.n = nn.Conv1d(1, 32, 1), 6
            self.f = nn.ModuleList(nn.Conv1d(32, 32, 2, dilation=2**i) for i in range(self.n))
            self.g = nn.ModuleList(nn.Conv1d(32, 32, 2, dilation=2**i) for i in range(self.n))
            self.r = nn.ModuleList(nn.Conv1d(32, 32, 1) for _ in range(self.n))
            self.s = nn.ModuleList(nn.Conv1d(32, 32, 1) for _ in range(self.n))
            self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(32, 32, 1), nn.ReLU(), nn.Conv1d(32, 16, 1))

        def forward(self, x):
            x, total = self.first(x), 0
            for i in range(self.n):
                p = F.pad(x, (2**i, 0))
                h = torch.tanh(self.f[i](p)) * torch.sigmoid(self.g[i](p))
                total = total + self.s[i](h)
                x = x + self.r[i](h)
            return self.out(total)

    return Net()


@entry(pixel_values=pictures(48))
def swin():
    from transformers import SwinConfig, SwinForImageClassification

    return SwinForImageClassification(
        SwinConfig(
            image_size=48, patch_size=4, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=6, num_labels=10
        )
    )


@entry(pixel_values=pictures(64))
def vit():
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            image_size=64,
            patch_size=8,
            hidden_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=512,
            num_labels=10,
        )
    )


@entry(pixel_values=pictures(64))
def convnext():
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return ConvNextForImageClassification(
        ConvNextConfig(
            image_size=64,
            hidden_sizes=[32, 64, 128, 256],
            depths=[2, 2, 4, 2],
            num_labels=10,
            layer_scale_init_value=0.5,
        )
    )


@entry(pixel_values=pictures(64))
def segformer():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    return SegformerForSemanticSegmentation(
        SegformerConfig(hidden_sizes=[16, 32, 64, 128], decoder_hidden_size=64, num_labels=6)
    )


BERT = dict(
    hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512, vocab_size=1000, num_labels=5
)


@entry(input_ids=tokens(32, 1000))
def bert():
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(BertConfig(**BERT))


@entry(input_ids=tokens(32, 1000))
def distilbert():
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    return DistilBertForSequenceClassification(
        DistilBertConfig(dim=128, n_layers=3, n_heads=4, hidden_dim=512, vocab_size=1000, num_labels=5)
    )


@entry(input_ids=tokens(32, 1000))
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(n_embd=128, n_layer=3, n_head=4, vocab_size=1000, n_positions=64, use_cache=False)
    )


@entry(input_ids=tokens(32, 1000))
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=128,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=352,
            vocab_size=1000,
            use_cache=False,
        )
    )


@entry(input_ids=tokens(24, 1000), decoder_input_ids=tokens(12, 1000))
def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, vocab_size=1000, use_cache=False)
    )


@entry(input_features=features(80, 200))
def whisper_encoder():
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return WhisperEncoder(
        WhisperConfig(
            d_model=128, encoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=512, max_source_positions=100
        )
    )


@entry(input_values=sound(8000))
def wav2vec2():
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    return Wav2Vec2ForCTC(
        Wav2Vec2Config(
            hidden_size=128,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=512,
            conv_dim=(64,) * 7,
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
            vocab_size=32,
        )
    )


@entry(input_ids=tokens(24, 1000))
def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    return MambaForCausalLM(
        MambaConfig(
            hidden_size=96, num_hidden_layers=2, vocab_size=1000, state_size=8, use_cache=False, use_mambapy=False
        )
    )


class Recurrent(nn.Module):
    def __init__(self, kind, **how):
        super().__init__()
        self.body = kind(40, 64, num_layers=2, batch_first=True, **how)
        self.fc = nn.Linear(128 if how.get("bidirectional") else 64, 12)

    def forward(self, x):
        return self.fc(self.body(x)[0])


@entry(x=features(50, 40))
def lstm():
    return Recurrent(nn.LSTM)


@entry(x=features(50, 40))
def gru():
    return Recurrent(nn.GRU)


@entry(x=features(50, 40))
def bilstm():
    return Recurrent(nn.LSTM, bidirectional=True)


class Plain(nn.Module):
    """A model of transformers with its inputs in order and only its first output."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.names, inputs)))
        if isinstance(out, torch.Tensor):
            return out
        return out.logits if hasattr(out, "logits") else out[0]


def settle(model, inputs):
    """Gives batch norms the statistics of the samples; then freezes all layers."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for m in norms:
        nn.init.uniform_(m.weight, 0.5, 1.5)
        nn.init.uniform_(m.bias, -0.5, 0.5)
        m.momentum = None
    model.eval()
    for m in norms:
        m.train()
    with torch.no_grad():
        model(*inputs)
    model.eval()


def write_samples(path, samples):
    with h5py.File(path, "w") as f:
        for name, x in samples.items():
            f.create_dataset(name, data=x.numpy(), chunks=(1, *x.shape[1:]), compression="gzip")


def make_samples(folder, name):
    """Writes the samples and returns those for calibration."""
    inputs = ZOO[name][1]
    generator = torch.Generator().manual_seed(2)
    samples = {n: draw(generator, AT_ONCE) for n, draw in inputs.items()}
    more = {n: draw(generator, CALIB + HELD - AT_ONCE) for n, draw in inputs.items()}
    calib = {n: x[:CALIB] for n, x in samples.items()}
    write_samples(folder / f"{name}.h5", calib)
    write_samples(folder / f"{name}.held.h5", {n: torch.cat([x[CALIB:], more[n]]) for n, x in samples.items()})
    return calib


def export(model, one, path, names, exporter):
    with torch.no_grad():
        results = model(*one)
    count = 1 if isinstance(results, torch.Tensor) else len(results)
    how = {"input_names": names, "output_names": ["y"] if count == 1 else [f"y{i}" for i in range(count)]}
    if exporter == "dynamo":
        torch.onnx.export(model, one, str(path), dynamo=True, external_data=False, verbose=False, **how)
    else:
        axes = {n: {0: "batch"} for n in names}
        torch.onnx.export(model, one, str(path), dynamo=False, opset_version=17, dynamic_axes=axes, **how)


def make(folder, name):
    torch.manual_seed(1)
    samples = make_samples(folder, name)
    names = list(samples)
    model = ZOO[name][0]()
    if not isinstance(model, nn.Module):
        (folder / f"{name}.onnx.onnx").write_bytes(model.SerializeToString())  # not of PyTorch
        return
    if type(model).__module__ not in (__name__, "zoo_parts", "zoo_families"):
        model = Plain(model, names)
    settle(model, [samples[n][:16] for n in names])
    one = tuple(samples[n][:1] for n in names)
    for exporter in ("script", "dynamo"):
        path = folder / f"{name}.{exporter}.onnx"
        try:
            export(model, one, path, names, exporter)
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
        except Exception as error:  # a limit of the exporter is printed
            print(f"{path.name}: not exported: {type(error).__name__}: {str(error).splitlines()[0][:150]}", flush=True)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--samples"]
    folder = pathlib.Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name in arguments[1:] or ZOO:
        (make_samples if "--samples" in sys.argv else make)(folder, name)


if __name__ == "__main__":
    main()
