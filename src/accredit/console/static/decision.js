// Deciding an ask. Deny comes first and has the focus; Allow works once the ask could be seen: everything unfolded, and
// the page visible for a moment, so that nobody allows what they were about to click on anyway.

import { ask as askDesk, send } from "./desk.js";
import { make, prose, rows } from "./dom.js";

const MOMENT_MS = 700;
const LENGTHS = [[600, "10 minutes"], [3600, "1 hour"], [86400, "a day"]];

/** The form with the choices, what will be signed, and the buttons. `done` is called after a decision. */
export function decision(found, fields, done) {
  const url = `/api/asks/${encodeURIComponent(found.code)}`;
  const offers = found.offers;
  const choices = offers.map((offer, at) => choice(offer, at === 0));
  const chosen = () => choices.find((each) => each.isChosen()) ?? null;
  const signs = make("div");
  const deny = make("button", { type: "button", "data-deny": "" }, "Deny");
  const allow = make("button", { type: "button", className: "yes", disabled: true, "data-allow": "" }, offers[0]?.button ?? "Allow");
  const keep = make("button", { type: "button", className: "small" }, "Keep open for an hour");
  const told = make("div", { role: "status" });
  let isSeen = false;
  let isBusy = false;
  let isDenying = false;

  const refresh = () => {
    allow.disabled = !offers.length || !isSeen || !fields.isSeen() || isBusy;
    keep.disabled = isBusy;
    deny.disabled = isDenying; // while it is being allowed, no is still no
    hint.hidden = fields.isSeen();
  };
  const hint = make("p", { className: "mute", id: "hint" }, "Allow works once everything above was unfolded.");
  allow.setAttribute("aria-describedby", "hint");
  fields.whenSeen(refresh);
  onceSeen(allow, () => {
    isSeen = true;
    refresh();
  });

  const decide = async (said) => {
    isBusy = true;
    isDenying = said.decision === "deny";
    refresh();
    told.replaceChildren();
    try {
      await send(url, { ask: found.ask, nonce: found.nonce, ...said });
      await done();
    } catch (error) {
      told.replaceChildren(make("p", { className: "warn" }, prose(`${error.message}.`)));
      told.scrollIntoView({ block: "nearest" });
    } finally {
      isBusy = isDenying = false;
      refresh();
    }
  };
  deny.onclick = () => decide({ decision: "deny" });
  keep.onclick = () => decide({ decision: "keep" });
  allow.onclick = () => decide({ decision: "allow", ...chosen().said() });

  const change = async () => {
    const one = chosen();
    if (!one) return;
    allow.textContent = one.offer.button;
    try {
      const query = new URLSearchParams(one.said());
      signs.replaceChildren(rows(one.isChanged() ? (await askDesk(`${url}/signs?${query}`)).signs : one.offer.signs));
      told.replaceChildren();
    } catch (error) {
      told.replaceChildren(make("p", { className: "warn" }, prose(`${error.message}.`)));
    }
  };
  choices.forEach((each) => (each.element.onchange = change));
  change();
  refresh();

  const what = offers.length
    ? [
        make("fieldset", { className: offers.length === 1 ? "only" : "" }, make("legend", {}, "Allow"), choices.map((each) => each.element)),
        make("details", {}, make("summary", {}, "What you will sign"), make("div", { className: "signs" }, signs)),
      ]
    : [make("p", { className: "warn" }, make("strong", {}, "Not here: "), prose(found.refused))];
  const form = make("form", { onsubmit: (event) => event.preventDefault() }, what, make("div", { "data-passphrase": "" }), told, hint);
  form.append(make("div", { className: "go" }, deny, offers.length ? allow : "", keep));
  return form;
}

/** Call `then` once an element has been on a visible page for a moment, without a break. */
export function onceSeen(element, then) {
  let since = null;
  const look = () => {
    const isVisible = document.visibilityState === "visible" && element.isConnected;
    if (!isVisible) since = null;
    else since ??= performance.now();
    if (since !== null && performance.now() - since >= MOMENT_MS) return then();
    setTimeout(look, 50);
  };
  look();
}

function choice(offer, isFirst) {
  const radio = make("input", { type: "radio", name: "offer", checked: isFirst });
  const isOnce = offer.key === "once";
  const calls = make("input", { type: "number", min: 1, max: offer.most_calls, value: offer.calls, "aria-label": "at most, calls" });
  const length = make("select", { "aria-label": "for how long" }, LENGTHS.map(([seconds, text]) =>
    make("option", { value: seconds, selected: seconds === offer.seconds }, text)));
  calls.onfocus = length.onfocus = () => {
    radio.checked = true;
  };
  const label = make("label", {}, radio, ` ${offer.words}`);
  const bounds = isOnce ? "" : make("span", { className: "bounds" }, "at most ", calls, " calls, for ", length);
  const numbers = () => ({ calls: Number(calls.value) || 1, seconds: Number(length.value) });
  return {
    offer,
    element: make("div", { className: "choice" }, label, bounds),
    isChosen: () => radio.checked,
    isChanged: () => !isOnce && (numbers().calls !== offer.calls || numbers().seconds !== offer.seconds),
    said: () => ({ offer: offer.key, ...(isOnce ? {} : numbers()) }),
  };
}
