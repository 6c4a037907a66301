# SPDX-License-Identifier: Apache-2.0
"""Runtimes that compute a file: outputs, latency, and the file of the runtime's own quantizer. scripts/file_latency and
scripts/target_table use it; tests/e2e/test_target_table.py too. A runtime that needs a Python of its own is run as

    PYTHON scripts/runtimes.py JOB RESULT

JOB, pickled: {"runtime": NAME of RUNTIMES, "files": [(path, {input: array of one sample})], "outputs": [names of outputs], "feeds":
{input: array of all samples}, "seconds": S}. RESULT: {"version": text, "values": [array] of the first file's outputs,
"milliseconds": [of each file]}. A worker imports nothing but numpy and its runtime."""

import contextlib
import dataclasses
import importlib.util
import io
import logging
import pathlib
import pickle
import subprocess
import sys
import time

import numpy as np

ROUNDS, AT_LEAST = 15, 0.002  # rounds, and seconds of one round of one file
UNCOUNTED = 2  # runs before them
SLOW = 0.5  # seconds of one run: 3 rounds are enough


def medians(runners, seconds):
    """Milliseconds of one run of each. What ran before leaves its traces in the caches: each round has another order, and
    begins with runs that are not counted."""
    repeats, rounds = [], ROUNDS
    for run in runners:
        run()
        begin = time.process_time()
        run()
        once = time.process_time() - begin
        repeats.append(max(1, int(AT_LEAST / max(1e-6, once))))
        rounds = rounds if once < SLOW else min(rounds, 3)
    times, order = [[] for _ in runners], np.random.default_rng(0)
    end = time.perf_counter() + seconds * len(runners)
    while time.perf_counter() < end or len(times[0]) < rounds:
        for i in order.permutation(len(runners)):
            for _ in range(UNCOUNTED):
                runners[i]()
            begin = time.process_time()
            for _ in range(repeats[i]):
                runners[i]()
            times[i].append(1e3 * (time.process_time() - begin) / repeats[i])
    return [float(np.median(t)) for t in times]


@dataclasses.dataclass
class Case:
    """A model, its samples, and how qcalib is told of them."""

    name: str
    path: pathlib.Path
    samples: list  # of {input: array}
    options: list


class OnnxRuntime:
    """peers: quantize_static with min-max ranges and scales per channel, with and without its preparation."""

    def version(self):
        import onnxruntime

        return f"ONNX Runtime {onnxruntime.__version__}"

    def peers(self, case, folder):
        import measured_models as mm
        import models
        import onnx

        model = folder / "float.onnx"
        onnx.save(mm.for_peers(case.path), model)
        for i, file in enumerate(models.peer(model, case.samples, models.PEERS["min-max"], folder)):
            path = folder / f"peer{i}.onnx"
            path.write_bytes(file)
            with contextlib.suppress(Exception):  # a file that does not load or run is none
                mm.session(path).run(None, case.samples[0])
                yield path

    def runner(self, path, sample):
        session = self.session(path)
        return lambda: session.run(None, sample)

    def computer(self, path, outputs):
        session = self.session(path)
        return lambda sample: session.run(outputs, sample)

    def session(self, path):
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class OpenVino:
    """peers: NNCF with its defaults. Latency has the plugin's defaults (bfloat16 on AMX), outputs float32."""

    def version(self):
        import openvino

        return f"OpenVINO {openvino.__version__.split('-')[0]}"

    def peers(self, case, folder):
        import measured_models as mm
        import nncf
        import onnx

        out = folder / "peer.onnx"
        nncf.set_log_level(logging.ERROR)
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            quantized = nncf.quantize(mm.for_peers(case.path), nncf.Dataset(case.samples), subset_size=len(case.samples))
            onnx.save(quantized, out)
            yield out

    def runner(self, path, sample):
        request = self.compiled(path, {"NUM_STREAMS": "1", "PERFORMANCE_HINT": "LATENCY"}).create_infer_request()
        return lambda: request.infer(sample)

    def computer(self, path, outputs):
        model = self.compiled(path, {"INFERENCE_PRECISION_HINT": "f32"})

        def compute(sample):
            values = model(sample)
            return [values[name] for name in outputs]

        return compute

    def compiled(self, path, how):
        import openvino

        core = openvino.Core()
        return core.compile_model(core.read_model(str(path)), "CPU", {"INFERENCE_NUM_THREADS": 1, **how})


class Tflite:
    """TensorFlow Lite with reference kernels; latency with those that it takes by itself. Images have channels last."""

    reference = True

    def modules(self):
        from tflite_runtime import interpreter

        return interpreter

    def version(self):
        import importlib.metadata as metadata

        return f"tflite-runtime {metadata.version('tflite-runtime')}"

    def interpreter(self, path, reference):
        m = self.modules()
        kind = m.OpResolverType.BUILTIN_REF if reference else m.OpResolverType.AUTO
        return m.Interpreter(str(path), num_threads=1, experimental_op_resolver_type=kind)

    def runner(self, path, sample):
        """sample: its values do not matter for the time of a file whose input has another type or other names."""
        made = self.interpreter(path, False)
        for given in made.get_input_details():
            if -1 in given["shape_signature"]:
                made.resize_tensor_input(given["index"], given["shape"])
        made.allocate_tensors()
        for given in made.get_input_details():
            value = sample.get(given["name"])
            fits = value is not None and value.dtype == given["dtype"]
            value = last(value, given["shape"]) if fits else np.zeros(given["shape"], given["dtype"])
            made.set_tensor(given["index"], value)
        return made.invoke

    def computer(self, path, outputs):
        made = self.interpreter(path, self.reference)
        run = made.get_signature_runner("serving_default")
        shapes = {name: given["shape"] for name, given in run.get_input_details().items()}

        def compute(sample):
            values = run(**{name: last(value, shapes[name]) for name, value in sample.items()})
            return [values[name] for name in outputs]

        return compute


class LiteRt(Tflite):
    """LiteRT with the kernels that it takes by itself: XNNPACK's."""

    reference = False

    def modules(self):
        from ai_edge_litert import interpreter

        return interpreter

    def version(self):
        import importlib.metadata as metadata

        return f"ai-edge-litert {metadata.version('ai-edge-litert')}"


class LiteRtReference(LiteRt):
    """LiteRT with its reference kernels."""

    reference = True

    def version(self):
        return f"{super().version()}, reference"


class Tvm:
    """Relax, which imports Q and DQ as float operators; LLVM, no schedules of one's own."""

    def version(self):
        import tvm

        return f"TVM {tvm.__version__}"

    def machine(self, path, sample):
        import onnx
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        module = from_onnx(onnx.load(path), shape_dict={name: list(value.shape) for name, value in sample.items()})
        machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
        return machine, tvm.runtime.tensor

    def runner(self, path, sample):
        machine, tensor = self.machine(path, sample)
        given = [tensor(value) for value in sample.values()]
        return lambda: machine["main"](*given)

    def computer(self, path, outputs):
        made = []

        def compute(sample):
            if not made:
                made.extend(self.machine(path, sample))
            machine, tensor = made
            values = machine["main"](*(tensor(value) for value in sample.values()))
            values = [values] if hasattr(values, "numpy") else list(values)
            return [v.numpy() for v in values]

        return compute


class Mnn:
    """MNN, from the annotated file and the parameters beside it (docs/other-forms.md)."""

    def version(self):
        import MNN

        return f"MNN {MNN.version()}"

    def session(self, path, sample):
        import _tools
        import MNN

        path, out = str(path), f"{path}.mnn"
        _tools.mnnconvert(["MNNConvert", "-f", "ONNX", "--modelFile", path, "--MNNModel", out, "--compressionParamsFile",
                           path.replace(".annotated.onnx", ".mnn.json")])
        made = MNN.Interpreter(out)
        session = made.createSession({"numThread": 1, "backend": "CPU", "precision": "high"})
        for name, value in sample.items():
            made.resizeTensor(made.getSessionInput(session, name), tuple(value.shape))
        made.resizeSession(session)
        return made, session, MNN

    def runner(self, path, sample):
        made, session, _ = self.session(path, sample)
        return lambda: made.runSession(session)

    def computer(self, path, outputs):
        kept = []

        def compute(sample):
            if not kept:
                kept.extend(self.session(path, sample))
            made, session, mnn = kept
            for name, value in sample.items():
                to = made.getSessionInput(session, name)
                to.copyFrom(mnn.Tensor(tuple(value.shape), mnn.Halide_Type_Float, value, mnn.Tensor_DimensionType_Caffe))
            made.runSession(session)
            values = []
            for name in outputs:
                of = made.getSessionOutput(session, name)
                host = mnn.Tensor(of.getShape(), mnn.Halide_Type_Float, np.zeros(of.getShape(), np.float32), mnn.Tensor_DimensionType_Caffe)
                of.copyToHostTensor(host)
                values.append(host.getNumpyData().copy())
            return values

        return compute


class Ncnn:
    """ncnn, from the annotated file and the encodings beside it (docs/other-forms.md); `ncnn2int8` is on the path."""

    def version(self):
        import ncnn

        return f"ncnn {ncnn.__version__}"

    def net(self, path, sample):
        import ncnn

        stem = str(path).removesuffix(".onnx")
        pnnx = pathlib.Path(importlib.util.find_spec("pnnx").submodule_search_locations[0]) / "pnnx"
        shapes = ",".join(str(list(value.shape)).replace(" ", "") for value in sample.values())
        table = pathlib.Path(__file__).parents[1] / "examples/ncnn_table.py"
        for command in ([pnnx, path, f"inputshape={shapes}", "fp16=0"],
                        [sys.executable, table, path, stem.replace(".annotated", ".encodings.json"), f"{stem}.ncnn.param", f"{stem}.table"],
                        ["ncnn2int8", f"{stem}.ncnn.param", f"{stem}.ncnn.bin", f"{stem}.param", f"{stem}.bin", f"{stem}.table"]):
            subprocess.run([*map(str, command)], check=True, capture_output=True, cwd=pathlib.Path(path).parent)
        net = ncnn.Net()
        net.opt.num_threads, net.opt.use_fp16_storage, net.opt.use_bf16_storage = 1, False, False
        if net.load_param(f"{stem}.param") or net.load_model(f"{stem}.bin"):
            raise RuntimeError("ncnn does not load the file")
        return net, ncnn

    def runner(self, path, sample):
        net, ncnn = self.net(path, sample)
        return lambda: self.values(net, ncnn, sample, 1)

    def computer(self, path, outputs):
        kept = []

        def compute(sample):
            if not kept:
                kept.extend(self.net(path, sample))
            return self.values(*kept, sample, len(outputs))

        return compute

    def values(self, net, ncnn, sample, count):
        with net.create_extractor() as run:
            for i, value in enumerate(sample.values()):
                run.input(f"in{i}", ncnn.Mat(np.ascontiguousarray(value[0])))
            return [np.array(run.extract(f"out{i}")[1])[None] for i in range(count)]


RUNTIMES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "tflite": Tflite, "litert": LiteRt, "litert-reference": LiteRtReference, "tvm": Tvm,
            "mnn": Mnn, "ncnn": Ncnn}


def last(value, shape):
    """With channels last, if the file wants them so."""
    same = tuple(value.shape[1:]) == tuple(shape[1:])
    return value if same else np.ascontiguousarray(np.moveaxis(value, 1, -1))


def run(job):
    runtime = RUNTIMES[job["runtime"]]()
    compute = runtime.computer(job["files"][0][0], job["outputs"])
    count = len(next(iter(job["feeds"].values())))
    parts = [compute({name: v[i:i + 1] for name, v in job["feeds"].items()}) for i in range(count)]
    values = [np.concatenate([np.array(v) for v in part]) for part in zip(*parts)]
    times = medians([runtime.runner(*file) for file in job["files"]], job["seconds"]) if job["seconds"] else []
    return {"version": runtime.version(), "values": values, "milliseconds": times}


if __name__ == "__main__":
    result = run(pickle.loads(pathlib.Path(sys.argv[1]).read_bytes()))
    pathlib.Path(sys.argv[2]).write_bytes(pickle.dumps(result))
