"""Requests of up to 4 MiB that make a reader work: what each has much of is its name. No I/O."""

from functools import cache

from accredit.jsonrpc.text import MAX_STRUCTURES
from accredit.limits import MAX_PROOF_BUNDLE_BYTES, MAX_VALUES

ROOM = 4_194_304 - 600
MARKS = "\u0301\u0316"


def filled(piece: str, most: int = ROOM) -> str:
    return piece * min(most, ROOM // len(piece.encode()))


def call(
    arguments: str = "{}", *, method: str = "tools/call", name: str = "pay", meta: str = "{}", id: str = "1"
) -> str:
    params = f'{{"name":"{name}","arguments":{arguments},"_meta":{meta}}}'
    return f'{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}'


def listed(piece: str, most: int = ROOM) -> str:
    return call(f'{{"a":[{filled(piece, most)}0]}}')


def read(path: str) -> str:
    return f'{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"file:///{path}"}}}}'


VALUES = MAX_VALUES - 40
STRUCTURES = MAX_STRUCTURES - 40


@cache
def bodies() -> dict[str, str]:
    """All of them, 100 MB."""
    return {
        "floats": listed("0.1,"),
        "as many floats as pass": listed("0.1,", VALUES),
        "long floats": listed("0.12345678901234567,"),
        "tiny floats": listed("1.5e-300,", VALUES),
        "floats that are written out": listed("1e-6,", VALUES),
        "whole floats": listed("1.0,", VALUES),
        "large integers": listed("9007199254740991,"),
        "huge integers": listed("12345678901234567,"),
        "integers of 199 digits": listed("1" * 199 + ","),
        "integers of 198 digits": call(f'{{"a":[1e100,{filled("1" * 198 + ",")}0]}}'),
        "fractions of 250 digits": listed("0." + "0" * 249 + "1,"),
        "integers of 309 digits": listed("1" * 309 + ","),
        "one integer": call(f'{{"a":{filled("1")}}}'),
        "blanks": call(f'{{"a":[1e100,{filled(" ")}1e-6]}}'),
        "arrays": listed("[],"),
        "as many arrays as pass": listed("[],", STRUCTURES),
        "nested arrays": listed("[" * 100 + "]" * 100 + ","),
        "nested arrays that pass": listed("[" * 100 + "]" * 100 + ",", STRUCTURES // 100),
        "brackets": filled("["),
        "brackets in a text": call(f'{{"a":"{filled("[{:,")}"}}'),
        "objects that pass": listed('{"":0},', STRUCTURES // 2),
        "objects that sort otherwise": call('{"a":["\U00010000",' + filled('{"\ue000":0},', STRUCTURES // 2) + "0]}"),
        "members": call("{" + ",".join(f'"{index:x}":0' for index in range(400_000)) + "}"),
        "members that pass": call("{" + ",".join(f'"{index:x}":0' for index in range(STRUCTURES)) + "}"),
        "members of params": call("{}", meta="{}," + ",".join(f'"{index:x}":0' for index in range(STRUCTURES))),
        "a duplicate at the end": call("{" + "".join(f'"{n:x}":0,' for n in range(STRUCTURES)) + '"\\u0030":0}'),
        "long names": call("{" + ",".join(f'"{index}{"a" * 4_000}":0' for index in range(1_000)) + "}"),
        "marks in a name": call(f'{{"x{filled(MARKS)}":0}}'),
        "texts": listed('"",', VALUES),
        "escapes": call(f'{{"a":"{filled(chr(92) + "n")}"}}'),
        "escaped quotes": call(f'{{"a":"{filled(chr(92) + chr(34))}"}}'),
        "nulls": listed("null,", VALUES),
        "marks in a method": call(method="x" + filled(MARKS)),
        "marks in a tool": call(name="x" + filled(MARKS)),
        "marks in a URI": read(filled(MARKS)),
        "few marks in a URI": read(MARKS * 4_000),
        "percents": read("%25" * 2_700),
        "marks in _meta": call(meta=f'{{"x{filled(MARKS)}":0}}'),
        "many names in _meta": call(meta="{" + ",".join(f'"{index}{MARKS * 60}":0' for index in range(15_000)) + "}"),
        "names in _meta that pass": call(meta="{" + ",".join(f'"{n}{MARKS * 120}":0' for n in range(250)) + "}"),
        "an id": call(id=f'"{filled("a")}"'),
        "a giant proof": call(meta=f'{{"ratify_proof":{{"delegations":[{filled("[],", VALUES // 8)}0]}}}}'),
        "a proof that is read": call(meta='{"ratify_proof":[' + "[]," * (MAX_PROOF_BUNDLE_BYTES // 3 - 10) + "0]}"),
        "a token": call(f'{{"_token":"{filled("a.")}"}}', meta=f'{{"token":"{"a." * 1_000}"}}'),
        "a state": call(f'{{}},"requestState":"{filled("s1.")}"'),
        "a batch": "[" + ",".join(call(f'{{"a":[{"0.5," * 2_500}0]}}', id=str(index)) for index in range(100)) + "]",
        "a batch that passes": "[" + ",".join(call(f'{{"a":[{"0.5," * 999}0]}}', id=str(n)) for n in range(100)) + "]",
    }  # fmt: skip


REFUSED_UNREAD = (
    *("floats", "long floats", "large integers", "huge integers", "integers of 309 digits", "one integer", "arrays"),
    *("nested arrays", "brackets", "members", "members of params", "a duplicate at the end", "marks in a method"),
    *("marks in _meta", "many names in _meta", "an id", "a batch"),
)
"""What no gateway reads to its end, whatever else it asks for."""
