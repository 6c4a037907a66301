# SPDX-License-Identifier: Apache-2.0
"""Networks of zoo.py by family: detectors with their heads, streaming sound with states, fused attention, optical flow,
diffusion, speech synthesis, recommenders, pipelines of scikit-learn, and others. HELD_BACK are evaluated last."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from zoo_parts import conv, entry, features, pictures, sound, tokens

HELD_BACK = (
    "yolox fcos nsnet fsmn ocr_fused raft_iterative vae_decoder video_transformer glow_tts vocoder din mmoe svm_pipeline trees_pipeline"
    " mixer graph_attention nerf ft_transformer lightglue time_mixer"
).split()



def numbers(*shape, size=1.0):
    return lambda generator, n: torch.randn(n, *shape, generator=generator) * size


def unit(*shape):
    return lambda generator, n: torch.rand(n, *shape, generator=generator)


def mlp(*sizes, act=nn.ReLU, last=False):
    parts = []
    for i, o in zip(sizes, sizes[1:]):
        parts += [nn.Linear(i, o), act()]
    return nn.Sequential(*parts if last else parts[:-1])


def conv1(i, o, k=3, d=1, act=nn.ReLU):
    return nn.Sequential(nn.Conv1d(i, o, k, padding=d * (k // 2), dilation=d), act())


class Attention(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.heads, self.q, self.kv, self.out = heads, nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, x, memory=None, bias=None):
        memory = x if memory is None else memory
        k, v = self.kv(memory).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), k, v))
        dots = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        dots = dots if bias is None else dots + bias
        return self.out((dots.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A block of a transformer; with a memory, of its decoder."""

    def __init__(self, d, heads=4, cross=False):
        super().__init__()
        self.a, self.n, self.m = Attention(d, heads), nn.LayerNorm(d), nn.LayerNorm(d)
        self.c, self.o = (Attention(d, heads), nn.LayerNorm(d)) if cross else (None, None)
        self.f = mlp(d, 3 * d, d, act=nn.GELU)

    def forward(self, x, memory=None, bias=None):
        x = x + self.a(self.n(x), bias=bias)
        if self.c is not None:
            x = x + self.c(self.o(x), memory)
        return x + self.f(self.m(x))


class Built(nn.Module):
    """A network of parts and a function of them."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, nn.ModuleList(part) if isinstance(part, list) else nn.Parameter(part) if isinstance(part, torch.Tensor) else part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def pyramid(c=24):
    return [conv(3, c, 3, 2), conv(c, 2 * c, 3, 2), conv(2 * c, 2 * c, 3, 2), conv(2 * c, 2 * c, 3, 2)]


def levels(parts, x):
    found = []
    for part in parts:
        x = part(x)
        found.append(x)
    return found[-2:]


def cells(x):
    """[n, h * w, 2]: the middle of each cell of a map."""
    h, w = x.shape[2:]
    y, x = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
    return torch.stack([x, y], -1).reshape(1, -1, 2)


# Detectors with their heads.
@entry(x=pictures(64))
def ssd():
    def run(s, x):
        boxes, scores = [], []
        for f, b, c, stride in zip(levels(s.body, x), s.boxes, s.classes, (8, 16)):
            d = b(f).flatten(2).transpose(1, 2).unflatten(2, (3, 4)).transpose(1, 2)
            middle = cells(f)[:, None] * stride + d[..., :2] * 0.1 * stride
            size = torch.exp(d[..., 2:].clamp(-3, 3) * 0.2) * s.anchors[None, :, None] * stride
            boxes.append(torch.cat([middle - size / 2, middle + size / 2], -1).flatten(1, 2))
            scores.append(c(f).flatten(2).transpose(1, 2).unflatten(2, (3, 6)).flatten(1, 2).softmax(-1))
        return torch.cat(boxes, 1), torch.cat(scores, 1)

    heads = lambda n: [nn.Conv2d(48, n, 3, padding=1) for _ in range(2)]
    return Built(run, body=pyramid(), boxes=heads(12), classes=heads(18), anchors=torch.tensor([[1.0, 1], [2, 1], [1, 2]]))


@entry(x=pictures(64))
def yolox():
    def run(s, x):
        out = []
        for f, h, stride in zip(levels(s.body, x), s.heads, (8, 16)):
            d = h(f).flatten(2).transpose(1, 2)
            out.append(torch.cat([(d[..., :2] + cells(f)) * stride, torch.exp(d[..., 2:4] * 0.3) * stride, d[..., 4:].sigmoid()], -1))
        return torch.cat(out, 1)

    return Built(run, body=pyramid(), heads=[nn.Conv2d(48, 11, 1) for _ in range(2)])


@entry(x=pictures(64))
def fcos():
    def run(s, x):
        fine, coarse = levels(s.body, x)
        fine = s.lateral(fine) + F.interpolate(coarse, scale_factor=2.0, mode="nearest")
        boxes, scores = [], []
        for f, stride in ((fine, 8), (coarse, 16)):
            t = s.tower(f)
            sides, middle = F.relu(s.sides(t)).flatten(2).transpose(1, 2) * stride, cells(f) * stride
            boxes.append(torch.cat([middle - sides[..., :2], middle + sides[..., 2:]], -1))
            scores.append((s.classes(t).sigmoid() * s.centre(t).sigmoid()).sqrt().flatten(2).transpose(1, 2))
        return torch.cat(boxes, 1), torch.cat(scores, 1)

    tower = nn.Sequential(nn.Conv2d(48, 48, 3, padding=1), nn.GroupNorm(4, 48), nn.ReLU())
    return Built(run, body=pyramid(), lateral=nn.Conv2d(48, 48, 1), tower=tower, sides=nn.Conv2d(48, 4, 1), classes=nn.Conv2d(48, 6, 1), centre=nn.Conv2d(48, 1, 1))


@entry(x=pictures(64))
def centernet():
    def run(s, x):
        f = F.interpolate(levels(s.body, x)[-1], scale_factor=4.0, mode="bilinear")
        heat = s.heat(f).sigmoid()
        peaks = heat * (F.max_pool2d(heat, 3, 1, 1) <= heat * 1.05).float()
        return peaks, s.size(f).exp().clamp(max=8), heat.amax((2, 3))

    return Built(run, body=pyramid(), heat=nn.Sequential(conv(48, 32), nn.Conv2d(32, 5, 1)), size=nn.Sequential(conv(48, 32), nn.Conv2d(32, 2, 1)))


@entry(x=pictures(64))
def prototype_masks():
    def run(s, x):
        fine, coarse = levels(s.body, x)
        masks = s.masks(F.interpolate(fine, scale_factor=2.0)).relu()
        weights = s.weights(coarse).flatten(2).transpose(1, 2).tanh()
        return torch.einsum("bpc,bchw->bphw", weights, masks).sigmoid(), s.classes(coarse).flatten(2).softmax(1)

    return Built(run, body=pyramid(), masks=nn.Conv2d(48, 8, 3, padding=1), weights=nn.Conv2d(48, 8, 1), classes=nn.Conv2d(48, 6, 1))


# Streaming sound with states.
@entry(x=features(1, 64), h=numbers(2, 48, size=0.4), c=numbers(2, 48, size=0.8))
def dtln():
    def run(s, x, h, c):
        m, (h, c) = s.lstm(s.norm(x), (h.transpose(0, 1), c.transpose(0, 1)))
        return x * s.mask(m).sigmoid(), h.transpose(0, 1), c.transpose(0, 1)

    return Built(run, norm=nn.LayerNorm(64), lstm=nn.LSTM(64, 48, 2, batch_first=True), mask=nn.Linear(48, 64))


@entry(x=features(4, 65), h=numbers(1, 64, size=0.4))
def nsnet():
    def run(s, x, h):
        y, h = s.gru(F.relu(s.a(x)), h.transpose(0, 1))
        return s.b(y).sigmoid(), h.transpose(0, 1)

    return Built(run, a=nn.Linear(65, 64), gru=nn.GRU(64, 64, batch_first=True), b=mlp(64, 80, 65))


@entry(x=numbers(24, 8), past=numbers(3, 24, 8, size=0.7))
def cached_tcn():
    def run(s, x, past):
        kept = []
        for i, (a, b, d) in enumerate(zip(s.wide, s.back, (1, 2, 4))):
            whole = torch.cat([past[:, i], x], 2)
            kept.append(whole[:, :, -8:])
            x = x + b(F.silu(a(whole[:, :, 8 - 2 * d :])))
        return s.out(x), torch.stack(kept, 1)

    return Built(run, wide=[nn.Conv1d(24, 48, 3, dilation=d) for d in (1, 2, 4)], back=[nn.Conv1d(48, 24, 1) for _ in range(3)], out=nn.Conv1d(24, 10, 1))


@entry(x=features(8, 40), past=numbers(40, 6, size=0.6))
def fsmn():
    def run(s, x, past):
        p = s.down(F.relu(s.first(x)))
        whole = torch.cat([past.transpose(1, 2), p], 1)
        memory = s.memory(whole.transpose(1, 2)).transpose(1, 2)
        return s.last(F.relu(s.up(p + memory))).softmax(-1), whole[:, -6:].transpose(1, 2)

    return Built(run, first=nn.Linear(40, 96), down=nn.Linear(96, 40, bias=False), memory=nn.Conv1d(40, 40, 7, groups=40), up=nn.Linear(40, 64), last=nn.Linear(64, 5))


@entry(x=features(8, 48), keys=numbers(16, 48, size=0.7), values=numbers(16, 48, size=0.7))
def chunk_attention():
    def run(s, x, keys, values):
        q, k, v = s.qkv(s.norm(x)).chunk(3, -1)
        k, v = torch.cat([keys, k], 1), torch.cat([values, v], 1)
        split = lambda t: t.unflatten(-1, (4, 12)).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(q), split(k), split(v)).transpose(1, 2).flatten(2)
        x = x + s.out(y)
        return x + s.feed(x), k[:, -16:], v[:, -16:]

    return Built(run, norm=nn.LayerNorm(48), qkv=nn.Linear(48, 144), out=nn.Linear(48, 48), feed=nn.Sequential(nn.LayerNorm(48), mlp(48, 96, 48, act=nn.SiLU)))


@entry(spec=numbers(2, 8, 65), h=numbers(1, 64, size=0.4))
def deep_filter():
    def run(s, x, h):
        e = s.e2(F.pad(s.e1(F.pad(x, (0, 0, 1, 0))), (0, 0, 1, 0)))
        g, h = s.gru(e.permute(0, 2, 1, 3).flatten(2), h.transpose(0, 1))
        mask = s.gain(g).sigmoid().unsqueeze(1)
        return x * mask, h.transpose(0, 1)

    layer = lambda i, o: nn.Sequential(nn.Conv2d(i, o, (2, 5), (1, 2), (0, 2)), nn.BatchNorm2d(o), nn.ELU())
    return Built(run, e1=layer(2, 12), e2=layer(12, 12), gru=nn.GRU(12 * 17, 64, batch_first=True), gain=nn.Linear(64, 65))


# Attention as operators of ONNX Runtime, which no exporter of PyTorch writes.
def fused(body, constants, inputs, opset=17):
    import numpy as np
    import onnx.parser
    from onnx import numpy_helper

    rng = np.random.default_rng(3)
    text = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> g ({inputs}) => (float[n, s, c] y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    for name, value in constants.items():
        if isinstance(value, tuple):
            value = rng.normal(size=value) / (value[-2] ** 0.5 if len(value) > 1 else 10) + name.startswith("one")
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
    return model


@entry(ids=tokens(24, 500), mask=lambda g, n: (torch.arange(24) < torch.randint(8, 25, (n, 1), generator=g)).int())
def encoder_fused():
    body, x = "e = Gather (words, ids) p = Add (e, place) h0 = LayerNormalization <axis = -1> (p, one, zero)", "h0"
    constants = {"words": (500, 64), "place": (1, 24, 64), "one": (64,), "zero": (64,)}
    for i in range(2):
        body += f""" a{i} = com.microsoft.Attention <num_heads = 4> ({x}, qkv{i}, qkvb{i}, mask) m{i} = MatMul (a{i}, out{i})
            s{i} = com.microsoft.SkipLayerNormalization <epsilon = 1e-5> (m{i}, {x}, one{i}, zero{i}, outb{i}) u{i} = MatMul (s{i}, up{i}) g{i} = com.microsoft.BiasGelu (u{i}, upb{i})
            d{i} = MatMul (g{i}, down{i}) t{i} = com.microsoft.SkipLayerNormalization <epsilon = 1e-5> (d{i}, s{i}, one{i}, zero{i}, outb{i})"""
        constants |= {f"qkv{i}": (64, 192), f"qkvb{i}": (192,), f"out{i}": (64, 64), f"outb{i}": (64,), f"one{i}": (64,), f"zero{i}": (64,), f"up{i}": (64, 128), f"upb{i}": (128,), f"down{i}": (128, 64)}
        x = f"t{i}"
    return fused(f"{body} y = MatMul ({x}, last)", constants | {"last": (64, 20)}, "int64[n, 24] ids, int32[n, 24] mask")


@entry(x=features(16, 64), memory=features(20, 64))
def ocr_fused():
    body, x, constants = "", "x", {}
    for i in range(2):
        for part, heads in (("own", ""), ("cross", "")):
            of, n = (x if part == "own" else "memory"), f"{part}{i}"
            body += f""" q{n} = MatMul ({x}, wq{n}) k{n} = MatMul ({of}, wk{n}) v{n} = MatMul ({of}, wv{n})
                a{n} = com.microsoft.MultiHeadAttention <num_heads = 4> (q{n}, k{n}, v{n}, b{n}) o{n} = MatMul (a{n}, wo{n})
                r{n} = Add (o{n}, {x}) h{n} = com.microsoft.SimplifiedLayerNormalization <axis = -1, epsilon = 1e-5> (r{n}, one{n})"""
            body = body.replace("com.microsoft.SimplifiedLayerNormalization", "SimplifiedLayerNormalization")
            constants |= {f"{w}{n}": (64, 64) for w in ("wq", "wk", "wv", "wo")} | {f"b{n}": (192,), f"one{n}": (64,)}
            x = f"h{n}"
        body += f" u{i} = MatMul ({x}, up{i}) g{i} = com.microsoft.FastGelu (u{i}, upb{i}) d{i} = MatMul (g{i}, down{i}) z{i} = Add (d{i}, {x})"
        constants |= {f"up{i}": (64, 128), f"upb{i}": (128,), f"down{i}": (128, 64)}
        x = f"z{i}"
    return fused(f"{body} y = MatMul ({x}, last)", constants | {"last": (64, 37)}, "float[n, 16, 64] x, float[n, 20, 64] memory")


@entry(ids=tokens(24, 500), mask=lambda g, n: (torch.arange(24) < torch.randint(8, 25, (n, 1), generator=g)).long())
def mpnet():
    """A bias of positions beside a mask of the least float."""

    def run(s, ids, mask):
        bias = (1 - mask.float())[:, None, None] * torch.finfo(torch.float32).min + s.bias
        x = s.words(ids)
        for b in s.blocks:
            x = b(x, bias=bias)
        m = mask.float()[..., None]
        return F.normalize((x * m).sum(1) / m.sum(1), dim=-1)

    return Built(run, words=nn.Embedding(500, 64), bias=torch.randn(1, 4, 24, 24), blocks=[Block(64) for _ in range(2)])


# Optical flow.
def warp(x, flow):
    n, _, h, w = x.shape
    y, at = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    grid = torch.stack([at, y], -1)[None] + flow.permute(0, 2, 3, 1) * 0.1
    return F.grid_sample(x, grid, align_corners=True)


@entry(a=pictures(32), b=pictures(32))
def raft_iterative():
    def run(s, a, b):
        f, g = s.body(a), s.body(b)
        h, flow = torch.tanh(s.first(f)), f[:, :2] * 0
        for _ in range(3):
            cost = (f * warp(g, flow)).unflatten(1, (8, 3)).sum(2)
            x = torch.cat([F.relu(s.motion(torch.cat([cost, flow], 1))), h], 1)
            z, r = s.gates(x).sigmoid().chunk(2, 1)
            h = (1 - z) * h + z * torch.tanh(s.new(torch.cat([x[:, :16], r * h], 1)))
            flow = flow + s.step(h) * 0.3
        return flow

    c = lambda i, o: nn.Conv2d(i, o, 3, padding=1)
    return Built(run, body=nn.Sequential(conv(3, 24, 3, 2), c(24, 24)), first=c(24, 24), motion=c(10, 16), gates=c(40, 48), new=c(40, 24), step=c(24, 2))


@entry(a=pictures(32), b=pictures(32))
def cost_volume_flow():
    def run(s, a, b):
        f, g = s.body(a), F.pad(s.body(b), (2, 2, 2, 2))
        h, w = f.shape[2:]
        cost = torch.cat([(f * g[:, :, y : y + h, x : x + w]).mean(1, keepdim=True) for y in range(0, 5, 2) for x in range(0, 5, 2)], 1)
        flow = s.decode(torch.cat([F.leaky_relu(cost, 0.1), f], 1))
        return F.interpolate(flow, scale_factor=4.0, mode="bilinear") * 4

    return Built(run, body=nn.Sequential(conv(3, 24, 3, 2), conv(24, 32, 3, 2)), decode=nn.Sequential(conv(41, 48, act=lambda: nn.LeakyReLU(0.1)), nn.Conv2d(48, 2, 3, padding=1)))


# Diffusion.
def wave_of(t, d=32):
    angle = t * torch.exp(torch.arange(d // 2) * (-math.log(1000.0) / (d // 2)))
    return torch.cat([angle.sin(), angle.cos()], -1)


@entry(x=numbers(4, 16, 16), t=lambda g, n: torch.rand(n, 1, generator=g) * 1000)
def dit():
    def run(s, x, t):
        c = s.time(wave_of(t))
        x = s.patch(x).flatten(2).transpose(1, 2) + s.place
        for a, f, m in zip(s.attention, s.feed, s.modulate):
            u, v, g, p, q, r = m(c).unsqueeze(1).chunk(6, -1)
            x = x + g * a(F.layer_norm(x, (64,)) * (1 + u) + v)
            x = x + r * f(F.layer_norm(x, (64,)) * (1 + p) + q)
        x = s.out(x).transpose(1, 2).unflatten(2, (8, 8))
        return F.pixel_shuffle(x, 2)

    return Built(run, time=mlp(32, 64, 64, act=nn.SiLU, last=True), patch=nn.Conv2d(4, 64, 2, 2), place=torch.randn(1, 64, 64) * 0.1,
                 attention=[Attention(64) for _ in range(2)], feed=[mlp(64, 128, 64, act=nn.GELU) for _ in range(2)], modulate=[nn.Linear(64, 384) for _ in range(2)], out=nn.Linear(64, 16))  # fmt: skip


@entry(x=numbers(4, 8, 8))
def vae_decoder():
    class Residual(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.a, self.b, self.n, self.m = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(8, c), nn.GroupNorm(8, c)

        def forward(self, x):
            return x + self.b(F.silu(self.m(self.a(F.silu(self.n(x))))))

    def run(s, x):
        x = s.middle(s.first(x))
        x = x + s.attention(x.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, (8, 8))
        for r, up in zip(s.rest, s.up):
            x = up(F.interpolate(r(x), scale_factor=2.0, mode="nearest"))
        return s.last(F.silu(x))

    return Built(run, first=nn.Conv2d(4, 64, 3, padding=1), middle=Residual(64), attention=Attention(64, 1), rest=[Residual(64), Residual(32)], up=[nn.Conv2d(64, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)], last=nn.Conv2d(32, 3, 3, padding=1))


@entry(x=numbers(32, 64), words=numbers(12, 64), t=lambda g, n: torch.rand(n, 1, generator=g) * 1000)
def joint_diffusion():
    def run(s, x, words, t):
        shift = s.time(wave_of(t)).unsqueeze(1)
        both = torch.cat([words, x + shift], 1)
        for b in s.blocks:
            both = b(both)
        return s.out(both[:, 12:])

    return Built(run, time=mlp(32, 64, 64, act=nn.SiLU), blocks=[Block(64) for _ in range(2)], out=nn.Linear(64, 64))


@entry(x=numbers(4, 4, 8, 8))
def video_transformer():
    def run(s, x):
        x = s.patch(x.flatten(0, 1)).flatten(2).transpose(1, 2)
        x = s.space(x)
        x = x.unflatten(0, (-1, 4)).transpose(1, 2).flatten(0, 1)
        x = s.time(x)
        return s.out(x).unflatten(0, (-1, 16))

    return Built(run, patch=nn.Conv2d(4, 48, 2, 2), space=Block(48), time=Block(48), out=nn.Linear(48, 16))


# Speech synthesis.
@entry(ids=tokens(16, 60))
def fastspeech():
    def run(s, ids):
        x = s.encode(s.words(ids) + s.place)
        long = s.length(x.transpose(1, 2)).exp().clamp(0.5, 6.0)
        pitch = s.pitch(x.transpose(1, 2))
        x = x + s.mix(pitch.transpose(1, 2))
        return s.mel(s.decode(x.unsqueeze(2).expand(-1, -1, 3, -1).flatten(1, 2))), long

    predictor = lambda: nn.Sequential(conv1(48, 48), nn.Conv1d(48, 1, 1))
    return Built(run, words=nn.Embedding(60, 48), place=torch.randn(1, 16, 48) * 0.1, encode=Block(48), length=predictor(), pitch=predictor(), mix=nn.Linear(1, 48), decode=Block(48), mel=nn.Linear(48, 40))


@entry(z=numbers(16, 40), speaker=numbers(16))
def glow_tts():
    def run(s, z, speaker):
        for net, g, mix in zip(s.nets, s.given, s.mix):
            a, b = z.chunk(2, 1)
            t, gate = (net(a) + g(speaker).unsqueeze(-1)).chunk(2, 1)
            m, size = s.back(torch.tanh(t) * gate.sigmoid()).chunk(2, 1)
            z = mix(torch.cat([a, (b - m) * torch.exp(-size.clamp(-1, 1))], 1)).flip(1)
        return z

    return Built(run, nets=[nn.Conv1d(8, 64, 5, padding=2) for _ in range(3)], given=[nn.Linear(16, 64) for _ in range(3)], mix=[nn.Conv1d(16, 16, 1) for _ in range(3)], back=nn.Conv1d(32, 16, 1))


@entry(mel=features(40, 24))
def vocoder():
    def run(s, mel):
        x = s.first(mel)
        for d, n, f in zip(s.depth, s.norms, s.feed):
            x = x + f(n(d(x).transpose(1, 2))).transpose(1, 2)
        a = s.out(x.transpose(1, 2))
        size, angle = a[..., :33].clamp(max=3).exp(), a[..., 33:]
        return torch.cat([size * angle.cos(), size * angle.sin()], -1) @ s.basis

    return Built(run, first=nn.Conv1d(40, 64, 7, padding=3), depth=[nn.Conv1d(64, 64, 7, padding=3, groups=64) for _ in range(2)], norms=[nn.LayerNorm(64) for _ in range(2)],
                 feed=[mlp(64, 128, 64, act=nn.GELU) for _ in range(2)], out=nn.Linear(64, 66), basis=torch.randn(66, 64) / 8)  # fmt: skip


@entry(mel=features(20, 40), memory=numbers(16, 48), h=numbers(48, size=0.4), c=numbers(48, size=0.7))
def tacotron_step():
    def run(s, mel, memory, h, c):
        p = s.pre(mel[:, -1])
        h, c = s.cell(torch.cat([p, h], -1), (h, c))
        e = s.score(torch.tanh(s.query(h).unsqueeze(1) + s.key(memory))).softmax(1)
        context = (e * memory).sum(1)
        return s.frame(torch.cat([h, context], -1)), s.post(mel.transpose(1, 2)), h, c

    post = nn.Sequential(nn.Conv1d(40, 48, 5, padding=2), nn.BatchNorm1d(48), nn.Tanh(), nn.Conv1d(48, 40, 5, padding=2))
    return Built(run, pre=mlp(40, 32, 32, last=True), cell=nn.LSTMCell(80, 48), score=nn.Linear(48, 1), query=nn.Linear(48, 48), key=nn.Linear(48, 48), frame=nn.Linear(96, 40), post=post)


# Recommenders.
@entry(user=tokens(1, 300), item=tokens(1, 200), past=tokens(10, 200))
def din():
    def run(s, user, item, past):
        i, p = s.items(item), s.items(past)
        i = i.expand(-1, 10, -1)
        w = s.weigh(torch.cat([i, p, i - p, i * p], -1))
        pooled = (w * p).sum(1)
        return s.top(torch.cat([s.users(user)[:, 0], i[:, 0], pooled], -1)).sigmoid()

    return Built(run, users=nn.Embedding(300, 16), items=nn.Embedding(200, 16), weigh=mlp(64, 32, 1, act=nn.PReLU), top=mlp(48, 64, 32, 1, act=nn.PReLU))


@entry(ids=tokens(8, 400), dense=numbers(6))
def deepfm():
    def run(s, ids, dense):
        e = s.table(ids)
        second = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(-1, keepdim=True)
        x = torch.cat([e.flatten(1), dense], -1)
        return (s.linear(x) + second * 0.1 + s.deep(x)).sigmoid()

    return Built(run, table=nn.Embedding(400, 12), linear=nn.Linear(102, 1), deep=mlp(102, 64, 32, 1))


@entry(x=numbers(24))
def mmoe():
    def run(s, x):
        experts = torch.stack([e(x) for e in s.experts], 1)
        return torch.cat([t((g(x).softmax(-1).unsqueeze(-1) * experts).sum(1)) for g, t in zip(s.gates, s.towers)], -1)

    return Built(run, experts=[mlp(24, 48, 32, last=True) for _ in range(4)], gates=[nn.Linear(24, 4) for _ in range(2)], towers=[mlp(32, 16, 1) for _ in range(2)])


@entry(ids=tokens(16, 300))
def sequence_recommender():
    def run(s, ids):
        hidden = torch.full((16, 16), float("-inf")).triu(1)
        x = s.items(ids) + s.place
        for b in s.blocks:
            x = b(x, bias=hidden)
        return s.norm(x)[:, -1] @ s.items.weight.T

    return Built(run, items=nn.Embedding(300, 32), place=torch.randn(1, 16, 32) * 0.1, blocks=[Block(32, 2) for _ in range(2)], norm=nn.LayerNorm(32))


# Pipelines of scikit-learn.
def fitted(pipeline, classes=3, width=16, labels=True):
    import numpy as np
    from skl2onnx import to_onnx

    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, width)).astype("f4") * rng.uniform(0.2, 5, width).astype("f4")
    y = x @ rng.normal(size=(width, classes)) / 5 + np.sin(x[:, :classes])
    how = {"options": {"zipmap": False}} if labels else {}
    return to_onnx(pipeline.fit(x, y.argmax(1) if labels else y), x[:1], target_opset={"": 17, "ai.onnx.ml": 3}, **how)


TABLE = numbers(16, size=2.0)


@entry(X=TABLE)
def neural_pipeline():
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return fitted(make_pipeline(StandardScaler(), MLPClassifier((48, 32), max_iter=60, random_state=1)))


@entry(X=TABLE)
def linear_pipeline():
    from sklearn.decomposition import PCA
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures

    return fitted(make_pipeline(MinMaxScaler(), PCA(8), PolynomialFeatures(2), Ridge()), labels=False)


@entry(X=TABLE)
def svm_pipeline():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return fitted(make_pipeline(StandardScaler(), SVC(probability=True, random_state=1)))


@entry(X=TABLE)
def trees_pipeline():
    from sklearn.ensemble import GradientBoostingClassifier, VotingClassifier
    from sklearn.neural_network import MLPClassifier

    parts = [("g", GradientBoostingClassifier(n_estimators=10, random_state=1)), ("m", MLPClassifier((24,), max_iter=60, random_state=1))]
    return fitted(VotingClassifier(parts, voting="soft", flatten_transform=False))


# Others.
@entry(x=pictures(32))
def mixer():
    def run(s, x):
        x = s.patch(x).flatten(2).transpose(1, 2)
        for n, t, m, c in zip(s.n, s.rows, s.m, s.columns):
            x = x + t(n(x).transpose(1, 2)).transpose(1, 2)
            x = x + c(m(x))
        return s.out(x.mean(1))

    return Built(run, patch=nn.Conv2d(3, 48, 8, 8), n=[nn.LayerNorm(48) for _ in range(3)], m=[nn.LayerNorm(48) for _ in range(3)], rows=[mlp(16, 32, 16, act=nn.GELU) for _ in range(3)], columns=[mlp(48, 96, 48, act=nn.GELU) for _ in range(3)], out=nn.Linear(48, 10))


@entry(x=numbers(20, 16), edges=lambda g, n: (torch.rand(n, 20, 20, generator=g) < 0.25).float())
def graph_attention():
    def run(s, x, edges):
        for layer, left, right in zip(s.layers, s.left, s.right):
            h = layer(x)
            e = F.leaky_relu(left(h) + right(h).transpose(1, 2), 0.2)
            x = F.elu(e.masked_fill((edges + torch.eye(20)) <= 0, -1e9).softmax(-1) @ h)
        return s.out(x.amax(1))

    return Built(run, layers=[nn.Linear(16, 32), nn.Linear(32, 32)], left=[nn.Linear(32, 1) for _ in range(2)], right=[nn.Linear(32, 1) for _ in range(2)], out=nn.Linear(32, 6))


@entry(place=numbers(64, 3), view=numbers(64, 3))
def nerf():
    def run(s, place, view):
        waves = lambda x, n: torch.cat([x] + [f(x * 2.0**i) for i in range(n) for f in (torch.sin, torch.cos)], -1)
        h = s.body(waves(place, 4))
        thick = F.softplus(s.density(h)) * 0.1
        colour = s.colour(torch.cat([h, waves(view, 2)], -1)).sigmoid()
        return ((1 - torch.exp(-thick)) * torch.exp(thick - thick.cumsum(1)) * colour).sum(1)

    return Built(run, body=mlp(27, 64, 64, 64, last=True), density=nn.Linear(64, 1), colour=mlp(79, 32, 3))


@entry(x=numbers(12), ids=tokens(4, 50))
def ft_transformer():
    def run(s, x, ids):
        x = torch.cat([s.first.expand(x.shape[0], -1, -1), x.unsqueeze(-1) * s.weight + s.bias, s.table(ids)], 1)
        for b in s.blocks:
            x = b(x)
        return s.out(F.relu(s.norm(x[:, 0])))

    return Built(run, first=torch.randn(1, 1, 32), weight=torch.randn(12, 32), bias=torch.randn(12, 32), table=nn.Embedding(50, 32), blocks=[Block(32) for _ in range(2)], norm=nn.LayerNorm(32), out=nn.Linear(32, 2))


@entry(a=numbers(24, 32), b=numbers(24, 32))
def lightglue():
    def run(s, a, b):
        for own, cross in zip(s.own, s.cross):
            a, b = own(a), own(b)
            a, b = cross(a, b), cross(b, a)
        dots = s.project(a) @ s.project(b).transpose(1, 2) / 32**0.5
        return dots.softmax(1) * dots.softmax(2) * s.match(a).sigmoid() * s.match(b).sigmoid().transpose(1, 2)

    return Built(run, own=[Block(32) for _ in range(2)], cross=[Block(32, cross=True) for _ in range(2)], project=nn.Linear(32, 32), match=nn.Linear(32, 1))


@entry(x=features(96, 4))
def time_mixer():
    def run(s, x):
        mean = x.mean(1, keepdim=True)
        size = ((x - mean) ** 2).mean(1, keepdim=True).add(1e-5).sqrt()
        x = (x - mean) / size
        slow = F.avg_pool1d(F.pad(x.transpose(1, 2), (12, 12), mode="replicate"), 25, 1).transpose(1, 2)
        y = s.slow(slow.transpose(1, 2)) + s.fast((x - slow).transpose(1, 2))
        return y.transpose(1, 2) * size + mean

    return Built(run, slow=nn.Linear(96, 24), fast=mlp(96, 64, 24, act=nn.GELU))


@entry(x=pictures(32))
def curve_enhancer():
    def run(s, x):
        x = x.sigmoid()
        a = F.relu(s.a(x))
        b = F.relu(s.b(a))
        for r in torch.tanh(s.c(torch.cat([a, b], 1))).chunk(4, 1):
            x = x + r * (x * x - x)
        return x

    return Built(run, a=nn.Conv2d(3, 16, 3, padding=1), b=nn.Conv2d(16, 16, 3, padding=1), c=nn.Conv2d(32, 12, 3, padding=1))


@entry(x=pictures(32))
def pose_argmax():
    def run(s, x):
        heat = s.heads(s.up(s.body(x)))
        p = heat.flatten(2).softmax(-1).unflatten(2, heat.shape[2:])
        line = torch.linspace(0, 1, 16)
        return torch.stack([(p.sum(2) * line).sum(-1), (p.sum(3) * line).sum(-1)], -1)

    return Built(run, body=nn.Sequential(conv(3, 32, 3, 2), conv(32, 48, 3, 2)), up=nn.Sequential(nn.ConvTranspose2d(48, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU()), heads=nn.Conv2d(32, 8, 1))


@entry(x=pictures(32))
def text_recognizer():
    def run(s, x):
        f = s.body(x).mean(2).transpose(1, 2)
        y, _ = s.lstm(f)
        return s.out(y).log_softmax(-1)

    return Built(run, body=nn.Sequential(conv(3, 32), nn.MaxPool2d(2), conv(32, 48), nn.MaxPool2d((2, 1))), lstm=nn.LSTM(48, 32, batch_first=True, bidirectional=True), out=nn.Linear(64, 20))


@entry(x=numbers(16, 16, 16))
def triangle_attention():
    def run(s, z):
        n = s.norm(z)
        a, b, g = s.a(n) * s.ga(n).sigmoid(), s.b(n) * s.gb(n).sigmoid(), s.g(n).sigmoid()
        z = z + g * s.out(s.inner(torch.einsum("bikc,bjkc->bijc", a, b) / 4))
        return z + s.feed(z)

    line = lambda: nn.Linear(16, 16)
    return Built(run, norm=nn.LayerNorm(16), a=line(), b=line(), ga=line(), gb=line(), g=line(), out=line(), inner=nn.LayerNorm(16), feed=mlp(16, 64, 16))


@entry(x=sound(1024))
def long_convolution():
    def run(s, x):
        x = s.first(x.unflatten(1, (64, 16)).transpose(1, 2))
        for a, b, c in zip(s.mix, s.long, s.back):
            u, v = a(x).chunk(2, 1)
            x = x + c(F.silu(u) * b(F.pad(v, (31, 0))))
        return s.out(x.mean(2))

    return Built(run, first=nn.Conv1d(16, 32, 1), mix=[nn.Conv1d(32, 64, 1) for _ in range(2)], long=[nn.Conv1d(32, 32, 32, groups=32) for _ in range(2)], back=[nn.Conv1d(32, 32, 1) for _ in range(2)], out=nn.Linear(32, 8))


@entry(x=pictures(32), query=unit(12, 2))
def implicit_image():
    def run(s, x, query):
        f = s.body(x)
        at = F.grid_sample(f, query.unsqueeze(1) * 2 - 1, align_corners=False)[:, :, 0].transpose(1, 2)
        return s.net(torch.cat([at, query], -1))

    return Built(run, body=nn.Sequential(conv(3, 32), nn.Conv2d(32, 32, 3, padding=1)), net=mlp(34, 64, 64, 3))
