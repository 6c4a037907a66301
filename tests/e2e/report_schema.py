# SPDX-License-Identifier: Apache-2.0
"""Validates records against export/report/report.schema.json: the keywords of JSON Schema 2020-12 that it has."""

import functools
import json
import pathlib

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "export/report/report.schema.json"
TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "null": lambda v: v is None,
}
NOTES = {"$schema", "$id", "$defs", "title", "description"}


@functools.cache
def schema():
    return json.loads(SCHEMA.read_text())


def breaches(value, rule=None, path="$"):
    """The places of a value that break the schema."""
    rule = schema() if rule is None else rule
    if "$ref" in rule:
        return breaches(value, schema()["$defs"][rule["$ref"].rsplit("/", 1)[1]], path)
    found = []
    for word, says in rule.items():
        if word == "type":
            kinds = [says] if isinstance(says, str) else says
            if not any(TYPES[k](value) for k in kinds):
                found.append(f"{path}: {value!r} is not of type {says}")
        elif word == "properties":
            for key, of in says.items() if isinstance(value, dict) else ():
                if key in value:
                    found += breaches(value[key], of, f"{path}.{key}")
        elif word == "required":
            found += [f"{path}: no {key}" for key in says if isinstance(value, dict) and key not in value]
        elif word == "items":
            for i, item in enumerate(value) if isinstance(value, list) else ():
                found += breaches(item, says, f"{path}[{i}]")
        elif word == "anyOf":
            if all(breaches(value, of, path) for of in says):
                found.append(f"{path}: {value!r} is none of what may be there")
        elif word in ("enum", "const"):
            if value not in (says if word == "enum" else [says]):
                found.append(f"{path}: {value!r} is not {says}")
        elif word == "minimum":
            if TYPES["number"](value) and value < says:
                found.append(f"{path}: {value} is below {says}")
        elif word in ("minItems", "maxItems"):
            if isinstance(value, list) and (len(value) < says if word == "minItems" else len(value) > says):
                found.append(f"{path}: {len(value)} elements")
        else:
            assert word in NOTES, f"the schema has {word}, which is not known here"
    return found


def unnamed(value, rule=None, path="$"):
    """The keys of a value that the schema does not name."""
    rule = schema() if rule is None else rule
    if "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].rsplit("/", 1)[1]]
    found = []
    if isinstance(value, dict) and "properties" in rule:
        for key, v in value.items():
            found += unnamed(v, rule["properties"][key], f"{path}.{key}") if key in rule["properties"] else [f"{path}.{key}"]
    elif isinstance(value, list) and "items" in rule:
        found += sorted({key for v in value for key in unnamed(v, rule["items"], f"{path}[]")})
    return found


def check(report):
    """Fails if a report breaks the schema."""
    found = breaches(report)
    assert not found, "\n".join(found[:20])
