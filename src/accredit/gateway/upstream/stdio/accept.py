"""Which types of answer a client accepts. No I/O. Source: RFC 9110 section 12.5.1."""

from accredit.jsonrpc.era import DUPLICATED


def accepts(value: bytes | None, media_type: bytes) -> bool:
    """Return whether an `Accept` header allows a type; a missing or empty header allows all.

    The most specific matching range decides; a weight of zero refuses.
    """
    if value is None or not value.strip():
        return True
    weights: dict[bytes, bool] = {}
    for part in value.replace(DUPLICATED, b",").split(b","):
        media_range, *parameters = (piece.strip().lower() for piece in part.split(b";"))
        weights[media_range] = not any(_is_zero(parameter) for parameter in parameters)
    kind = media_type.split(b"/", 1)[0]
    for media_range in (media_type, kind + b"/*", b"*/*"):
        if media_range in weights:
            return weights[media_range]
    return False


def _is_zero(parameter: bytes) -> bool:
    name, _, weight = parameter.partition(b"=")
    return name.strip() == b"q" and not weight.strip().strip(b"0.")
