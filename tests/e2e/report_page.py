# SPDX-License-Identifier: Apache-2.0
"""The record inside a page of qcalib; the viewer around it is looked at in tests/browser."""

import json
import re


def record_of(page):
    """The record of a page, a path: whatever texts it has, they end neither the record nor the page's own script."""
    text = page.read_text()
    assert text.count("<script") == text.count("</script>") == 2
    (record,) = re.findall(r'<script type="application/json" id="record">(.*?)</script>', text, re.DOTALL)
    return json.loads(record)


def is_record_of(page, report):
    """The record of the page is the report, without its times."""
    record = record_of(page)
    timing = record.pop("timing")
    return record == {k: v for k, v in report.items() if k != "timing"} and set(timing) <= {"benchmark"}
