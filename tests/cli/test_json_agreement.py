# SPDX-License-Identifier: Apache-2.0
"""Which rows are accepted: `cep` and Python's json agree on thousands of damaged rows.

Where `cep` is stricter than Python's json there is a reason:
- NaN, Infinity and -Infinity are no JSON;
- integers beyond 64 bits and decimals beyond a double have no value that a row could hold;
- a lone half of a surrogate pair has no UTF-8;
- objects and arrays are nested at most 1,024 deep.
"""

import json
import math
import random
from pathlib import Path

CORPUS = Path(__file__).resolve().parent.parent / "fuzz" / "corpus"
LINES_A_FILE = 90  # `check` lists the first 100 pieces of damage of a file

MAX_TIME_NS = 4 * 10**18
MAX_INTERVAL_MS = 1e11
MAX_COORDINATE = 2**31 - 1
INDEX = (-(2**62), 2**62)
INTEGER_LIMITS = {"step": (-(2**63), 2**63 - 1), "rank": (0, 2**62), "start_ns": (-MAX_TIME_NS, MAX_TIME_NS)}
SPAN_INTEGER_LIMITS = {"seq": INDEX, "depth": INDEX, "coll": INDEX, "bytes": (-(2**50), 2**50)}
RUN_LIMITS = {"start_unix_ns": MAX_TIME_NS, "clock_error_ns": MAX_TIME_NS, "world_size": 2**62, "attempt": 2**62,
              **dict.fromkeys(("dp", "tp", "pp", "ep", "cp"), MAX_COORDINATE)}
TYPES = ("run", "stats", "counter", "mark", "open")


class Refused(Exception):
    pass


def integer(text):
    value = int(text)
    if not -(2**63) <= value < 2**64:
        raise Refused("an integer beyond 64 bits")
    return value


def decimal(text):
    value = float(text)
    if math.isinf(value):
        raise Refused("a number beyond a double")
    return value


def constant(text):
    raise Refused(text)


def pairs_of(line):
    """The members of the object in their order. Nested objects are lists of pairs too."""
    value = json.loads(line.decode("utf-8"), object_pairs_hook=Pairs, parse_int=integer, parse_float=decimal,
                       parse_constant=constant)
    repr_of_strings(value).encode("utf-8")
    if not isinstance(value, Pairs):
        raise Refused("no object")
    return value


class Pairs(list):
    pass


def repr_of_strings(value):
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "".join(map(repr_of_strings, value))
    return ""


def is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def row_type(pairs):
    first = [value for key, value in pairs if key == "type"][:1]
    if not first:
        return "span"
    return first[0] if first[0] in TYPES else "unknown"


def need(condition, why):
    if not condition:
        raise Refused(why)


def read_values(pairs, kind):
    """The values that a row of this type has, the last of a repeated key; null changes nothing."""
    is_span = kind in ("span", "open")
    optional_integers = {"start_ns", *(("seq", "depth", "coll", "bytes", "stream") if is_span else ()),
                         *(RUN_LIMITS if kind == "run" else ())}
    values = {}
    for key, value in pairs:
        if key == "name":
            need(isinstance(value, str), "name")
            values[key] = value
        elif key in ("step", "rank"):
            need(value is None or is_integer(value), key)
            values.update({} if value is None else {key: value})
        elif key == "duration_ms" and is_span:
            need(is_number(value), key)
            values[key] = value
        elif key in optional_integers:
            values.update({key: value} if is_integer(value) else {})
        elif key in ("elapsed_ms", "lag_ms") and is_span:
            values.update({key: value} if is_number(value) else {})
        elif key == "value" and kind == "counter":
            values[key] = is_number(value)
    return values


def check_limits(values, kind):
    for key, (least, most) in {**INTEGER_LIMITS, **SPAN_INTEGER_LIMITS}.items():
        need(least <= values.get(key, 0) <= most, key)
    for key in ("elapsed_ms", "lag_ms", "duration_ms"):
        need(abs(values.get(key, 0)) <= MAX_INTERVAL_MS, key)
    if kind == "run":
        for key, most in RUN_LIMITS.items():
            need(abs(values.get(key, 0)) <= most, key)


def is_row(line):
    try:
        pairs = pairs_of(line)
        kind = row_type(pairs)
        if kind == "unknown":
            return True
        values = read_values(pairs, kind)
        need("rank" in values, "rank")
        need(values.get("duration_ms", 0) >= 0, "duration_ms")
        check_limits(values, kind)
        if kind in ("run", "stats"):
            return True
        need("step" in values and "name" in values, "step or name")
        need(kind != "counter" or values.get("value"), "value")
        need(kind != "span" or "duration_ms" in values, "duration_ms")
        return True
    except (Refused, ValueError, RecursionError):  # of json, and of UTF-8
        return False


ROWS = [
    b'{"name":"forward","step":100,"rank":3,"duration_ms":12.345678,"start_ns":1763700000123456789,"host_ms":0.412,'
    b'"lag_ms":0.105,"kind":"compute","clock":"gpu","seq":0,"depth":1,"device":3,"stream":1}',
    b'{"name":"all_reduce","step":7,"rank":0,"duration_ms":4.5,"start_ns":1763700000123456789,"bytes":268435456,'
    b'"group":"dp","coll":17,"meta":{"a":[1,2.5,{"b":null}],"c":"d","e":true}}',
    b'{"duration_ms": 3.0281927381278127, "name": "data_load", "rank": 0, "step": 7}',
    b'{"type":"counter","name":"memory","step":5,"rank":1,"value":81920,"start_ns":1763700000123456789}',
    b'{"type":"mark","name":"checkpoint","step":5,"rank":1,"start_ns":1763700000123456789,"meta":{"path":"/x"}}',
    b'{"type":"open","name":"f","step":5,"rank":1,"start_ns":1763700000123456789,"elapsed_ms":12.5}',
    b'{"type":"run","schema":1,"run_id":"r","attempt":1,"rank":0,"world_size":8,"start_unix_ns":1763700000123456789}',
    b'{"type":"stats","rank":0,"step":5,"attempt":1,"recorded":100,"dropped":{"ring":0}}',
    b'{"type":"later","rank":0}',
]
PIECES = [b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1e-999", b"1e300", b"1e12", b"01", b"-0", b"-0.0", b"1.", b".5",
          b'"step":1,', b'"rank":null,', b',"type":"mark"', b"{}", b"[]", b"99999999999999999999", b"9223372036854775808",
          b"-9223372036854775809", b'""', b"\\u0041", b"\\ud83d", b"\\ud83d\\ude00", b"\\x", b"\xff", b"\xc3\xa4", b"\t", b"\x01",
          b"4611686018427387905", b"5000000000000000000", b'"duration_ms":1,', b'"seq":1e3,']
BYTES = b'"\\{}[]:,.-+eE0019 \t\r\x01\x7f\xc3\xa4\xffntaf'


def mutated(row, random_):
    row = bytearray(row)
    for _ in range(random_.randint(0, 3)):
        at = random_.randrange(len(row) + 1)
        action = random_.randrange(4)
        if action == 0:
            row[at:at] = bytes([random_.choice(BYTES)])
        elif action == 1:
            del row[at:at + random_.randint(1, 4)]
        elif action == 2:
            row[at:at + 1] = bytes([random_.choice(BYTES)])
        else:
            row[at:at] = random_.choice(PIECES)
    return bytes(row)


def number_mutated(row, random_):
    """A row with one of its numbers replaced: damage that stays JSON."""
    parts = row.split(b":")
    places = [i for i, part in enumerate(parts) if part[:1].isdigit()]
    if places:
        i = random_.choice(places)
        end = next(k for k, byte in enumerate(parts[i] + b",") if byte not in b"0123456789.")
        parts[i] = random_.choice(PIECES) + parts[i][end:]
    return b":".join(parts)


def samples():
    random_ = random.Random(20)
    lines = []
    for folder in ("rows", "reader"):
        for path in sorted((CORPUS / folder).iterdir()):
            data = path.read_bytes()
            if data[:2] != b"\x1f\x8b" and data[:4] != b"\x28\xb5\x2f\xfd":
                lines += data.split(b"\n")
    for _ in range(6000):
        row = random_.choice(ROWS)
        lines.append(mutated(row, random_) if random_.random() < 0.6 else number_mutated(row, random_))
    lines = [line for line in lines if b"\n" not in line]
    return [line.removesuffix(b"\r") for line in lines]


def test_cep_accepts_the_rows_that_pythons_json_accepts(cep, tmp_path):
    (tmp_path / "job").mkdir()
    # The first line is no sample: a byte order mark there is passed over.
    files = {}
    lines = samples()
    for number, begin in enumerate(range(0, len(lines), LINES_A_FILE)):
        name = f"cuda_events_rank_{number}.jsonl"
        files[name] = lines[begin:begin + LINES_A_FILE]
        (tmp_path / "job" / name).write_bytes(b"\n" + b"\n".join(files[name]) + b"\n")
    checked = json.loads(cep("check", "--lenient", "--json", "--run", "all", "job").stdout)
    assert len(checked["files"]) == len(files)
    accepted = 0
    for file in checked["files"]:
        damaged = {damage["line"] for damage in file["damages"]}
        for number, line in enumerate(files[Path(file["path"]).name], 2):
            expected = is_row(line) or not line.strip(b" \t\r")
            assert (number not in damaged) == expected, (line, [d for d in file["damages"] if d["line"] == number])
            accepted += expected
    assert len(lines) > 7000 and 2000 < accepted < len(lines) - 2000


def test_merge_writes_only_what_is_json(cep, tmp_path):
    (tmp_path / "all.jsonl").write_bytes(b"\n" + b"\n".join(samples()) + b"\n")
    rows = [line for line in cep.merged("all.jsonl").split(b"\n") if line]
    assert len(rows) > 2000
    assert all(is_row(row) for row in rows)
