#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures processor time and peak memory of commands for chains of 1,000 to 64,000 layers: both must be proportional
to the layers. "mse", "propagate" and "default" are jobs. "run" and "convert" take the model that the preceding job
wrote. 64,000 layers need 6 GiB. Needs numpy and onnx.

  scripts/benchmark_chains.py PROGRAM [--kinds conv,dense] [--layers 1000,8000] [--commands mse,run]
                              [OPTION of quantize ...]"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

from chain_models import KINDS, chain

LAYERS = (1000, 4000, 16000, 64000)
COMMANDS = ("mse", "propagate", "default", "run", "convert", "inspect")


def taken(folder, *command):
    """Returns (processor seconds, peak MiB), measured in a process that has no other child."""
    code = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL)\n"
            "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
            "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024); sys.exit(done.returncode)")
    done = subprocess.run([sys.executable, "-S", "-E", "-c", code, *map(str, command)], cwd=folder, check=True,
                          capture_output=True, text=True)
    return tuple(map(float, done.stdout.split()[-2:]))


def command_line(command, model, samples, options):
    job = ["-q", "--threads", 1, "--data", samples, model, "-o", "out.onnx", "--report", "report", *options]
    return {"default": job,
            "mse": [*job, "--method", "mse"],
            "propagate": [*job, "--method", "mse", "--propagate"],
            "run": ["run", "--threads", 1, "--data", samples, "out.onnx", "-o", "out.h5"],
            "convert": ["convert", "--format", "qoperator", "out.onnx", "-o", "converted.onnx"],
            "inspect": ["inspect", model]}[command]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--kinds", default="conv,dense", help=", ".join(KINDS))
    parser.add_argument("--layers", default=",".join(map(str, LAYERS)))
    parser.add_argument("--commands", default=",".join(COMMANDS))
    arguments, options = parser.parse_known_args()
    program = arguments.program.resolve()
    print("| chain | layers | command | s | s for 1,000 | MiB | KiB a layer |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for kind in arguments.kinds.split(","):
            for layers in map(int, arguments.layers.split(",")):
                model, samples = chain(kind, layers, folder)
                for command in arguments.commands.split(","):
                    seconds, peak = taken(folder, program, *command_line(command, model, samples, options))
                    print(f"| {kind} | {layers:,} | {command} | {seconds:.2f} | {1000 * seconds / layers:.3f} "
                          f"| {peak:.0f} | {1024 * peak / layers:.1f} |", flush=True)


if __name__ == "__main__":
    main()
