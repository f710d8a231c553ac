"""What people see of the front door: plain HTML without script, in the desk's colours. No I/O.

- [escaped] Whatever a client says of itself is escaped, quoted, and shown with its hidden characters.
- [no-script] A page loads nothing, runs no script, is in no frame, and sends its form to the gateway alone, which
  redirects to the client (`form-action`).
- [not-kept] No page is kept by a cache, and its URL is shown to no other site.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from accredit.consent.asks import Ask
from accredit.consent.shown import in_quotes
from accredit.gateway.front.door.requests import Wanted
from accredit.gateway.headers import RawHeaders
from accredit.oauth.uris import form_action, is_any_programs, redirect_host

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1b1f24; --mute: #565d66; --line: #8a929c; --hair: #dde1e6;
 --act: #0b57a4; --on-act: #fff; --warn: #6f4400; --warn-ground: #fff6e3; --warn-edge: #d9a441; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --text: #e8eaed; --mute: #aab2bb; --line: #6f7883;
 --hair: #2e343a; --act: #8cc2ff; --on-act: #0b1622; --warn: #ffd58a; --warn-ground: #2a2213; --warn-edge: #b98a36; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
header { border-bottom: 1px solid var(--line); padding: 12px 24px; font-weight: 600; }
main { max-width: 640px; margin: 24px auto; padding: 0 24px; }
h1 { font-size: 26px; line-height: 1.3; margin: 0 0 6px; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 28px 0 0; color: var(--mute); }
p, dd { overflow-wrap: anywhere; }
code { font: 14px/1.5 ui-monospace, monospace; }
bdi, strong { unicode-bidi: isolate; }
dl { display: grid; grid-template-columns: minmax(0, max-content) minmax(0, 1fr); gap: 4px 20px; margin: 12px 0; }
dt { color: var(--mute); }
dd { margin: 0; }
.code { font: 600 32px/1.3 ui-monospace, monospace; letter-spacing: .06em; margin: 12px 0; padding: 12px 16px;
 border: 2px solid var(--text); border-radius: 6px; width: fit-content; }
.warn { background: var(--warn-ground); color: var(--warn); padding: 8px 16px;
 border-left: 3px solid var(--warn-edge); }
.go { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0 0; padding: 14px 0 0;
 border-top: 1px solid var(--hair); }
label { display: block; font-weight: 600; margin: 16px 0 4px; }
input { font: 20px/1.4 ui-monospace, monospace; color: inherit; background: var(--ground); width: 9em; max-width: 100%;
 border: 1px solid var(--line); border-radius: 6px; padding: 6px 10px; min-height: 44px; letter-spacing: .2em; }
fieldset { border: 1px solid var(--hair); border-radius: 8px; margin: 16px 0 0; padding: 4px 16px 12px; min-width: 0; }
.tick { display: flex; gap: 12px; align-items: flex-start; font-weight: 400; margin: 8px 0 0; overflow-wrap: anywhere; }
.tick input { flex: none; width: 24px; min-height: 24px; height: 24px; margin: 0; }
.tick span { min-width: 0; }
small { color: var(--mute); }
button { font: inherit; font-weight: 600; min-height: 44px; padding: 8px 24px; border-radius: 8px;
 border: 2px solid var(--act); background: var(--ground); color: var(--act); cursor: pointer; }
a { color: var(--act); }
button.yes { background: var(--act); color: var(--on-act); }
:focus-visible { outline: 3px solid var(--act); outline-offset: 3px; }
@media (max-width: 480px) { header, main { padding-left: 16px; padding-right: 16px; } h1 { font-size: 22px; }
 dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin-bottom: 8px; } .go button { flex: 1; } }
"""
_STYLE_HASH = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


class Page(NamedTuple):
    """A page. `answers_to` is where its form may lead besides the gateway: a source expression, or ""."""

    title: str
    body: str
    status: int = 200
    answers_to: str = ""

    def html(self) -> bytes:
        """Return the page's text."""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
            f"<body>\n<header>accredit</header>\n<main>\n<h1>{escape(self.title)}</h1>\n{self.body}\n</main>\n</body>\n</html>\n"
        ).encode()

    def headers(self) -> RawHeaders:
        """Return the page's headers ([no-script] and [not-kept])."""
        policy = (
            f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none';"
            f" form-action 'self'{' ' + self.answers_to if self.answers_to else ''}"
        )
        return [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", policy.encode("ascii")),
            (b"cache-control", b"no-store"),
            (b"referrer-policy", b"same-origin"),
            (b"x-content-type-options", b"nosniff"),
        ]


def begin_page(wanted: Wanted, flow: str, action: str) -> Page:
    """Return the first page: who asks, for what. Nothing is asked of anybody before *Continue*."""
    body = (
        f"{_about(wanted)}"
        "<p>Nothing is allowed here. If you continue, you get a code to type at your desk, and decide there.</p>"
        f"{_form(action, flow, '', (('begin', 'Continue', True), ('cancel', 'Cancel', False)))}"
    )
    return Page(_title(wanted), body, answers_to=form_action(wanted.request.redirect_uri))


def code_page(wanted: Wanted, flow: str, action: str, code: str, note: str = "") -> Page:
    """Return the page with the code for the desk, and a field for the digits that the desk shows then. `note` says why
    the page is shown again."""
    digits = (
        '<label for="digits">The six digits that your desk shows after your yes</label>'
        '<input id="digits" name="digits" inputmode="numeric" autocomplete="one-time-code" maxlength="6"'
        ' pattern="[0-9]{6}">'
    )
    body = (
        f"{_note(note)}<p>At your desk, open <strong>Connect an app</strong>, or run"
        " <code>accredit connect-app</code>, and type this code:</p>"
        f'<p class="code">{escape(code)}</p>'
        "<p>Type it only if you began this yourself, in this browser. Your desk says who asks and for what.</p>"
        f"{_form(action, flow, digits, (('confirm', 'Connect', True), ('cancel', 'Cancel', False)))}"
        f"<h2>Who asks, and for what</h2>{_about(wanted)}"
    )
    return Page(_title(wanted), body, answers_to=form_action(wanted.request.redirect_uri))


def tick_page(
    wanted: Wanted,
    flow: str,
    action: str,
    ticks: Iterable[tuple[str, Sequence[str], bool]],
    person: str,
    notes: Iterable[str] = (),
) -> Page:
    """Return the page where a person who has logged in ticks what an app may do. Each tick box stands for a scope, with
    its tools, and says whether it is ticked already. `person` is what their identity provider calls them, or ""."""
    rows = "".join(
        f'<label class="tick"><input type="checkbox" name="{escape(f"scope {scope}")}" value="yes"'
        f"{' checked' if is_ticked else ''}> <span>{_list(tools)} <small>({escape(in_quotes(scope))})</small></span>"
        "</label>"
        for scope, tools, is_ticked in ticks
    )
    who = f"<p>You are logged in as “<bdi>{escape(in_quotes(person))}</bdi>”.</p>" if person else ""
    body = (
        f"{''.join(map(_note, notes))}{who}{_about(wanted, with_tools=False)}"
        "<p>Go on only if you began this yourself, in that app. You let it act for you until you take that back.</p>"
    )
    fields = f"<fieldset><legend>It may call these tools</legend>{rows}</fieldset>"
    buttons = (("cancel", "Cancel", False), ("allow", "Allow", True))
    body += _form(action, flow, fields, buttons)
    return Page(_title(wanted), body, answers_to=form_action(wanted.request.redirect_uri))


def asked_page(ask: Ask) -> Page:
    """Return the page about a call that waits for a person's answer. It grants nothing, and shows no arguments: others
    could guess its address."""
    called = f"“{in_quotes(ask.agent.name)}”"
    rows = [("Calls itself", called), ("Wants to call", in_quotes(ask.target)), ("At", in_quotes(ask.gateway.url))]
    listed = "".join(f"<dt>{name}</dt><dd><bdi>{escape(value)}</bdi></dd>" for name, value in rows)
    body = (
        f'<dl>{listed}</dl><p class="code">{escape(ask.code)}</p>'
        "<p>Nothing can be allowed here. Your desk shows the whole call under this code, and takes your answer:"
        f" open it, or run <code>accredit approve {escape(ask.code)}</code>.</p>"
    )
    return Page("A call waits for your answer", body)


def ended_page(title: str, why: str, status: int = 400) -> Page:
    """Return a final page, which leads nowhere."""
    return Page(title, f"<p>{escape(why)}</p>\n<p>You can close this page.</p>", status)


def wrong_page(why: str, location: str) -> Page:
    """Return the page about an erroneous request. `location` is the URL that tells the client so."""
    body = (
        f"<p>The app's request is wrong: {escape(why)}.</p>\n<p>Nothing was allowed. If you began this, tell the app at"
        f' <a href="{escape(location)}"><bdi>{escape(redirect_host(location))}</bdi></a>; else close this page.</p>'
    )
    return Page("This request can't be answered", body, 400)


def _title(wanted: Wanted) -> str:
    return f"“{in_quotes(wanted.client.name)}” asks to act for you"


def _about(wanted: Wanted, *, with_tools: bool = True) -> str:
    client, request = wanted.client, wanted.request
    host = client.host or "unknown: it registered here under a name of its own choice"
    rows = [
        ("Calls itself", f"“{in_quotes(client.name)}”"),
        ("Published by", host),
        ("Answer goes to", redirect_host(request.redirect_uri)),
        ("Wants to use", request.resource),
    ]
    listed = "".join(f"<dt>{escape(name)}</dt><dd><bdi>{escape(value)}</bdi></dd>" for name, value in rows)
    tools = f"<dt>Tools</dt><dd>{_list(wanted.tools)}</dd>" if with_tools else ""
    local = "Any program on your computer can claim this name." if is_any_programs(request.redirect_uri) else ""
    return f"<dl>{listed}{tools}</dl>{_note(local)}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"<bdi>{escape(in_quotes(name))}</bdi>" for name in names) or "none that are named here"


def _note(text: str) -> str:
    return f'<p class="warn" role="status">{escape(text)}</p>' if text else ""


def _form(action: str, flow: str, fields: str, buttons: Iterable[tuple[str, str, bool]]) -> str:
    shown = "".join(
        f'<button name="do" value="{name}"{" class=yes" if is_main else ""}>{escape(label)}</button>'
        for name, label, is_main in buttons
    )
    return (
        f'<form method="post" action="{escape(action)}"><input type="hidden" name="flow" value="{escape(flow)}">'
        f'{fields}<div class="go">{shown}</div></form>'
    )
