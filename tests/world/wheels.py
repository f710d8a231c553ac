"""Wheels for installing packages without a network: of what is installed here, as its own records say. I/O: files."""

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement

_OF_THIS_PLACE = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}


def needed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that fulfil requirements, and what those require in turn, without extras that nobody names."""
    found: dict[str, Distribution] = {}
    wanted = [Requirement(each) for each in requirements]
    while wanted:
        one = wanted.pop()
        extras = one.extras or {""}
        if one.marker is not None and not any(one.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        name = re.sub(r"[-_.]+", "_", one.name).lower()
        if name not in found or one.extras:
            found[name] = distribution(one.name)
            inner = [Requirement(each) for each in found[name].requires or ()]
            wanted += [
                each
                for each in inner
                if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)
            ]
    return found


def repacked(name: str, packed: Distribution, folder: Path) -> Path:
    """A wheel in `folder` with the files of an installed distribution."""
    tags = [tag.split("-") for tag in re.findall(r"^Tag: (\S+)", packed.read_text("WHEEL") or "", re.MULTILINE)]
    assert tags, f"{name} does not say for which machines it is"
    together = "-".join(".".join(dict.fromkeys(each)) for each in zip(*tags, strict=True))
    wheel = folder / f"{name}-{packed.version}-{together}.whl"
    rows: list[str] = []
    with zipfile.ZipFile(wheel, "w") as out:
        for file in packed.files or ():
            if ".." in file.parts or file.suffix == ".pyc" or file.name in _OF_THIS_PLACE:
                continue
            content = Path(str(file.locate())).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows.append(f"{file.as_posix()},sha256={digest},{len(content)}\n")
            out.writestr(zipfile.ZipInfo(file.as_posix()), content)  # of one time, so that a wheel has one hash
        record = next(each for each in packed.files or () if each.name == "RECORD").as_posix()
        out.writestr(zipfile.ZipInfo(record), "".join([*rows, f"{record},,\n"]))
    return wheel


def wheelhouse(requirements: Iterable[str], folder: Path) -> None:
    """Fill a folder with the wheels that are needed."""
    folder.mkdir()
    for name, packed in needed(requirements).items():
        repacked(name, packed, folder)


def pin_again(text: str, folder: Path) -> str:
    """Return requirements with the same pins, and the hashes of wheels that are made in a folder from what is installed
    here: with these an installer that wants hashes needs no network."""
    lines: list[str] = []
    for pin, marker in re.findall(r"^([\w.-]+==[^\s\\]+)(?: ; ([^\\]+?))? \\$", text, re.MULTILINE):
        name, _, version = pin.partition("==")
        if marker and not Marker(marker).evaluate():
            continue
        packed = distribution(name)
        assert packed.version == version, f"{name} is installed as {packed.version}, and pinned as {version}"
        wheel = repacked(re.sub(r"[-_.]+", "_", name).lower(), packed, folder)
        lines.append(f"{pin} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    return "".join(lines)
