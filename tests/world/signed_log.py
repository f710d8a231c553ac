"""A log whose records another signer signs, made as the gateway makes it from its configuration. I/O: files."""

from pathlib import Path

from tests.world.records import OK, allowed_by_a_person
from tests.world.running import run

from accredit.app.assemble import assemble
from accredit.attest import LogReport
from accredit.config.load import load
from accredit.ops.log_place import public_keys
from accredit.stores.audit_log.reader import LogFile


def configure(
    folder: Path, signer: str = "file2:records.pem", public: str = "records.pem.pub", mode: str = "durable"
) -> Path:
    """Writes `accredit.toml`, which names the key of the gateway and the signer of records."""
    path = folder / "accredit.toml"
    lines = ("[attest]", f'mode = "{mode}"', 'key_file = "gateway.key"', f'signer = "{signer}"' if signer else "")
    named = f'signer_public_key_file = "{public}"' if public else ""
    path.write_text("\n".join((*lines, named, '[store]\nurl = "sqlite:///accredit.db"\n')), "utf-8")
    return path


def record(config: Path, calls: int = 1) -> None:
    """Calls into the log that the configuration names, as the gateway puts them there: two records each."""

    async def main() -> None:
        records = assemble(load(config, {}, {}), None).records
        assert records is not None
        try:
            for _ in range(calls):
                call = allowed_by_a_person()
                await records.begin(call)
                await records.finish(call, OK)
        finally:
            await records.aclose()

    run(main())


def verified(folder: Path, *keys: str) -> LogReport:
    """The verdict on that log, where these keys are trusted."""
    with LogFile(folder / "accredit.db") as log:
        return log.verify(public_keys([folder / key for key in keys]))
