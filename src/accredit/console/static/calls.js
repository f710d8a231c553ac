// "Calls": what the gateway's log says of calls, newest first. The filter is in the address, so that it can be kept and
// shared; more is read at the end of the list. A call's own page is its story.

import { ask as askDesk } from "./desk.js";
import { make, moment, prose } from "./dom.js";
import { chart } from "./chart.js";
import { showStory } from "./story.js";
import { save } from "./verify.js";

const STORY = /^\/calls\/([0-9a-f]+)$/;
const LIVE_MS = 2000;
const ASKED_MS = 70 * 60 * 1000; // how long after it was refused a call may come again: an ask can be kept open for an hour
const VERDICTS = { allow: "allowed", deny: "refused", challenge: "asked for a proof" };

let place = null;
let next = null;
let first = "";
let listed = [];
let decided = new Map(); // rows of calls that were decided, of which what came before is looked for, by what they call
let turn = 0;
let isLive = true;
let timer = null;

export const calls = {
  home: "/calls",
  isHere: (state) => state.calls === true,
  label: () => "Calls",
  matches: (path) => path === "/calls" || STORY.test(path),
  title: () => (STORY.test(location.pathname) ? "A call" : "Calls"),

  show(main, path) {
    main.classList.add("wide");
    const story = STORY.exec(path);
    if (story) return showStory(main, story[1]);
    place = shell();
    main.replaceChildren(...place.all);
    load(false);
    clearInterval(timer);
    timer = setInterval(() => isLive && location.pathname === "/calls" && document.visibilityState === "visible" && scrollY < 200 && look(), LIVE_MS);
  },

  update() {},
};

const where = () => {
  const log = new URLSearchParams(location.search).get("log");
  return log === null ? {} : { log };
};
const filter = () => new URLSearchParams(location.search).get("q") ?? "";

function shell() {
  const input = make("input", { type: "search", id: "filter", value: filter(), spellcheck: false, "aria-describedby": "words" });
  const live = make("button", { type: "button", className: "small", "aria-pressed": String(isLive) }, "Live");
  live.onclick = () => {
    isLive = !isLive;
    live.setAttribute("aria-pressed", String(isLive));
  };
  const lines = () => listed.map((each) => `${JSON.stringify(each)}\n`).join("");
  const saves = make("button", { type: "button", className: "small", onclick: () => save("calls.jsonl", lines()) }, "Save .jsonl");
  const go = (query) => {
    const text = String(new URLSearchParams(query));
    history.pushState(null, "", text ? `/calls?${text}` : "/calls");
    load(false);
  };
  const logs = make("select", { "aria-label": "Calls through", hidden: true });
  logs.onchange = () => go({ ...(input.value ? { q: input.value } : {}), log: logs.value });
  const form = make("form", { role: "search", className: "filter" }, make("label", { for: "filter" }, "Filter"), input, logs, make("button", { type: "submit", className: "small" }, "Show"), live, saves);
  form.onsubmit = (event) => {
    event.preventDefault();
    go({ ...(input.value ? { q: input.value } : {}), ...where() });
  };
  onpopstate = () => {
    if (location.pathname !== "/calls") return location.reload();
    input.value = filter();
    load(false);
  };
  const words = make("p", { className: "mute", id: "words" }, "For example ", make("code", {}, "tool:send_email agent:Assistant -outcome:ok after:1d"));
  const body = make("tbody");
  const heads = ["time", "agent", "tool", "decision", "allowed by", "outcome"].map((each) => make("th", { scope: "col" }, each));
  const table = make("table", {}, make("caption", { className: "unseen" }, "Calls, the newest first"), make("thead", {}, make("tr", {}, heads)), body);
  const more = make("button", { type: "button", onclick: () => load(true) }, "Show more");
  const told = make("p", { role: "status", className: "mute" });
  const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Calls" }, table);
  const rate = make("div");
  return { body, more, told, rate, logs, all: [make("h1", {}, "Calls"), form, words, rate, scroll, told, more] };
}

async function read(before) {
  const query = new URLSearchParams({ q: filter(), ...where(), ...(before === null ? {} : { before }) });
  return askDesk(`/api/calls?${query}`);
}

/** Show the first page, or what comes after the last one. Where few calls pass, the log is looked through further by
 * itself, until there is something to show. */
async function load(isMore) {
  const mine = ++turn;
  place.more.disabled = true;
  try {
    let before = isMore ? next : null;
    for (;;) {
      const found = await read(before);
      if (mine !== turn) return;
      if (!isMore && before === null) {
        place.body.replaceChildren();
        listed = [];
        decided = new Map();
        first = JSON.stringify(found.calls.slice(0, 3));
      }
      showLogs(found.logs);
      listed.push(...found.calls);
      place.body.append(...folded(found.calls));
      next = before = found.next;
      place.told.textContent = listed.length ? (found.checked ? "" : "Nothing of this is verified: this desk was given no key of the gateway's.") : next === null ? "No such calls." : `None since ${moment(found.since)} so far.`;
      if (found.calls.length || next === null) break;
    }
    place.more.hidden = next === null;
    if (!isMore) showRate();
  } catch (error) {
    place.body.replaceChildren();
    place.more.hidden = true;
    place.told.replaceChildren(...prose(`${error.message}.`));
  }
  place.more.disabled = false;
}

/** The gateways to choose from, where they have logs of their own. */
function showLogs(logs = []) {
  place.logs.hidden = logs.length === 0;
  place.logs.replaceChildren(...logs.map(([id, name]) => make("option", { value: id }, name)));
  place.logs.value = where().log ?? logs[0]?.[0] ?? "";
}

/** How many calls came in each minute, beside the list: the list does not wait for it. */
async function showRate() {
  const mine = turn;
  try {
    const found = await askDesk(`/api/calls/rate?${new URLSearchParams({ q: filter(), ...where() })}`);
    if (mine === turn) place.rate.replaceChildren(...chart(found));
  } catch {
    place.rate.replaceChildren();
  }
}

/** Look whether there is anything new at the top. What was unfolded or read further down stays as it is until then. */
async function look() {
  try {
    const found = await read(null);
    if (JSON.stringify(found.calls.slice(0, 3)) !== first) await load(false);
  } catch {
    // the header says that the desk is gone
  }
}

/** Rows. A call that was refused, asked for, and then allowed is one of them; so is one that was asked for a proof, and
 * then refused; so are refusals that are alike and stand together. What is folded stays in its place, and is hidden. */
function folded(found) {
  const rows = [];
  for (let at = 0; at < found.length; ) {
    const later = cameAgain(found[at]);
    if (later) {
      const step = row(found[at], [], true);
      later.fold(step);
      rows.push(step);
      at += 1;
      continue;
    }
    const same = alike(found, at);
    const hidden = found.slice(at + 1, at + same).map((each) => row(each));
    hidden.forEach((each) => (each.hidden = true));
    rows.push(row(found[at], hidden), ...hidden);
    at += same;
  }
  return rows;
}

function alike(found, at) {
  const key = (each) => JSON.stringify([each.decision, each.agent, each.target, each.error, each.signature]);
  let count = 1;
  while (found[at].decision === "deny" && at + count < found.length && key(found[at + count]) === key(found[at])) count += 1;
  return count;
}

const isGood = (each) => !each.signature.startsWith("BAD");
const sameCall = (each, decision = each.decision) => JSON.stringify([decision, each.target, each.server, each.params]);

/** The row of the call that this one came before: the same call, by the same agent as far as the log says, and soon
 * after. It was allowed or, if this one was asked for a proof, refused. */
function cameAgain(each) {
  if (each.decision === "allow" || !each.enforced || !isGood(each)) return null;
  const found = [decided.get(sameCall(each, "allow")), each.decision === "challenge" ? decided.get(sameCall(each, "deny")) : null];
  return found.find((later) => later && !isOther(each, later.each) && Date.parse(later.each.received) - Date.parse(each.received) <= ASKED_MS) ?? null;
}

const isOther = (each, later) => (each.agent_key && each.agent_key !== later.agent_key) || (each.session && later.session && each.session !== later.session);

/** The button that shows the steps before a call that was decided: there is none until one is found. */
function stepsBefore(each) {
  const steps = [];
  const button = make("button", { type: "button", className: "small", hidden: true });
  button.onclick = () => {
    steps.forEach((one) => (one.hidden = false));
    button.hidden = true;
  };
  const fold = (step) => {
    step.hidden = true;
    steps.push(step);
    button.hidden = false;
    button.textContent = `${steps.length === 1 ? "1 step" : `${steps.length} steps`} before it`;
  };
  decided.set(sameCall(each), { each, fold });
  return button;
}

function row(each, hidden = [], isStep = false) {
  const unfold = hidden.length ? make("button", { type: "button", className: "small" }, `${hidden.length} more like it`) : "";
  if (unfold) {
    unfold.onclick = () => {
      hidden.forEach((one) => (one.hidden = false));
      unfold.remove();
    };
  }
  const verdict = VERDICTS[each.decision] ?? each.decision;
  const isBad = each.signature.startsWith("BAD");
  const bad = isBad ? make("strong", {}, `${each.signature}. It says: `) : "";
  const decision = [bad, verdict, each.enforced ? "" : " (only observed)", each.error && each.decision !== "challenge" ? make("span", { className: "mute" }, ` ${each.error}`) : "", " ", unfold, each.decision !== "challenge" && !isStep && isGood(each) ? stepsBefore(each) : ""];
  const target = make("a", { href: `/calls/${each.call}` }, make("code", {}, each.target));
  return make(
    "tr",
    {},
    make("td", {}, moment(each.received)),
    make("td", {}, each.agent || "–"),
    make("td", {}, target, each.server ? make("span", { className: "mute" }, ` on ${each.server}`) : ""),
    make("td", { className: isBad || each.decision === "deny" ? "bad" : "" }, decision),
    make("td", { className: each.by_is_bad ? "bad" : "" }, each.by || "–"),
    make("td", {}, each.outcome || "–"),
  );
}
