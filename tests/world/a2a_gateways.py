"""The real command in front of an agent that speaks A2A: its files, and a delegation. I/O: files, processes."""

from pathlib import Path

from tests.world.command import accredit

SCOPES = ("agent:ask", "email:read", "email:send")


def write_a2a_gateway(folder: Path, port: int, path: str = "/") -> Path:
    """The files of a gateway in front of the agent at a port, with keys and a delegation of the owner's."""
    for name, kind in (("owner", "human"), ("agent", "agent"), ("gateway", "gateway")):
        bare = ["--no-passphrase"] if kind == "human" else []
        made = accredit("keys", "new", f"{name}.key", "--kind", kind, "--name", name.title(), *bare, folder=folder)
        assert made.returncode == 0, made.stderr
    file = folder / "accredit.toml"
    file.write_text(
        '[gateway]\nid = "mail-gateway"\n[store]\nurl = "sqlite:///accredit.db"\n'
        '[proofs]\nmode = "required"\n[[proofs.roots]]\nname = "Owner"\npublic_key_file = "owner.key.pub"\n'
        '[attest]\nmode = "record"\nkey_file = "gateway.key"\n'
        f'[servers.helper]\nprotocol = "a2a"\nurl = "http://127.0.0.1:{port}{path}"\npath = "/agents/helper"\n'
        'scope = "agent:ask"\n[servers.helper.skills.summarize]\nscope = "email:read"\n'
        '[servers.helper.skills.wipe]\nscope = "email:send"\nsensitive = true\n'
    )
    wanted = [argument for scope in SCOPES for argument in ("--scope", scope)]
    signed = accredit(
        *("grant", "--issuer", "owner.key", "--agent", "agent.key.pub", "--config", "accredit.toml"),
        *(*wanted, "--expires", "1d", "--out", "delegation.json"),
        folder=folder,
    )
    assert signed.returncode == 0, signed.stderr
    return file
