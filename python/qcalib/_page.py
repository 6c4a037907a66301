# SPDX-License-Identifier: Apache-2.0
"""A result in a notebook: the verdict, the layers with the largest effect on the outputs, and the advice."""

from html import escape

from ._words import in_python

SHOWN = 10
_LEFT = "style='text-align:left'"


def verdict(report):
    """Returns the verdict in one sentence, in the words of Python."""
    return "{grade}: {text}".format(grade=report["verdict"]["grade"], text=in_python(report["verdict"]["text"]))


def worst(report, most=SHOWN):
    """Returns [(node, op, output SQNR in dB)] of the layers with the largest effect on the outputs."""
    found = [(e["node"], e["op"], e["output_sqnr_db"]) for e in report.get("ranking") or ()
             if e["node"] and e["output_sqnr_db"] is not None]
    return found[:most]


def _bars(rows):
    """Draws a bar plot in HTML: the noise of each layer alone at the outputs, relative to the largest."""
    high, wide, names = 18, 240, 260
    top = max(10 ** (-db / 10) for _, _, db in rows)
    lines = []
    for k, (node, _, db) in enumerate(rows):
        width = max(1, wide * 10 ** (-db / 10) / top)
        y = k * high
        lines.append(f"<text x='{names - 6}' y='{y + 13}' text-anchor='end' font-size='12' fill='currentColor'>"
                     f"{escape(node[-40:])}</text><rect x='{names}' y='{y + 3}' width='{width:.1f}' "
                     f"height='{high - 6}' fill='#4c78a8'/><text x='{names + width + 6:.1f}' y='{y + 13}' "
                     f"font-size='12' fill='currentColor'>{db:.1f} dB</text>")
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{names + wide + 80}' height='{high * len(rows)}' "
            f"role='img' aria-label='output SQNR by layer'>{''.join(lines)}</svg>")


def _table(heads, rows):
    head = "".join(f"<th {_LEFT}>{escape(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td {_LEFT}>{escape(str(c))}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def page(report, warnings):
    rows = worst(report)
    parts = [f"<p><b>{escape(report['model']['file'] or 'model')}</b>: {escape(verdict(report))}</p>"]
    parts += [f"<p>Warning: {escape(text)}</p>" for text in warnings]
    if rows:
        parts.append("<p>Layers with the largest effect: SQNR of the outputs with this layer alone quantized</p>")
        parts.append(_bars(rows))
        parts.append(_table(("layer", "op", "output SQNR, dB"), [(n, o, f"{db:.2f}") for n, o, db in rows]))
    advice = report.get("advice") or ()
    if advice:
        parts.append(_table(("what would help", "where", "output SQNR, dB"), [
            (a["action"], a["node"] or "everywhere",
             "{sqnr_db_before:.2f} → {sqnr_db_after:.2f}".format(**a["measured"])) for a in advice]))
    return "".join(parts)
