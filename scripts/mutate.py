# SPDX-License-Identifier: Apache-2.0
"""The work of scripts/mutate. A mutation is a change of one place in one file, and the test programs that should notice it."""
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "mutate"
RESULTS = SCRATCH / "results.json"  # a line for each mutation
PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- scripts/mutate writes from here -->\n", "<!-- to here -->\n"
REWRITE = ("test_rewrite",)
ROUNDING = ("test_graph", "test_observers", "test_simq_rounding", "test_simq_rounding_steps", "test_simq_affine", "test_rewrite")
AFFINE = ("test_simq_affine", "test_simq_rounding_steps", "test_simq_rounding", "test_simq_mac", "test_simq_plan_run", "test_simq_integer", "test_rewrite")


@dataclasses.dataclass
class Mutation:
    kind: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple
    regex: bool = False


def by_hand():
    """Rounding rules and zero-point terms."""
    def rounding(name, file, old, new, tests=ROUNDING):
        return Mutation("rounding", name, file, old, new, tests)

    def zero(name, file, old, new, tests=AFFINE):
        return Mutation("zero point", name, file, old, new, tests)

    numerics, header, rounds, merge = "graph/numerics.c", "graph/numerics.h", "simq/rounding.c", "simq/merge.c"
    return [
        rounding("restricted levels keep the lowest", numerics, ".lo = restricted && t->is_signed ? -t->hi : t->lo", ".lo = t->lo"),
        rounding("a range need not hold zero: low end", numerics, "lo = lo < 0 ? lo : 0;", ""),
        rounding("a range need not hold zero: high end", numerics, "hi = hi > 0 ? hi : 0;", ""),
        rounding("one step more in a range", numerics, "(double)levels.hi - (double)levels.lo;", "(double)levels.hi - (double)levels.lo + 1;"),
        rounding("no least scale", numerics, "if (s < (double)QC_SCALE_MIN) return QC_SCALE_MIN;", ""),
        rounding("symmetric range from the high end alone", numerics, "double top = -lo > hi ? -lo : hi;", "double top = hi;"),
        rounding("middle level of unsigned symmetric", numerics, "int32_t middle = levels.hi / 2 + 1;", "int32_t middle = levels.hi / 2;"),
        rounding("zero point of a range is cut, not rounded", numerics, "nearbyint(levels.lo - lo / (double)scale)", "trunc(levels.lo - lo / (double)scale)"),
        rounding("zero point may leave its levels", numerics, "return z < levels.hi ? (int32_t)z : levels.hi;", "return (int32_t)z;"),
        rounding("quantize one: up instead of half to even", header, "nearbyintf(x / p.scale)", "floorf(x / p.scale + 0.5f)"),
        rounding("quantize one: no saturation above", header, "(r < hi ? r : hi)", "r"),
        rounding("quantize: half to even becomes cutting", rounds, "QC_ROW(qc_clamp(qc_round_even(v / b[c], native), lo[c], hi[c]))", "QC_ROW(qc_clamp(truncf(v / b[c]), lo[c], hi[c]))"),
        rounding("requantize: rounds before it saturates", rounds, "QC_ROW(qc_round_even(qc_clamp(v * a[c], lo[c], hi[c]), native))",
                 "QC_ROW(qc_clamp(floorf(v * a[c] + 0.5f), lo[c], hi[c]))"),
        rounding("rescale: one factor instead of two steps", rounds, "qc_round_even(v * a[c] / b[c], native)", "qc_round_even(v * (a[c] / b[c]), native)"),
        rounding("requantize factor the other way round", rounds, "kind == QC_ROUNDING_REQUANTIZE ? sf / st : sf", "kind == QC_ROUNDING_REQUANTIZE ? st / sf : sf"),
        rounding("an accumulator is rescaled in two steps", rounds, "return from->product ? QC_ROUNDING_REQUANTIZE : QC_ROUNDING_RESCALE;", "return QC_ROUNDING_RESCALE;"),
        rounding("no saturation below", rounds, "lo = qc_clamp(lo, low, high);", ""),
        rounding("no saturation above", rounds, "hi = qc_clamp(hi, low, high);", ""),
        rounding("add: no fused multiply-add", merge, "fmaf(va + s.za, s.ra, fmaf(vb + s.zb, s.rb, s.k))", "(va + s.za) * s.ra + ((vb + s.zb) * s.rb + s.k)", AFFINE),
        rounding("mul: rounds before it adds the zero point", merge, "qc_round_even(va *vb *s.m + s.zc, native)", "(qc_round_even(va *vb *s.m, native) + s.zc)", AFFINE),
        rounding("mean: no 1/n", merge, "to.scale[0] * n;", "to.scale[0];", AFFINE),
        rounding("scale of a product", "graph/space.c", "a->scale[a->count == 1 ? 0 : i] * b->scale[", "b->scale[", ("test_graph",) + AFFINE),
        zero("quantize one: limits", header, "float lo = (float)(levels.lo - p.zero_point), hi = (float)(levels.hi - p.zero_point);", "float lo = (float)levels.lo, hi = (float)levels.hi;", ROUNDING),
        zero("quantize one: result", header, "return (int32_t)r + p.zero_point;", "return (int32_t)r;", ROUNDING),
        zero("dequantize one", header, "(float)(q - p.zero_point)", "(float)q", ROUNDING),
        zero("levels of centred values", rounds, "to->rounds ? to->zero_point[to->count > 1 ? c : 0] : 0", "0"),
        zero("add: of a", merge, "s->za = (float)a->zero_point[0];", "s->za = 0;"),
        zero("add: of b", merge, "s->zb = (float)b->zero_point[0];", "s->zb = 0;"),
        zero("add and mul: of the result", merge, "s->zc = (float)c->zero_point[0];", "s->zc = 0;"),
        zero("add: in the constant, a", merge, "fmaf(s->ra, s->za, s->rb * s->zb)", "(s->rb * s->zb)"),
        zero("add: in the constant, b", merge, "fmaf(s->ra, s->za, s->rb * s->zb)", "(s->ra * s->za)"),
        zero("stored integers of a constant", "simq/evaluate.c", " + s.zero_point[s.count > 1 ? i / inner % s.count : 0]", "", AFFINE),
        zero("bounds of clip", "simq/kernel_clamp.c", "lo, s->parameters, s->levels) - s->parameters.zero_point", "lo, s->parameters, s->levels)"),
        zero("bounds of a fused clip", "simq/plan_fuse.c", "hi, p, s->levels) - p.zero_point", "hi, p, s->levels)"),
        Mutation("duplication", "equal nodes are made again", "graph/node.c", "if (known) {", "if (known && outputs > 99) {", REWRITE + ("test_graph",)),
        Mutation("duplication", "the verifier does not count", "graph/verify.c", "now.of[op] > before->of[op]", "now.of[op] > before->of[op] + 1000", ("test_graph",)),
        Mutation("duplication", "ops that others use are matched too", "rewrite/match.c", "(!root && x->uses[v] != 1 &&", "(!root && x->uses[v] == 0 &&", REWRITE),
    ]


def allow_list():
    text = (ROOT / "rewrite/rules/allow.rules").read_text()
    for line in re.finditer(r"^allow (\w+) ((?:[A-Z]\w*(?: +|\n +)?)+)([^\n]*)", text, re.M):
        for op in line[2].split():
            start, end = line.start(2), line.end(2)
            without = text[:start] + re.sub(rf"\b{op}\b ?", "", text[start:end], count=1) + text[end:]
            where = " target fused" if "target" in line[3] else ""
            yield Mutation("allow-list", f"{line[1]} {op}{where}", "rewrite/rules/allow.rules", text, without, REWRITE)


def rules():
    """Each rule without its guards, and each rule gone."""
    for name in ("normalise", "patterns", "requantize"):
        file = f"rewrite/rules/{name}.rules"
        text = (ROOT / file).read_text()
        for rule in re.finditer(r"^(rule|pattern) (\w+)\n(?:[ \t].*\n)+", text, re.M):
            yield Mutation("rule", f"{rule[2]} is gone", file, rule[0], "", REWRITE)
            guards = re.search(r"^  when (?:.* and\n)*.*\n", rule[0], re.M)
            if guards:
                yield Mutation("rule", f"{rule[2]} without guards", file, rule[0], rule[0].replace(guards[0], ""), REWRITE)


def guards():
    """Each guard of the table turned round: 0 becomes 1, 1 becomes 0, other numbers one more."""
    text = (ROOT / "rewrite/guard.c").read_text()
    begin = text.index("static const struct qc_guard_info guards[]")
    for entry in re.finditer(r"\.name = \"(\w+)\"[^}]*?(?:\{[^}]*\}[^}]*?)?\.value = (\w+)\}", text[begin:]):
        broken = "static double broken(const struct qc_guard_call *call)\n{\n    double v = " + entry[2] + "(call);\n    return v == 0 ? 1 : v == 1 ? 0 : v + 1;\n}\n\n"
        table = text[begin:]
        changed = table[:entry.start(2)] + "broken" + table[entry.end(2):]
        yield Mutation("guard", entry[1], "rewrite/guard.c", text, text[:begin] + broken + changed, REWRITE)


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
    return run(["cmake", "--build", SCRATCH / "build", "--target", *tests], cwd=source)


def first_failure(tests):
    """The first case that fails, None when all pass."""
    for test in tests:
        program = next((SCRATCH / "build" / "tests").glob(f"**/{test}"))
        try:
            done = run([program], timeout=300)
        except subprocess.TimeoutExpired:
            return f"{test}: does not end"
        failed = re.search(r"\[(?:FAIL|CRASH|ERR)\] *([\w:]+)", done.stdout)
        if done.returncode != 0:
            return f"{test}: {failed[1].rstrip(':') if failed else 'stops'}"
    return None


def check(source, m):
    """(noticed, by whom)"""
    path = source / m.file
    text = path.read_text()
    if m.old not in text:
        return False, "the mutation does not apply any more"
    path.write_text(text.replace(m.old, m.new, 1))
    try:
        made = build(source, m.tests)
        if made.returncode != 0:
            return True, "does not compile"
        failure = first_failure(m.tests)
        return failure is not None, failure or "nothing"
    finally:
        path.write_text(text)


def write_page(rows):
    kinds = {}
    for m, noticed, by in rows:
        kinds.setdefault(m.kind, []).append((m, noticed, by))
    lines = [f"{sum(n for _, n, _ in rows)} of {len(rows)} mutations are noticed.\n"]
    lines += ["\n| kind | mutations | noticed |\n|---|---|---|\n"]
    lines += [f"| {kind} | {len(of)} | {sum(n for _, n, _ in of)} |\n" for kind, of in kinds.items()]
    lines += ["\n| kind | mutation | file | noticed by |\n|---|---|---|---|\n"]
    lines += [f"| {m.kind} | {m.name} | {m.file} | {by if noticed else '**' + by + '**'} |\n" for m, noticed, by in rows]
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    PAGE.write_text(head + BEGIN + "".join(lines) + END + rest.split(END)[1])


def main(words):
    resume = "--resume" in words
    words = [w for w in words if w != "--resume"]
    mutations = [*by_hand(), *allow_list(), *guards(), *rules()]
    if words:
        mutations = [m for m in mutations if any(w in f"{m.kind} {m.name} {m.file}" for w in words)]
    source = copy_sources()
    made = run(["cmake", "-S", source, "-B", SCRATCH / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O1"])
    tests = tuple(sorted({t for m in mutations for t in m.tests}))
    made = build(source, tests) if made.returncode == 0 else made
    if made.returncode != 0:
        sys.exit(made.stdout[-4000:])
    failure = first_failure(tests)
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
        print(f"{i + 1}/{len(mutations)} {'ok     ' if noticed else 'MISSED '} {m.kind}: {m.name}: {by}", flush=True)
    if not words:
        write_page(rows)
    missed = sum(not n for _, n, _ in rows)
    print(f"{len(rows) - missed} noticed, {missed} missed")
    sys.exit(1 if missed else 0)


main(sys.argv[1:])
