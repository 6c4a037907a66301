# SPDX-License-Identifier: Apache-2.0
"""Every command of README.md and docs/*.md is run in the order of its page, and prints what the page shows (documentation.py)."""

import re

import documentation
import pytest

PAGES = documentation.pages()
RUN = [path for path in PAGES if documentation.read(path).commands]


@pytest.fixture(params=PAGES, ids=lambda p: str(p.relative_to(documentation.ROOT)))
def page(request):
    return documentation.read(request.param)


@pytest.mark.parametrize("path", RUN, ids=lambda p: str(p.relative_to(documentation.ROOT)))
def test_commands_print_what_is_shown(path, program, tmp_path):
    page = documentation.read(path)
    if documentation.missing(page, program):
        pytest.skip(f"needs {documentation.missing(page, program)}")
    documentation.run(page, program, tmp_path)
    found = documentation.difference(page)
    assert not found, found + "\nwhere this is what should be shown: scripts/bless --docs"


def test_commands_are_run_or_say_why_not(page):
    assert (
        not page.loose
    ), f"{page.path.name}, lines {page.loose}: commands outside of a ```console block without <!-- not run: WHY -->"


def test_no_command_shown_breaks_down(page):
    assert "Traceback" not in page.path.read_text()


def test_tables_are_those_of_the_measurement(page):
    for name, first, last in page.tables:
        assert (
            page.lines[first:last] == documentation.TABLES[name]()
        ), f"{page.path.name}: scripts/bless --docs writes the table '{name}' anew"


def headings(path):
    """Anchors of a page as GitHub makes them."""
    lines = re.sub(r"(?ms)^```.*?^```", "", path.read_text()).split("\n")
    titles = [re.sub(r"^#+ ", "", line) for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def test_links_lead_somewhere(page):
    text = re.sub(r"(?ms)^```.*?^```", "", page.path.read_text())
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text):
        file = (page.path.parent / target).resolve() if target else page.path
        assert file.exists(), f"{page.path.name}: there is no {target}"
        assert not anchor or anchor in headings(file), f"{page.path.name}: {target} has no heading {anchor}"
    for named in re.findall(
        r"`(?:docs|scripts|graph|export|observers|calib|simq|rewrite|cli|tests|datasets|base|onnx|cmake)/[\w./-]+\.\w+`",
        text,
    ):
        assert (documentation.ROOT / named.strip("`")).exists(), f"{page.path.name}: there is no {named}"


DECISIONS = sorted((documentation.ROOT / "docs/decisions").glob("*.md"))


@pytest.mark.parametrize("path", [*PAGES, *DECISIONS], ids=lambda p: str(p.relative_to(documentation.ROOT)))
def test_pages_are_short(path):
    lines, most = path.read_text().count("\n"), 60 if path in DECISIONS else 200
    assert lines <= most, f"{path.name} has {lines} lines; {most} are allowed: make two pages of it"


@pytest.mark.parametrize("path", DECISIONS, ids=lambda p: p.stem)
def test_links_of_decisions_lead_somewhere(path):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", path.read_text()):
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"there is no {target}"
        assert not anchor or anchor in headings(file), f"{target} has no heading {anchor}"


def test_names_of_the_source_exist():
    """Functions and structs that pages name in backticks."""
    source = "".join(
        f.read_text() for folder in documentation.ROOT.iterdir() if folder.name not in ("build", "docs", "node_modules")
        for ending in ("*.[ch]", "*.def", "*.cmake", "CMakeLists.txt") for f in folder.rglob(ending)
    )  # fmt: skip
    known = set(re.findall(r"\bqc_\w+", source))
    absent = {
        (path.name, name)
        for path in (*PAGES, *DECISIONS)
        for code in re.findall(r"`([^`\n]+)`", path.read_text())
        for name in re.findall(r"\bqc_[a-z0-9_]+", code)
        if name not in known and not re.search(rf"{name}_?NAME", code)
    }
    assert not absent, f"names that the source does not have: {sorted(absent)}"


def test_every_page_is_in_the_index():
    index = (documentation.ROOT / "docs/README.md").read_text()
    absent = [p.name for p in PAGES[1:] if p.name != "README.md" and f"({p.name})" not in index]
    assert not absent, f"docs/README.md does not name {absent}"


def test_differences_are_found():
    """The comparison itself: the clock does not count, words and counts do, numbers by more than 1 %."""
    assert documentation.same(["time 0.10 s: 3 threads"], ["time 7.25 s: 1 thread"])
    assert documentation.same(["worst       33.75 dB  Conv"], ["worst       33.80 dB  Conv"])
    assert not documentation.same(["worst       33.75 dB  Conv"], ["worst       35.75 dB  Conv"])
    assert not documentation.same(["worst       33.75 dB  Conv"], ["worst       33.75 dB  Gemm"])
    assert not documentation.same(["11 ops; 0 stay in float"], ["12 ops; 0 stay in float"])
    assert not documentation.same([], ["one more line"])
