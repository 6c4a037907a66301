# SPDX-License-Identifier: Apache-2.0
"""Jobs of graph_fuzz.py by the C library, in a process of their own that lives as long as nothing crashes: no start of a
program and no files for each job.

    graph_worker.py libqcalib.so

Pickled requests come in on standard input: (job, model, arrays, options). Answers go to standard output: (code, text,
results). `quantize` gives [(format, bytes)], `run` {output: array of all samples}."""

import ctypes
import pathlib
import pickle
import subprocess
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p

import numpy as np

TYPES = "_ float32 uint8 int8 uint16 int16 int32 int64 _ bool float16 float64 uint32 uint64".split()
SECONDS = 300


class Error(ctypes.Structure):
    _fields_ = [("code", c_int), ("message", c_char * 2048)]


class Array(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("type", c_int), ("rank", c_int), ("shape", POINTER(c_int64)), ("values", c_void_p),
                ("preprocess", c_char_p), ("peak", ctypes.c_double)]


MESSAGE = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class Job(ctypes.Structure):
    _fields_ = [("size", c_size_t), *((n, c_void_p) for n in ("options", "data", "eval", "statistics", "progress")), ("message", MESSAGE),
                ("user", c_void_p)]


class Output(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("rank", c_int), ("shape", c_int64 * 8), ("values", c_void_p)]


OUTPUT = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, POINTER(Output), c_size_t)


class Refused(Exception):
    """A call of the library that failed: code and message."""


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.qcalib_result_format.restype = c_char_p
        self.library.qcalib_result_model_count.restype = c_size_t

    def call(self, name, *arguments):
        error = Error()
        if getattr(self.library, f"qcalib_{name}")(*arguments, byref(error)):
            raise Refused(error.code, error.message.decode(errors="replace"))

    def free(self, kind, pointer):
        getattr(self.library, f"qcalib_{kind}_free")(pointer)

    def perform(self, job, model, feeds, options):
        """(code, messages, results) of a job on the bytes of a model."""
        held = {kind: c_void_p() for kind in ("options", "data", "model", "result")}
        said = []
        try:
            self.call("options_new", byref(held["options"]))
            for option in options:
                name, _, value = option[2:].partition("=")
                self.call("options_set", held["options"], name.encode(), value.encode() if "=" in option else None)
            self.call("data_new", byref(held["data"]), b"x")
            for name, array in feeds.items():
                shape = (c_int64 * array.ndim)(*array.shape)
                self.call("data_add", held["data"], byref(Array(size=ctypes.sizeof(Array), name=name.encode(), type=TYPES.index(array.dtype.name),
                                                                rank=array.ndim, shape=shape, values=array.ctypes.data)))
            self.call("model_from_memory", byref(held["model"]), model, c_size_t(len(model)), b"m.onnx")
            how = Job(size=ctypes.sizeof(Job), options=held["options"], data=held["data"],
                      message=MESSAGE(lambda _, text: said.append("warning: " + text.decode(errors="replace"))))
            results = getattr(self, job)(held, how)
            return 0, "\n".join(said), results
        except Refused as refused:
            return refused.args[0], "\n".join([*said, "qcalib: " + refused.args[1]]), None
        finally:
            for kind, pointer in held.items():
                self.free(kind, pointer)

    def quantize(self, held, how):
        self.call("quantize", byref(held["result"]), held["model"], byref(how))
        made = []
        for i in range(self.library.qcalib_result_model_count(held["result"])):
            data, size = c_void_p(), c_size_t()
            self.call("result_model", byref(data), byref(size), held["result"], c_size_t(i))
            made.append((self.library.qcalib_result_format(held["result"], c_size_t(i)).decode(), ctypes.string_at(data, size.value)))
            self.free("bytes", data)
        return made

    def run(self, held, how):
        found, wrong = {}, []

        def receive(_, sample, outputs, count):
            try:
                for o in outputs[:count]:
                    shape, dtype = o.shape[: o.rank], np.dtype(TYPES[o.type])
                    data = ctypes.string_at(o.values, int(np.prod(shape)) * dtype.itemsize) if o.values else b""
                    found.setdefault(o.name.decode(), {})[sample] = np.frombuffer(data, dtype).reshape(shape)
            except Exception as error:  # would be lost in the library
                wrong.append(error)
            return len(wrong)

        self.call("run", held["model"], byref(how), OUTPUT(receive), None)
        return {name: [parts[i] for i in sorted(parts)] for name, parts in found.items()}


class Worker:
    """The process. A job that crashes or hangs it is told as (-signal, text, None); the next one has a new process."""

    def __init__(self, library):
        self.library, self.process = library, None

    def ask(self, *request):
        if not self.process:
            self.process = subprocess.Popen([sys.executable, __file__, str(self.library), str(SECONDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            pickle.dump(request, self.process.stdin)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.process.kill()
            code, self.process = self.process.wait(), None
            return code, "", None

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


def main():
    import signal

    library = Library(pathlib.Path(sys.argv[1]))
    out = sys.stdout.buffer
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        signal.alarm(int(sys.argv[2]))
        pickle.dump(library.perform(*request), out)
        out.flush()
        signal.alarm(0)


if __name__ == "__main__":
    main()
