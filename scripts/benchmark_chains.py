#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a job takes of one processor, and its peak memory, for chains of 1,000 to 64,000 layers: both must grow with the
layers alone. Needs numpy and onnx.

  scripts/benchmark_chains.py PROGRAM [--kinds conv,residual] [--layers 1000,8000] [OPTION of quantize ...]"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

from chain_models import KINDS, chain

LAYERS = (1000, 2000, 4000, 8000, 16000, 32000, 64000)


def taken(folder, *command):
    """(seconds of the processor, peak MiB), by a process that has no other child."""
    code = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL)\n"
            "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
            "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024); sys.exit(done.returncode)")
    done = subprocess.run([sys.executable, "-S", "-E", "-c", code, *map(str, command)], cwd=folder, check=True,
                          capture_output=True, text=True)
    return tuple(map(float, done.stdout.split()[-2:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--layers", default=",".join(map(str, LAYERS)))
    arguments, options = parser.parse_known_args()
    program = arguments.program.resolve()
    options = options or ["--method", "mse"]
    print("| layers | " + " | ".join(f"{k}, s | s for 1,000 | MiB" for k in arguments.kinds.split(",")) + " | inspect, s |")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for layers in map(int, arguments.layers.split(",")):
            cells = []
            for kind in arguments.kinds.split(","):
                model, samples = chain(kind, layers, folder)
                seconds, peak = taken(folder, program, "-q", "--threads", 1, "--data", samples, model, "-o", "out.onnx",
                                      "--report", "report", *options)
                cells += [f"{seconds:.2f}", f"{1000 * seconds / layers:.3f}", f"{peak:.0f}"]
            inspected, _ = taken(folder, program, "inspect", model)
            print(f"| {layers:,} | " + " | ".join(cells) + f" | {inspected:.2f} |", flush=True)


if __name__ == "__main__":
    main()
