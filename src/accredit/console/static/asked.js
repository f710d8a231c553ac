// "Asked": who waits for an answer, and one ask with everything that is to be known before it is answered.

import { decision } from "./decision.js";
import { ask as askDesk } from "./desk.js";
import { clock, ends, make, moment, prose, rows, several, withCode } from "./dom.js";
import { shownFields } from "./fields.js";

const LOOK_MS = 2000;
const CODE = /^\/a\/([0-9A-Za-z-]+)$/;
const OVER = {
  allowed: "This call was allowed.",
  denied: "This call was denied.",
  expired: "This ask has expired. Nothing was signed.",
  withdrawn: "Nobody waits for this any more. Nothing was signed.",
};

let place = null;
let code = "";
let shown = null;

export const asked = {
  home: "/",
  isHere: (state) => state.asks !== undefined,
  label: (state) => `Asked (${state.asks.length})`,
  matches: (path) => path === "/" || CODE.test(path),
  title: () => (shown ? `Asked: ${shown.target}` : "Asked"),

  show(main, path) {
    place = { one: make("div"), others: make("section", { "aria-label": "Others who ask" }) };
    code = CODE.exec(path)?.[1] ?? "";
    shown = null;
    main.replaceChildren(place.one, place.others);
    if (code) showOne();
  },

  update(state) {
    place.others.replaceChildren(...others(state));
    if (shown && shown.state === "pending" && !state.asks.some((each) => each.code === shown.code)) showOne();
    const notice = place.one.querySelector("[data-passphrase]");
    const before = notice?.textContent;
    notice?.replaceChildren(...passphrase(state));
    if (notice?.textContent && notice.textContent !== before) notice.scrollIntoView({ block: "nearest" });
  },
};

export const passphrase = (state) =>
  state.key !== "asking" ? [] : [make("p", { className: "warn" }, state.wrong ? make("strong", {}, "That was not the passphrase. ") : "", prose(`${state.wrong ? "Type it again" : "Type your passphrase"} ${state.place}.`))];

function others(state) {
  const list = state.asks.filter((each) => each.code !== shown?.code && each.code !== code.toUpperCase());
  const unseen = state.unseen ? [make("p", { className: "mute" }, `${several(state.unseen, "more ask")} of agents that you don't know were turned away.`)] : [];
  if (code && !list.length) return unseen;
  const heading = code ? make("h2", {}, "Waiting too") : make("h1", {}, "Asked");
  if (!list.length) return [heading, make("p", { className: "mute" }, "Nobody is asking."), ...unseen];
  return [heading, make("ol", { className: "asks" }, list.map(listed)), ...unseen];
}

function listed(each) {
  const more = each.unseen ? `, keeps asking (${each.unseen} more)` : "";
  return make(
    "li",
    {},
    make("a", { href: `/a/${each.code}` }, each.agent, " asks for ", make("code", {}, each.target)),
    make("span", { className: "mute" }, ` ${each.code} · asked ${clock(each.asked_at, true)} · waits until ${clock(each.until)}${more}`),
  );
}

async function showOne() {
  try {
    const found = await askDesk(`/api/asks/${encodeURIComponent(code)}`);
    const wasPending = shown?.state === "pending";
    shown = found;
    place.one.replaceChildren(...(found.state === "pending" ? pending(found) : over(found, wasPending)));
    if (found.state === "pending") place.one.querySelector("[data-deny]").focus({ preventScroll: true });
    document.title = document.title.replace(/Asked(?!:)/, `Asked: ${found.target}`);
  } catch (error) {
    place.one.replaceChildren(make("h1", {}, "There is no such ask"), make("p", {}, prose(`${error.message}.`)));
  }
}

const heading = (found) =>
  make(
    "h1",
    {},
    found.agent_is_named ? found.agent : `An agent that calls itself “${found.agent}”`,
    ` asks to ${found.verb} `,
    make("code", {}, found.target),
    found.gateway_is_named ? ` on “${found.gateway}”` : "",
  );

/** What the headline has no room for: where the gateway is and, where two lines cut it off, the whole name. */
function below(found, headline) {
  const whole = make("p", { hidden: true }, make("span", { className: "mute" }, "in full: "), make("code", {}, found.target));
  new ResizeObserver(() => (whole.hidden = headline.scrollHeight <= headline.clientHeight + 2)).observe(headline);
  return [whole, found.gateway_is_named ? "" : make("p", { className: "mute" }, `on the gateway at ${found.gateway}`)];
}

function over(found, wasPending) {
  const text = make("p", { className: "over", role: "status", tabIndex: -1 }, OVER[found.state]);
  if (wasPending) queueMicrotask(() => text.focus({ preventScroll: true }));
  const all = make("p", {}, make("a", { href: "/" }, "All who ask"));
  const headline = heading(found);
  return [headline, ...below(found, headline), make("p", { className: "mute" }, `Code ${found.code}`), text, found.use ? used(found) : "", all].filter(Boolean);
}

/** Whether what was allowed was used. While it was not, the page looks again. */
function used(found) {
  const place = make("div", { role: "status" }, use(found.use));
  const look = async () => {
    if (!place.isConnected || found.use.used !== false || isOver(found.use)) return;
    if (document.visibilityState === "visible") {
      const now = await askDesk(`/api/asks/${encodeURIComponent(found.code)}`).catch(() => null);
      if (now?.use && (now.use.used !== false || isOver(now.use))) place.replaceChildren(...use(now.use));
      found = now?.use ? now : found;
    }
    setTimeout(look, LOOK_MS);
  };
  setTimeout(look, LOOK_MS);
  return place;
}

const isOver = (one) => one.ends * 1000 < Date.now();

function use(one) {
  const takes = isOver(one) ? "" : [" ", make("a", { href: `/people/${one.handle}#take` }, "Take back…")];
  if (one.used) return [make("p", {}, "Used: ", make("a", { href: `/calls/${one.call}` }, `the call of ${moment(one.received)}`), one.checked ? "." : ", as the log says: this desk was given no key of the gateway's to verify it with.", one.once ? "" : takes)];
  if (one.used === null) return [make("p", { className: "mute" }, prose(`Whether it was used is not known here: ${one.problem}.`), takes)];
  if (isOver(one)) return [make("p", {}, "It was never used, and has ended.")];
  return [make("p", { className: "warn" }, make("strong", {}, "Allowed, not used yet: "), `the gateway has had no call with it. It ${ends(one.ends)}.`, takes)];
}

function pending(found) {
  const headline = heading(found);
  const fields = shownFields(found.fields);
  const warnings = found.warnings.map((each) => make("p", { className: "warn" }, make("strong", {}, each.lead), " ", withCode(each.text, each.code)));
  const who = found.who.map((each) => [each.label, [...withCode(each.text, each.code), each.note ? make("span", { className: "mute" }, ` (${each.note})`) : ""]]);
  const says = found.server_says
    ? [make("h2", {}, "What the server says of this tool – nobody has checked it"), make("div", { className: "server" }, make("p", {}, found.server_says))]
    : [];
  return [
    headline,
    ...below(found, headline),
    make("p", { className: "mute" }, `Code `, make("strong", { className: "code" }, found.code), ` · asked ${clock(found.asked_at, true)} · waits until ${clock(found.until)}`),
    make("p", { className: "mute" }, "If your assistant shows a code, it has to be this one."),
    make("h2", { id: "arguments" }, "With exactly these arguments"),
    make("div", { className: "args", role: "group", "aria-labelledby": "arguments" }, fields.element),
    ...warnings,
    make("h2", {}, "Who asks"),
    rows(who),
    ...says,
    decision(found, fields, showOne),
  ];
}
