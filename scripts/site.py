# SPDX-License-Identifier: Apache-2.0
"""See scripts/site. Pages are copied to build/site/pages with their links rewritten, and MkDocs makes HTML of them.

A link to a tracked file that is not a page becomes a link to a page that shows the file. MkDocs runs with --strict;
then every relative link and anchor of the HTML is checked, including those of the C reference and of the report."""
import ast
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
SITE = ROOT / "build/site"
PAGES, HTML = SITE / "pages", SITE / "html"
PROGRAM = ROOT / "build/release/qcalib"
COMMANDS = ("quantize", "collect", "merge", "run", "eval", "compare", "convert", "pack", "inspect", "list")
GENERATED = {"C": "reference/c/files.html", "Python": "reference/python.md", "command line": "reference/command-line.md",
             "report of the example": "example/report.html"}
FENCE = re.compile(r"(?ms)^(`{3,}).*?^\1$")
LINK = re.compile(r"(\]\()((?!https?:|mailto:)[^)#\s]*)((?:#[^)\s]*)?\))")
LANGUAGES = {".h": "c", ".c": "c", ".py": "python", ".json": "json"}


def place(path):
    """Returns the place of a tracked file of the checkout among the pages."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        return f"{name.removeprefix('docs/')}/index.md"
    if name in ("README.md", "docs/README.md"):
        return {"README.md": "index.md", "docs/README.md": "documentation.md"}[name]
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    if path.suffix == ".md":
        return f"project/{name}"
    return f"files/{name}.md"


class Staging:
    """Copies pages and the files that they link to."""

    def __init__(self):
        self.done = {}
        self.waiting = []

    def want(self, path):
        if path not in self.done:
            self.done[path] = place(path)
            self.waiting.append(path)
        return self.done[path]

    def relink(self, text, source, target):
        """Returns the text of a page with links to the new places of their targets."""
        def link(match):
            before, name, after = match.groups()
            if not name:
                return match[0]
            wanted = (source.parent / name).resolve()
            if not wanted.exists() or ROOT not in [wanted, *wanted.parents]:
                sys.exit(f"site: {source.relative_to(ROOT)}: there is no {name}")
            return before + os.path.relpath(self.want(wanted), os.path.dirname(target)) + after

        parts, at = [], 0
        for block in FENCE.finditer(text):
            parts += [LINK.sub(link, text[at:block.start()]), block[0]]
            at = block.end()
        return "".join([*parts, LINK.sub(link, text[at:])])

    def write(self, path):
        name = self.done[path]
        out = PAGES / name
        out.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            entries = sorted(p for p in path.iterdir() if p.suffix == ".md")
            lines = [f"- [{title(p)}]({os.path.relpath(self.want(p), os.path.dirname(name))})" for p in entries]
            out.write_text(f"# {path.name.capitalize()}\n\n" + "\n".join(lines) + "\n")
        elif path.suffix == ".md":
            out.write_text(self.relink(path.read_text(), path, name))
        elif path.suffix in (".png", ".svg"):
            shutil.copyfile(path, out)
        else:
            language = LANGUAGES.get(path.suffix, "sh" if path.parent.name == "scripts" else "")
            name = path.relative_to(ROOT)
            hidden = "---\nsearch:\n  exclude: true\n---\n"
            out.write_text(f"{hidden}# {name}\n\n````{language}\n{path.read_text().rstrip()}\n````\n")

    def run(self):
        while self.waiting:
            self.write(self.waiting.pop())


def title(page):
    return re.search(r"(?m)^# (.+)$", page.read_text())[1].replace("`", "")


def output(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True,
                          env={**os.environ, "COLUMNS": "100"}).stdout


def command_line():
    parts = [f"## qcalib {c}\n\n```text\n{output('help', c).rstrip()}\n```\n" for c in COMMANDS]
    return "# Command line\n\nThe output of `qcalib help COMMAND` for each command.\n\n" + "\n".join(parts)


def docstrings():
    """Returns {name or Class.name: its docstring} from the package's own files."""
    found = {}
    for file in sorted((ROOT / "python/qcalib").glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
                found[node.name] = ast.get_docstring(node)
            for inner in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(inner, ast.FunctionDef) and ast.get_docstring(inner):
                    found[f"{node.name}.{inner.name}"] = ast.get_docstring(inner)
    return found


def comments(lines, function):
    """Returns {parameter: the comment above it}; the stubs have one for each option of the command line."""
    found = {}
    for i in range(function.lineno, function.end_lineno):
        name, comment = re.match(r" +(\w+):", lines[i]), re.match(r" +# (.+)", lines[i - 1])
        if name and comment:
            found[name[1]] = comment[1]
    return found


def signature(node):
    arguments = node.args
    fixed = [a.arg for a in arguments.args]
    named = [a.arg for a in arguments.kwonlyargs]
    options = ", ..." if len(named) > 6 else ""
    shown = [*fixed, *(["*", *named[:6]] if named else [])]
    return f"{node.name}({', '.join(a for a in shown if a not in ('self', 'cls'))}{options})"


def python_reference():
    stubs = (ROOT / "python/qcalib/__init__.pyi").read_text()
    lines, texts, parts = stubs.split("\n"), docstrings(), ["# Python reference\n"]
    body = ast.parse(stubs).body
    parts.append("[How to use the package](../python.md). Each function also has this text in `help()`.\n")
    for node in (n for n in body if isinstance(n, ast.FunctionDef)):
        parts.append(f"## {node.name}\n\n```python\nqcalib.{signature(node)}\n```\n")
        if node.name in texts:
            parts.append(f"```text\n{texts[node.name]}\n```\n")
        rows = [f"| `{name}` | {text.replace('|', chr(92) + '|')} |" for name, text in comments(lines, node).items()]
        if rows:
            parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n")
    for node in (n for n in body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")):
        bases = ", ".join(ast.unparse(b) for b in node.bases)
        parts.append(f"## {node.name}\n\n{f'A `{bases}`. ' if bases else ''}{texts.get(node.name, '')}\n")
        rows = []
        for inner in node.body:
            text = texts.get(f"{node.name}.{getattr(inner, 'name', '')}", "").split("\n\n", maxsplit=1)[0]
            if isinstance(inner, ast.AnnAssign):
                rows.append(f"| `{inner.target.id}` | `{ast.unparse(inner.annotation)}` |".replace(" | None", ""))
            elif isinstance(inner, ast.FunctionDef):
                attribute = any(isinstance(d, ast.Name) and d.id == "property" for d in inner.decorator_list)
                rows.append(f"| `{inner.name if attribute else signature(inner)}` | {' '.join(text.split())} |")
        if rows:
            parts.append("\n".join(["| member | |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def generate():
    """Writes the pages that are not files of the checkout."""
    (PAGES / "reference").mkdir(parents=True)
    (PAGES / "reference/command-line.md").write_text(command_line())
    (PAGES / "reference/python.md").write_text(python_reference())
    shutil.copytree(ROOT / "build/release/api/html", PAGES / "reference/c")
    with tempfile.TemporaryDirectory() as folder:
        for file in (ROOT / "datasets").glob("digits_*"):
            shutil.copy(file, folder)
        subprocess.run([PROGRAM, "-q", "--data", "digits_calib.h5", "--eval", "digits_test.h5", "digits_cnn.onnx"],
                       cwd=folder, check=True)
        shutil.copytree(pathlib.Path(folder) / "digits_cnn.int8.report", PAGES / "example")


def navigation(staging):
    """Returns the order of the index page: its sections, and in each the pages of its table."""
    index = (ROOT / "docs/README.md").read_text()
    nav, seen = ["index.md", {"Documentation": "documentation.md"}], {"index.md", "documentation.md"}
    for section in re.split(r"(?m)^#{2,3} ", index)[1:]:
        entries = []
        for row in (line for line in section.split("\n") if line.startswith("|")):
            for name in re.findall(r"\]\(([\w-]+\.md)\)", row):
                page = staging.done[ROOT / "docs" / name]
                if page not in seen:
                    seen.add(page)
                    entries.append({title(ROOT / "docs" / name): page})
        if entries:
            nav.append({section.split("\n", maxsplit=1)[0]: entries})
    nav.append({"API": [{k: v} for k, v in GENERATED.items()]})
    rest = sorted(p for p in staging.done.values() if p.startswith(("decisions/", "project/")) and p not in seen)
    nav.append({"Project": [{title(PAGES / p): p} for p in rest if p.startswith("project/")]})
    nav.append({"Decisions": [{title(PAGES / p): p} for p in rest if p.startswith("decisions/")]})
    return nav


def configuration(nav):
    """Returns mkdocs.yml as JSON, which is YAML. Anchors are as on GitHub, so that a link works in both places."""
    slug = "    slugify: !!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}\n"
    fixed = {
        "site_name": "qcalib", "docs_dir": str(PAGES), "site_dir": str(HTML), "nav": nav, "use_directory_urls": False,
        "theme": {"name": "material", "font": False, "features": ["navigation.footer", "content.code.copy"],
                  "palette": [{"media": "(prefers-color-scheme: light)", "scheme": "default"},
                              {"media": "(prefers-color-scheme: dark)", "scheme": "slate"}]},
        "plugins": ["search"],
        "validation": {"omitted_files": "info", "absolute_links": "warn", "unrecognized_links": "warn",
                       "not_found": "warn", "anchors": "warn"},
    }
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in fixed.items()]
    return "".join(lines) + f"markdown_extensions:\n- tables\n- pymdownx.superfences\n- pymdownx.highlight\n- toc:\n{slug}"


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.targets, self.names = [], set()

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            elif name in ("id", "name") and value:
                self.names.add(value)


def read_links(file):
    links = Links()
    links.feed(file.read_text(errors="replace"))
    return links


def broken():
    """Returns the broken links of the finished site, as FILE: LINK."""
    read = {file: read_links(file) for file in HTML.rglob("*.html")}
    for file, links in read.items():
        for target in links.targets:
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                continue
            path = urllib.parse.unquote(url.path)
            root = HTML if path.startswith("/") else file.parent  # of the server: 404.html alone
            wanted = (root / path.lstrip("/")).resolve() if path else file
            wanted = wanted / "index.html" if wanted.is_dir() else wanted
            anchor = urllib.parse.unquote(url.fragment)
            made = file.name == "report.html" or "reference/c" in file.as_posix()  # their scripts make anchors
            if not wanted.exists() or (anchor and not made and wanted in read and anchor not in read[wanted].names):
                yield f"{file.relative_to(HTML)}: {target}"


def main():
    for folder in (PAGES, HTML):
        shutil.rmtree(folder, ignore_errors=True)
    generate()
    staging = Staging()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        staging.want(page)
    staging.run()
    (SITE / "mkdocs.yml").write_text(configuration(navigation(staging)))
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", SITE / "mkdocs.yml"],
                          capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    found = [] if done.returncode else sorted(set(broken()))
    if done.returncode or found:
        sys.exit(done.stderr + "\n".join(["site: links that lead nowhere:", *found] if found else []))
    pages = list(HTML.rglob("*.html"))
    print(f"{HTML.relative_to(ROOT)}/index.html: {len(pages)} pages, all links resolve")


if __name__ == "__main__":
    main()
