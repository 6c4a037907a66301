#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds fuzz targets with clang, runs them, and prints the numbers of docs/fuzzing.md.

    fuzz.py import=1000000 tflite=1000000     # executions of each target
    fuzz.py --sanitize quantize=20000         # with the address and undefined-behaviour sanitizers
    fuzz.py --seeds                           # first: small models as inputs (needs onnx, onnxruntime, h5py)
    fuzz.py --coverage import tflite          # lines of the readers that the inputs found so far reach

Inputs that reach something new are kept in build/fuzz/corpus/TARGET, inputs that fail in build/fuzz/failed."""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "build/fuzz"
LARGEST = 8192  # bytes of an input
LARGEST_OF = {"rules": 1536}  # a few rules
ROOMS = {  # the code that a target is about, for --coverage
    "arrays": ["datasets/arrays"],
    "calls": ["library"],
    "hdf5": ["datasets/hdf5/data_reader", "datasets/hdf5/reader_process"],  # other processes are not counted
    "images": ["datasets/images/" + f for f in ("image_decode", "pixels", "read_jpeg", "read_png", "read_webp")],
    "import": ["onnx", "graph/infer"],
    "options": ["cli/options"],
    "quantize": ["rewrite/passes", "export/formats", "simq/plan"],
    "report": ["base/json", "export/report/report_difference"],
    "rules": ["rewrite/language/" + f for f in ("lexer", "rule_parse", "expr_parse", "expansion_parse", "expression",
                                             "target")],
    "statistics": ["calib/statistics/statistics"],
    "tflite": ["tflite"],
}


def folder_of(target):
    """The folder of tests that has the target and its committed inputs."""
    return next(ROOT.glob(f"tests/*/fuzz_{target}.c")).parent


def build(kind, flags, programs):
    folder = WORK / kind
    configure = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_C_COMPILER=clang", "-DBUILD_TESTING=ON", *flags]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "--target", *programs], check=True, stdout=subprocess.DEVNULL)
    return folder / "tests"


def inputs_of(target):
    kept = WORK / "corpus" / target
    kept.mkdir(parents=True, exist_ok=True)
    return [kept, folder_of(target) / f"corpus_{target}"]


def add(target, content):
    if len(content) <= LARGEST_OF.get(target, LARGEST):
        (inputs_of(target)[0] / hashlib.sha1(content, usedforsecurity=False).hexdigest()).write_bytes(content)


def make_seeds():
    """Models of ONNX's node tests, random graphs (those with products also for `quantize`), and the rule files."""
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    import graph_fuzz
    from onnx.backend.test.case.node import collect_testcases

    for file in (ROOT / "rewrite/rules").rglob("*.rules"):
        header = b"t" if file.parent.name == "targets" else b" "
        for part in file.read_bytes().split(b"\n\n"):  # a rule or a few
            add("rules", header + part)
    for case in collect_testcases(None):
        if case.model is not None:
            add("import", case.model.SerializeToString())
    for seed in range(400):
        model = graph_fuzz.random_graph(seed)[1]
        add("import", model.SerializeToString())
        if any(n.op_type in ("Conv", "MatMul", "Gemm") for n in model.graph.node):
            add("quantize", model.SerializeToString())


def run(target, program, count):
    """Runs libFuzzer; returns a row of the table, and whether it found nothing."""
    failed = WORK / "failed"
    failed.mkdir(exist_ok=True)
    before = os.times()
    options = [f"-runs={count}", f"-max_len={LARGEST_OF.get(target, LARGEST)}", "-timeout=600", "-report_slow_units=600", "-rss_limit_mb=3000", "-reload=0", "-print_final_stats=1"]
    # Short stacks of allocations; freed memory is watched for longer than an execution. Both save a fifth of the time.
    environment = {"ASAN_OPTIONS": "malloc_context_size=2:quarantine_size_mb=32"} | os.environ
    with open(WORK / f"{target}.log", "w+b") as log:
        command = [program, *options, f"-artifact_prefix={failed}/{target}-", *inputs_of(target)]
        code = subprocess.run(command, stdout=log, stderr=log, env=environment).returncode
        log.seek(0)
        text = log.read().decode(errors="replace")
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    done = re.search(r"number_of_executed_units: *(\d+)", text)
    reached = re.findall(r"cov: (\d+) ft: (\d+)", text)
    edges, features = map(int, reached[-1]) if reached else (0, 0)
    return f"| `fuzz_{target}` | {int(done[1]) if done else 0:,} | {seconds:,.0f} | {edges:,} | {features:,} |", code == 0


def coverage(target, program):
    """Lines that all inputs reach, of those in the target's rooms."""
    raw, data = WORK / f"{target}.profraw", WORK / f"{target}.profdata"
    replay = subprocess.run([program, *inputs_of(target)], env=os.environ | {"LLVM_PROFILE_FILE": str(raw)}, stdout=subprocess.DEVNULL)
    subprocess.run(["llvm-profdata", "merge", "-o", data, raw], check=True)
    report = subprocess.run(["llvm-cov", "export", "--summary-only", program, f"-instr-profile={data}"], check=True, capture_output=True)
    raw.unlink()
    built, covered, lines = (WORK / "coverage").resolve(), 0, 0
    for file in json.loads(report.stdout)["data"][0]["files"]:
        name = re.sub(f"^({re.escape(str(built))}|{re.escape(str(ROOT))})/", "", file["filename"])  # the build maps the source's folder to "."
        if name.startswith(tuple(ROOMS[target])):
            covered += file["summary"]["lines"]["covered"]
            lines += file["summary"]["lines"]["count"]
    return f"| `fuzz_{target}` | {covered:,} of {lines:,} | {100 * covered / max(1, lines):.0f} % |", replay.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help="TARGET=EXECUTIONS; with --coverage TARGET")
    parser.add_argument("--sanitize", action="store_true", help="build with sanitizers")
    parser.add_argument("--seeds", action="store_true", help="make inputs first")
    parser.add_argument("--coverage", action="store_true", help="count lines instead of fuzzing")
    how = parser.parse_args()
    if how.seeds:
        make_seeds()
    if not how.targets:
        return False
    names = [t.partition("=")[0] for t in how.targets]
    if unknown := [n for n in names if n not in ROOMS]:
        parser.error(f"no target {unknown[0]}; there are {', '.join(ROOMS)}")
    good = True
    if how.coverage:
        flags = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS=-O1 -fprofile-instr-generate -fcoverage-mapping"]
        folder = build("coverage", flags, [f"replay_{n}" for n in names])
        print("| target | lines | |\n|---|---|---|")
        rows = (coverage(n, folder / folder_of(n).name / f"replay_{n}") for n in names)
    else:
        sanitizers = "address,undefined,fuzzer-no-link" if how.sanitize else "fuzzer-no-link"
        # A block of an arena is larger than what the sanitizer's allocator keeps, so it would be mapped for each input.
        arena = f"-DQC_ARENA_DEBUG={'ON' if how.sanitize else 'OFF'}"
        flags = ["-DCMAKE_BUILD_TYPE=Release", "-DQC_FUZZ=ON", f"-DQC_SANITIZE={sanitizers}", arena]
        folder = build("sanitized" if how.sanitize else "plain", flags, [f"fuzz_{n}" for n in names])
        print("| target | executions | processor seconds | edges | features |\n|---|---|---|---|---|")
        rows = (run(n, folder / folder_of(n).name / f"fuzz_{n}", int(t.partition("=")[2] or 100000)) for n, t in zip(names, how.targets, strict=True))
    for row, fine in rows:
        good = good and fine
        print(row if fine else row + " FAILED", flush=True)
    return not good


if __name__ == "__main__":
    sys.exit(main())
