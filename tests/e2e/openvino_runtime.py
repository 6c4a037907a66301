# SPDX-License-Identifier: Apache-2.0
"""OpenVINO or LiteRT in a process of its own that lives as long as nothing crashes (openvino_worker.py, litert_worker.py), with the
Python of build/venv/openvino or build/venv/litert.

    OpenVino().run(model, [{"x": array}, ...])    # [{output: array}, ...], or the text of an error; model: a file or bytes"""

import pathlib
import pickle
import platform
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parents[1] / "build/venv/openvino/bin/python"
PYTHON_OF_LITERT = HERE.parents[1] / "build/venv/litert/bin/python"


def missing():
    """Why there is no OpenVINO for x86-64 here; None if there is one."""
    if platform.machine() != "x86_64":
        return "the kernels of OpenVINO for x86-64 are what is tested"
    return None if PYTHON.exists() else "no Python with OpenVINO (scripts/test makes it where a wheel exists)"


class OpenVino:
    name, python, worker = "OpenVINO", PYTHON, "openvino_worker.py"

    def __init__(self):
        self.process = None

    def run(self, model, samples):
        if not self.process:
            command = [self.python, HERE / self.worker]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            pickle.dump((model if isinstance(model, bytes) else str(model), samples), self.process.stdin)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.process.kill()
            code, self.process = self.process.wait(), None
            return f"{self.name} ended with {code}"

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


class LiteRt(OpenVino):
    name, python, worker = "LiteRT", PYTHON_OF_LITERT, "litert_worker.py"
