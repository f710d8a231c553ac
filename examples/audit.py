"""Verifies an exported log, and says what each agent did: nothing is counted unless all of it verifies.

accredit log export --out calls.jsonl
python examples/audit.py calls.jsonl gateway.key.pub
"""

import argparse
from collections import Counter
from pathlib import Path

from accredit.attest import CallRecord, verify_envelope, verify_log
from accredit.errors import ConfigurationError
from accredit.keys import load_public_key, log_key


def main(export: Path, key: Path) -> int:
    """Returns the exit code: 1 for a log that does not verify."""
    keys = [log_key(load_public_key(key))]
    with export.open(encoding="utf-8") as lines:
        report = verify_log(lines, keys)
    if not report.valid or not report.records:
        print(f"BAD: {report.fault or 'no records'}")
        return 1
    print(f"ok: {report.records} records")
    calls = Counter[tuple[str, str, str]]()
    with export.open(encoding="utf-8") as lines:
        for line in lines:
            record = verify_envelope(line, keys).predicate
            if isinstance(record, CallRecord) and record.decision is not None:
                agent = record.authority.agent_id[:12] if record.authority is not None else "nobody"
                calls[agent, record.call.target or record.call.method, record.decision.verdict] += 1
    for (agent, target, verdict), number in sorted(calls.items()):
        print(f"{agent}  {target}  {verdict}  {number}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", type=Path, help="what `accredit log export` wrote")
    parser.add_argument("key", type=Path, help="the gateway's public key")
    given = parser.parse_args()
    try:
        raise SystemExit(main(given.export, given.key))
    except ConfigurationError as error:
        raise SystemExit(f"{error.what}\n{error.remedy}") from None
