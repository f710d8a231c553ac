// "Calls": what the gateway's log says of calls, newest first. The filter is in the address, so that it can be kept and
// shared; more is read at the end of the list. A call's own page is its story.

import { ask as askDesk } from "./desk.js";
import { make, moment } from "./dom.js";
import { chart } from "./chart.js";
import { showStory } from "./story.js";
import { save } from "./verify.js";

const STORY = /^\/calls\/([0-9a-f]+)$/;
const LIVE_MS = 2000;
const VERDICTS = { allow: "allowed", deny: "refused", challenge: "asked for a proof" };

let place = null;
let next = null;
let first = "";
let listed = [];
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
  const form = make("form", { role: "search", className: "filter" }, make("label", { for: "filter" }, "Filter"), input, make("button", { type: "submit", className: "small" }, "Show"), live, saves);
  form.onsubmit = (event) => {
    event.preventDefault();
    history.pushState(null, "", input.value ? `/calls?${new URLSearchParams({ q: input.value })}` : "/calls");
    load(false);
  };
  onpopstate = () => {
    if (location.pathname !== "/calls") return location.reload();
    input.value = filter();
    load(false);
  };
  const words = make("p", { className: "mute", id: "words" }, "For example ", make("code", {}, "tool:send_email agent:Assistant -outcome:ok after:1d"));
  const body = make("tbody");
  const heads = ["time", "agent", "tool", "decision", "outcome"].map((each) => make("th", { scope: "col" }, each));
  const table = make("table", {}, make("caption", { className: "unseen" }, "Calls, the newest first"), make("thead", {}, make("tr", {}, heads)), body);
  const more = make("button", { type: "button", onclick: () => load(true) }, "Show more");
  const told = make("p", { role: "status", className: "mute" });
  const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Calls" }, table);
  const rate = make("div");
  return { body, more, told, rate, all: [make("h1", {}, "Calls"), form, words, rate, scroll, told, more] };
}

async function read(before) {
  const query = new URLSearchParams({ q: filter(), ...(before === null ? {} : { before }) });
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
        first = JSON.stringify(found.calls.slice(0, 3));
      }
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
    place.told.textContent = `${error.message}.`;
  }
  place.more.disabled = false;
}

/** How many calls came in each minute, beside the list: the list does not wait for it. */
async function showRate() {
  const mine = turn;
  try {
    const found = await askDesk(`/api/calls/rate?${new URLSearchParams({ q: filter() })}`);
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

/** Rows, of which refusals that are alike and stand together are folded into one. */
function folded(found) {
  const rows = [];
  for (let at = 0; at < found.length; ) {
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

function row(each, hidden = []) {
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
  const decision = [bad, verdict, each.enforced ? "" : " (only observed)", each.error ? make("span", { className: "mute" }, ` ${each.error}`) : "", " ", unfold];
  const target = make("a", { href: `/calls/${each.call}` }, make("code", {}, each.target));
  return make(
    "tr",
    {},
    make("td", {}, moment(each.received)),
    make("td", {}, each.agent || "–"),
    make("td", {}, target, each.server ? make("span", { className: "mute" }, ` on ${each.server}`) : ""),
    make("td", { className: isBad || each.decision === "deny" ? "bad" : "" }, decision),
    make("td", {}, each.outcome || "–"),
  );
}
