# SPDX-License-Identifier: Apache-2.0
"""Does the work of scripts/mutate. A mutation is a change at one place of one file, with the tests that should notice
it (scripts/mutations.py)."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from mutations import every

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "mutate"
RESULTS = SCRATCH / "results.json"  # a line for each mutation
PAGE = ROOT / "docs" / "mutations.md"
PYTHON = ROOT / "build/venv/tflite/bin/python"  # of scripts/test
BEGIN, END = "<!-- scripts/mutate writes from here -->\n", "<!-- to here -->\n"


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)


def copy_sources():
    source = SCRATCH / "source"
    files = run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT).stdout.splitlines()
    for file in files:
        to = source / file
        if not (ROOT / file).is_file():
            continue
        if to.exists() and to.read_bytes() == (ROOT / file).read_bytes():
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, to)
    return source


def build(source, tests):
    programs = [t for t in tests if not t.endswith(".py")]
    return run(["cmake", "--build", SCRATCH / "build", "--target", *programs], cwd=source) if programs else None


def fails(source, test):
    """Returns the first failing case of a test, or None if all pass."""
    if test.endswith(".py"):
        command, cwd = [PYTHON, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", source / test], source
    else:
        command, cwd = [next((SCRATCH / "build" / "tests").glob(f"**/{test}"))], SCRATCH
    try:
        done = run(command, timeout=300, cwd=cwd)
    except subprocess.TimeoutExpired:
        return f"{test}: does not end"
    failed = re.search(r"\[(?:FAIL|CRASH|ERR)\] *([\w:]+)|^(?:FAILED|ERROR) [^:]*::(\w+)", done.stdout, re.M)
    if done.returncode != 0:
        return f"{test}: {(failed[1] or failed[2]).rstrip(':') if failed else 'stops'}"
    return None


def broken_text(text, m):
    """Returns the text with the mutation applied, regardless of line breaks, or None if its place does not exist."""
    if m.old in text:
        return text.replace(m.old, m.new, 1)
    place = re.search(r"\s*".join(map(re.escape, re.sub(r"\s", "", m.old))), text)
    return text[:place.start()] + m.new + text[place.end():] if place else None


def check(source, m):
    """Returns (noticed, by which test). Builds only the targets of the next test."""
    path = source / m.file
    text = path.read_text()
    broken = broken_text(text, m)
    if broken is None:
        return False, "the mutation does not apply any more"
    path.write_text(broken)
    try:
        for test in m.tests:
            made = build(source, [test])
            if made and made.returncode != 0:
                return True, "does not compile"
            failure = fails(source, test)
            if failure:
                return True, failure
        return False, "nothing"
    finally:
        path.write_text(text)


def write_page(rows):
    kinds = {}
    for m, noticed, by in rows:
        kinds.setdefault(m.kind, []).append((m, noticed, by))
    same = sum(bool(m.equivalent) for m, _, _ in rows)
    lines = [f"{sum(n for _, n, _ in rows)} of {len(rows) - same} mutations are noticed; "
             f"{same} more change nothing that could be noticed.\n"]
    lines += ["\n| kind | mutations | noticed | the others |\n|---|---|---|---|\n"]
    for kind, of in kinds.items():
        others = "; ".join(f"{m.name} ({m.file}): {m.equivalent or '**' + by + '**'}" for m, noticed, by in of if not noticed)
        lines += [f"| {kind} | {len(of)} | {sum(n for _, n, _ in of)} | {others} |\n"]
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    PAGE.write_text(head + BEGIN + "".join(lines) + END + rest.split(END)[1])


def main(words):
    if "--apply" in words:
        gone = [m for m in every() if broken_text((ROOT / m.file).read_text(), m) is None]
        for m in gone:
            print(f"{m.kind}: {m.name} ({m.file}): does not apply any more")
        sys.exit(1 if gone else 0)
    resume = "--resume" in words
    words = [w for w in words if w != "--resume"]
    mutations = every()
    if words:
        mutations = [m for m in mutations if any(w in f"{m.kind} {m.name} {m.file}" for w in words)]
    os.environ.pop("QCALIB_DATA", None)  # the same with and without real models
    os.environ["QCALIB_LONG"] = "1"  # all cases
    if not PYTHON.exists():
        sys.exit(f"mutate: there is no {PYTHON.relative_to(ROOT)}: scripts/test makes it")
    source = copy_sources()
    launcher = [f"-DCMAKE_C_COMPILER_LAUNCHER={shutil.which('ccache')}"] if shutil.which("ccache") else []
    made = run(["cmake", "-S", source, "-B", SCRATCH / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                "-DCMAKE_C_FLAGS_RELEASE=-O1", *launcher])
    tests = tuple(sorted({t for m in mutations for t in m.tests}))
    made = build(source, tests) if made.returncode == 0 else made
    if made.returncode != 0:
        sys.exit(made.stdout[-4000:])
    failure = next(filter(None, (fails(source, t) for t in tests)), None)
    if failure:
        sys.exit(f"mutate: a test fails without any mutation: {failure}")
    known = {}
    if resume and RESULTS.exists():
        known = {tuple(k): (noticed, by) for *k, noticed, by in map(json.loads, RESULTS.read_text().splitlines())}
    elif not words:
        RESULTS.write_text("")
    rows = []
    for i, m in enumerate(mutations):
        key = (m.kind, m.name, m.file)
        noticed, by = known[key] if key in known else check(source, m)
        rows.append((m, noticed, by))
        if key in known:
            continue
        if not words:
            with RESULTS.open("a") as results:
                results.write(json.dumps([*key, noticed, by]) + "\n")
        word = "ok     " if noticed else "same   " if m.equivalent else "MISSED "
        print(f"{i + 1}/{len(mutations)} {word} {m.kind}: {m.name}: {by}", flush=True)
    if not words:
        write_page(rows)
    missed = sum(not n and not m.equivalent for m, n, _ in rows)
    print(f"{sum(n for _, n, _ in rows)} noticed, {missed} missed")
    sys.exit(1 if missed else 0)


main(sys.argv[1:])
