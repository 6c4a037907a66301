#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands in README.md and docs/*.md, and compares or rewrites their output; for scripts/bless --docs and
test_docs.py.

  ```console          lines `$ COMMAND` (`> ` goes on with the command) and below each what it prints, standard error included; all
                      of a page run in one bash, in the folder of a checkout made of links, with build/release/qcalib the program under test
  <!-- file: NAME --> the block that follows is a file of that name, written there where the page has come
  <!-- needs: WORD --> the page is skipped where there is no such program, Python module or environment variable
  <!-- not run: WHY --> the block that follows is not run
  <!-- table: NAME --> the table that follows is one of TABLES, made from docs/accuracy.md

A command that fails prints `[exit N]` last. Standard library only: the pages themselves name what they need."""

import argparse
import dataclasses
import difflib
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import avx2_runtime

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(`{3,})(\w*)$")
MARK = re.compile(r"^<!-- (file|needs|not run|table): (.+) -->$")
PROGRAMS = re.compile(r"^\s*(\$ )?(build/release/)?(qcalib|qcalib-mpi|mpirun|srun)\b(?!\.)")
NUMBER = re.compile(r"\d+\.\d+(?:e[-+]?\d+)?")
# What differs from run to run: seconds, speed, number of threads.
CLOCK = (
    (re.compile(r"\b\d+\.\d+ s\b"), "T s"),
    (re.compile(r"\b\d+ samples/s"), "R samples/s"),
    (re.compile(r"\b\d+ threads?\b"), "P threads"),
    (re.compile(r"^(\S+\.onnx .* \d+) +\d+\.\d\d$"), r"\1 T"),
)


@dataclasses.dataclass
class Command:
    text: str
    first: int = 0  # lines of the page that hold its output: [first, last)
    last: int = 0
    shown: list = dataclasses.field(default_factory=list)
    printed: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Page:
    path: pathlib.Path
    lines: list
    steps: list  # Command, or (name, text) of a file
    needs: list
    tables: list  # (name, first line, last line)
    loose: list  # numbers of lines that look like commands and are neither run nor marked

    @property
    def commands(self):
        return [s for s in self.steps if isinstance(s, Command)]


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def block_end(lines, start, fence):
    for i in range(start, len(lines)):
        if lines[i] == fence:
            return i
    raise ValueError(f"line {start}: the block has no end")


def console(lines, start, end):
    commands = []
    for i in range(start, end):
        line = lines[i]
        if line.startswith("$ "):
            commands.append(Command(line[2:], i + 1, i + 1))
        elif line.startswith("> ") and commands and not commands[-1].shown:
            commands[-1].text += "\n" + line[2:]
            commands[-1].first = commands[-1].last = i + 1
        elif commands:
            commands[-1].shown.append(line)
            commands[-1].last = i + 1
        else:
            raise ValueError(f"line {i + 1}: a console block begins with a command")
    return commands


def read(path):
    page = Page(path, path.read_text().split("\n"), [], [], [], [])
    mark, i = None, 0
    while i < len(page.lines):
        line = page.lines[i]
        found, fence = MARK.match(line), FENCE.match(line)
        if found and found[1] == "needs":
            page.needs.append(found[2])
        elif found and found[1] == "table":
            last = i + 1
            while page.lines[last].startswith("|"):
                last += 1
            page.tables.append((found[2], i + 1, last))
        elif found:
            mark = (found[1], found[2])
        elif fence:
            end = block_end(page.lines, i + 1, fence[1])
            if fence[2] == "console":
                page.steps += console(page.lines, i + 1, end)
            elif mark and mark[0] == "file":
                page.steps.append((mark[1], "\n".join(page.lines[i + 1 : end]) + "\n"))
            elif not mark:
                page.loose += [n + 1 for n in range(i + 1, end) if PROGRAMS.match(page.lines[n])]
            mark, i = None, end
        elif re.match(r"^ {4}(\$ )?(build/release/)?qcalib ", line):
            page.loose.append(i + 1)
        i += 1
    return page


def missing(page, program):
    """The first thing that the page needs and this machine lacks; None when all is there."""
    for word in page.needs:
        if not (
            shutil.which(word)
            or program.with_name(word).is_file()
            or importlib.util.find_spec(word)
            or os.environ.get(word)
        ):
            return word
    return None


def checkout(folder, program):
    """A folder that looks like a checkout with a release build: links to what is tracked, a build folder of its own."""
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in ("build", ".git"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build/release").symlink_to(program.parent)
    return folder


def run(page, program, folder):
    """Runs the page in a checkout under `folder` and fills in what its commands printed."""
    place, out = checkout(folder / "checkout", program), folder / "out"
    out.mkdir()
    commands = folder / "bin"
    commands.mkdir()
    (commands / "python3").write_text(f'#!/bin/sh\nexec {shlex.join(avx2_runtime.interpreter())} "$@"\n')
    (commands / "python3").chmod(0o755)
    script = []
    for k, step in enumerate(page.steps):
        if isinstance(step, Command):
            script += [
                f"eval {shlex.quote(step.text)} >{out}/{k} 2>&1 </dev/null",
                f"code=$?; [ $code = 0 ] || echo \"[exit $code]\" >>{out}/{k}",
            ]
        else:
            (out / f"{k}.file").write_text(step[1])
            script.append(f"cp {out}/{k}.file {shlex.quote(step[0])}")
    env = {k: v for k, v in os.environ.items() if k not in ("QCALIB_DATA", "MAKEFLAGS")}
    env.update(
        LC_ALL="C.UTF-8",
        PATH=f"{commands}:{os.environ['PATH']}",
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        OMPI_MCA_btl_vader_single_copy_mechanism="none",
    )
    subprocess.run(["bash", "-c", "\n".join(script)], cwd=place, env=env, timeout=300, check=False)
    for k, step in enumerate(page.steps):
        if isinstance(step, Command):
            text = (out / str(k)).read_text(errors="replace").replace(str(place), "/path/to/qcalib")
            step.printed = [line.rstrip() for line in text.rstrip("\n").split("\n")] if text.strip() else []


def settled(line):
    for pattern, text in CLOCK:
        line = pattern.sub(text, line)
    return line


def same_line(a, b):
    """Equal but for the clock; numbers with a point may differ by 1 %, since float kernels of other machines sum in another order."""
    a, b = settled(a.rstrip()), settled(b.rstrip())
    if a == b:
        return True
    if re.sub(r" +", " ", NUMBER.sub("#", a)) != re.sub(r" +", " ", NUMBER.sub("#", b)):
        return False
    return all(
        abs(float(x) - float(y)) <= max(0.01 * max(float(x), float(y)), 0.011)
        for x, y in zip(NUMBER.findall(a), NUMBER.findall(b))
    )


def same(shown, printed):
    return len(shown) == len(printed) and all(same_line(a, b) for a, b in zip(shown, printed))


def difference(page):
    """What a reader of the page would see otherwise; empty when all is as shown."""
    text = ""
    for c in page.commands:
        if not same(c.shown, c.printed):
            lines = difflib.unified_diff(c.shown, c.printed, "shown", "printed", lineterm="")
            text += f"{page.path.name}:{c.first}: $ {c.text}\n" + "\n".join(lines) + "\n"
    return text


def cells(line):
    return [c.strip() for c in line.strip().strip("|").split("|")]


def measured(heading):
    """The table of docs/accuracy.md under a heading: rows as {column: text}."""
    lines = (ROOT / "docs/accuracy.md").read_text().split("\n")
    i = lines.index("## " + heading)
    while not lines[i].startswith("|"):
        i += 1
    header, rows = cells(lines[i]), []
    for line in lines[i + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(header, (c.replace("**", "") for c in cells(line)))))
    return rows


def comparison():
    """qcalib's default and the other tools, from the two tables of docs/accuracy.md."""
    sqnr, rows = {r["model"]: r for r in measured("Error of the outputs")}, measured("Top-1 and PSNR")
    columns = ["default", *(c for c in ("ORT minmax", "ORT percentile", "NNCF", "Quark") if c in rows[0])]
    lines = [
        "| " + " | ".join(["model", "samples", "metric", "fp32", "qcalib", *columns[1:]]) + " |",
        "|" + "---|" * (4 + len(columns)),
    ]
    for r in rows:
        both = [f"{r[c]}, {sqnr[r['model']][c]} dB" if r[c] != "fails" else "fails" for c in columns]
        lines.append(f"| {r['model']} | {r['samples']} | {r['metric']} | {r['fp32']} | " + " | ".join(both) + " |")
    return lines


TABLES = {"comparison": comparison}


def rewrite(page):
    """The page with the output that was printed; what is the same but for the clock stays."""
    changes = [(c.first, c.last, c.printed) for c in page.commands if not same(c.shown, c.printed)]
    changes += [(first, last, TABLES[name]()) for name, first, last in page.tables]
    lines = list(page.lines)
    for first, last, text in sorted(changes, reverse=True):
        lines[first:last] = text
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description="Rewrites the output shown in README.md and docs/*.md with what the commands print."
    )
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/qcalib")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, default=pages())
    options = parser.parse_args()
    for path in options.pages:
        page = read(path.resolve())
        absent = missing(page, options.program)
        if absent:
            print(f"skipped {path.name}: there is no {absent}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            run(page, options.program.resolve(), pathlib.Path(folder))
        text = rewrite(page)
        if text != "\n".join(page.lines):
            page.path.write_text(text)
            print(f"rewrote {path.name}")


if __name__ == "__main__":
    main()
