// "Who may what": the tree of delegations, as far as the desk knows it; what is looked for is in the address. A
// delegation's own page says what ends with it, and takes it back.

import { Refused, ask as askDesk, send } from "./desk.js";
import { ends, make, moment, prose, rows, several } from "./dom.js";

const ONE = /^\/people\/([0-9a-f]{32})$/;
const STATES = { early: "not yet", ended: "ended", "taken back": "taken back" };
const SOURCES = { log: "the log of the gateway", journal: "signed at this desk", file: "a file in the desk's folder" };

let place = null;
let next = null;
let wish = 0; // the number of the latest load: an answer to an earlier one comes too late

export const people = {
  home: "/people",
  isHere: (state) => state.people === true,
  label: () => "Who may what",
  matches: (path) => path === "/people" || ONE.test(path),
  title: () => (ONE.test(location.pathname) ? "A delegation" : "Who may what"),

  show(main, path, state) {
    const one = ONE.exec(path);
    if (one) return showOne(main, one[1]);
    place = shell(state);
    main.replaceChildren(...place.all);
    load(false);
  },

  update(state) {
    const waits = document.getElementById("waits");
    if (waits) waits.replaceChildren(...(state.key === "asking" ? prose(`${state.wrong ? "That was not the passphrase. " : ""}Waiting for your passphrase ${state.place}.`) : [waits.dataset.text]));
  },
};

const wanted = () => new URLSearchParams(location.search);

function shell() {
  const input = make("input", { type: "search", id: "filter", value: wanted().get("q") ?? "", spellcheck: false });
  const over = make("button", { type: "button", className: "small", "aria-pressed": String(wanted().get("all") === "1") }, "Also what is over");
  const go = (q, all) => {
    const query = new URLSearchParams({ ...(q ? { q } : {}), ...(all ? { all: "1" } : {}) });
    history.pushState(null, "", query.size ? `/people?${query}` : "/people");
    load(false);
  };
  over.onclick = () => {
    const all = over.getAttribute("aria-pressed") !== "true";
    over.setAttribute("aria-pressed", String(all));
    go(input.value, all);
  };
  const form = make("form", { role: "search", className: "filter" }, make("label", { for: "filter" }, "Find"), input, make("button", { type: "submit", className: "small" }, "Show"), over);
  form.onsubmit = (event) => {
    event.preventDefault();
    go(input.value, over.getAttribute("aria-pressed") === "true");
  };
  onpopstate = () => location.reload();
  const list = make("ul", { className: "tree" });
  const told = make("p", { role: "status", className: "mute" });
  const notes = make("div", {});
  const more = make("button", { type: "button", hidden: true, onclick: () => load(true) }, "Show more");
  return { list, told, notes, more, all: [make("h1", {}, "Who may what"), form, list, told, more, notes] };
}

async function load(isMore) {
  const query = new URLSearchParams(wanted());
  const mine = ++wish;
  if (isMore) query.set("from", next);
  try {
    const found = await askDesk(`/api/people?${query}`);
    if (mine !== wish) return;
    const items = found.rows.map((each) => (each.level ? item(each, found) : person(each)));
    if (!isMore) place.list.replaceChildren();
    place.list.append(...items);
    if (isMore) items[0]?.querySelector("a")?.focus();
    next = found.next;
    place.more.hidden = next === null;
    place.told.textContent = told(found, query);
    place.notes.replaceChildren(...unknown(found));
  } catch (error) {
    if (mine !== wish) return;
    place.list.replaceChildren();
    place.more.hidden = true;
    place.told.textContent = `${error.message}.`;
  }
}

function told(found, query) {
  if (!found.all) return "Nobody may anything, as far as this desk knows.";
  const known = place.list.children.length ? `${several(found.all, "delegation")} known` : "Nothing is found";
  if (query.get("all") === "1" || !found.over) return `${known}.`;
  return `${known}; ${found.over.toLocaleString("en")} that ended or ${found.over === 1 ? "was" : "were"} taken back ${found.over === 1 ? "is" : "are"} not shown.`;
}

/** What this desk can't know: said on every page of it. */
function unknown(found) {
  const counted = found.counted_whole ? "Calls are all those of the log" : `Calls are those of the newest ${found.counted.toLocaleString("en")} entries of the log`;
  return [
    make("h2", {}, "What is not here"),
    make("p", { className: "mute" }, "A delegation that was signed elsewhere and never used at this gateway is unknown to this desk, and so is one whose records were pruned. ", counted, ", which is not verified for that: a call's own page says whether it verifies."),
    found.problem ? make("p", { className: "warn" }, `${found.problem}.`) : "",
    found.odd ? make("p", { className: "warn" }, `The log holds ${several(found.odd, "chain")} that no gateway can have taken: somebody else has written there.`) : "",
    found.whole ? "" : make("p", { className: "warn" }, "The log holds more chains of delegations than are read: not all are here."),
    ...found.lists.map((each) => make("p", { className: "warn" }, "A revocation list does not count here: ", each)),
  ].filter(Boolean);
}

const person = (each) =>
  make("li", { className: "person", "aria-level": "1" }, make("strong", {}, each.who), each.you ? " (you)" : each.key ? make("span", { className: "mute" }, ` ${each.key}`) : "", make("span", { className: "mute" }, " lets"));

const level = (each) => String(Math.min(each.level, 8));

function item(each, found) {
  const link = make("a", { href: `/people/${each.handle}` }, each.who);
  const take = each.yours ? make("a", { href: `/people/${each.handle}#take`, className: "take" }, "Take back…", make("span", { className: "unseen" }, ` from ${each.who}: ${each.may}`)) : "";
  return make("li", { "data-depth": level(each), "aria-level": String(each.level + 1), className: each.state === "now" ? "" : "over-now" },
    make("div", { className: "line-1" }, link, state(each), take),
    make("div", {}, may(each)),
    make("div", { className: "mute facts" }, until(each), used(each, found), each.more ? `${several(each.more, "more delegation")} below it` : ""),
  );
}

const state = (each) => (STATES[each.state] ? make("span", { className: "tag" }, STATES[each.state]) : "");

function may(each) {
  const what = each.for ? [make("code", {}, each.for), " ", make("span", { className: "mute" }, `(${each.may})`)] : make("code", {}, each.may);
  return [what, each.only ? make("span", { className: "mute" }, ` ${each.only}`) : ""].flat();
}

const until = (each) => make("span", {}, each.state === "taken back" ? "taken back" : ends(each.ends));

function used(each, found) {
  if (!found.counted) return make("span", {}, "uses unknown");
  const least = found.counted_whole ? "" : " lately";
  return make("span", {}, each.calls ? `${several(each.calls, "call")}${least}, the last ${moment(each.last)}` : `no call at this gateway${least}`);
}

async function showOne(main, handle) {
  try {
    const found = await askDesk(`/api/people/${handle}`);
    main.replaceChildren(...one(found, handle));
    if (location.hash === "#take") document.getElementById("take")?.scrollIntoView({ block: "nearest" });
    document.title = `${found.who}: a delegation – accredit desk`;
  } catch (error) {
    main.replaceChildren(make("h1", {}, "There is no such delegation"), make("p", {}, `${error.message}.`), back());
  }
}

const back = () => make("p", {}, make("a", { href: "/people" }, "Who may what"));

function one(found, handle) {
  const facts = [
    ["may", make("code", {}, found.may)],
    ["only", found.only ? [found.only, found.only_whole ? make("details", {}, make("summary", {}, "with whole digests"), make("p", { className: "mute" }, found.only_whole)) : ""] : "no further condition"],
    ["from", [found.by, " ", make("span", { className: "mute" }, found.by_key)]],
    ["to", [found.who, " ", make("span", { className: "mute" }, found.key)]],
    ["on the word of", found.person],
    ["signed", moment(found.issued * 1000)],
    ["ends", [ends(found.ends), " ", state(found)]],
    ["used", used(found, found)],
    ["known from", found.from.map((each) => SOURCES[each]).join(", ")],
    ["signatures", signature(found)],
    ["certificate", make("code", {}, found.cert)],
  ];
  if (found.for) facts.splice(0, 0, ["asked for", make("code", {}, found.for)]);
  const under = found.under.length ? [make("h2", {}, "Passed on"), make("ul", { className: "tree" }, found.under.map((each) => item(each, found))), more(found.under_more)] : [];
  return [
    make("h1", {}, `What ${found.by} lets ${found.who} do`),
    rows(facts),
    ...under,
    ...takeBack(found, handle),
    ...unknown(found),
    back(),
  ];
}

function signature(found) {
  if (found.signature === "good") return make("span", { className: "good" }, "good, from here up to the person");
  if (found.signature) return make("span", { className: "bad" }, `${found.signature}. Nobody can use it: somebody has put it here.`);
  return make("span", { className: "mute" }, "not checked: the certificate itself is not here");
}

const more = (count) => (count ? make("p", { className: "mute" }, `And ${several(count, "more")}.`) : "");

function takeBack(found, handle) {
  if (found.why_not === "read-only") return [];
  const head = make("h2", {}, "Take back");
  if (found.why_not) return [head, make("p", {}, prose(found.why_not))];
  const words = found.missing.length && found.state === "taken back" ? `It is taken back, but not in ${found.missing.join(" and ")} yet. Take it back there as well:` : found.ends_with.length > 1 ? `This ends ${several(found.ends_with.length + found.ends_with_more, "delegation")}, at once and for good:` : "This ends, at once and for good:";
  const button = make("button", { type: "button", className: "yes danger", "data-take": "" }, `Take back from ${found.who}`);
  const waits = make("p", { id: "waits", role: "status", "data-text": "" });
  const section = make("section", { className: "ending", id: "take", "aria-label": "Take back" },
    make("p", {}, words), ending(found.ends_with), more(found.ends_with_more),
    found.same_id > 1 ? make("p", { className: "mark" }, "Several certificates have this id. All of them end.") : "",
    found.others ? make("p", { className: "mark" }, `${found.who} holds ${several(found.others, "other delegation")}, which ${found.others === 1 ? "does" : "do"} not end by this.`) : "",
    make("p", { className: "mute" }, `Your signed revocation list in ${found.places.join(" and ")} gets its id${found.elsewhere.length ? `, and ${found.elsewhere.join(" and ")} ${found.elsewhere.length === 1 ? "is" : "are"} told` : ""}. What runs already is not stopped.`, ...without(found)),
    button, waits,
  );
  button.onclick = () => take(found, handle, button, waits, section);
  return [head, section];
}

const ending = (list) => make("ul", {}, list.map((each) => make("li", {}, make("strong", {}, each.who), " ", may(each))));

/** The command that does the same: only for an id that no shell reads as anything else. */
const without = (found) => (found.typed ? [" Without this page: ", make("code", {}, `accredit revoke ${found.typed} --issuer KEY`)] : [" Its id is none that accredit gives: don't type it."]);

async function take(found, handle, button, waits, section) {
  button.disabled = true;
  waits.dataset.text = waits.textContent = "Signing, writing, and asking the gateways …";
  try {
    const done = await send(`/api/people/${handle}`, { nonce: found.nonce });
    waits.dataset.text = waits.textContent = "";
    const known = new Set(found.ends_with.map((each) => each.handle));
    const news = found.ends_with_more ? [] : done.ends_with.filter((each) => !known.has(each.handle));
    const told = make("div", { className: "over", role: "status", tabIndex: -1 },
      make("p", { className: done.everywhere ? "" : "bad" }, done.everywhere ? `Taken back from ${found.who}.` : `Taken back from ${found.who}, but NOT everywhere: open this page again to go on.`),
      done.told.map((each) => make("p", { className: "plain" }, each)),
      ...(news.length ? [make("p", { className: "plain mark" }, "These have ended as well, which this page had not shown:"), ending(news)] : []));
    section.replaceWith(told);
    told.focus();
  } catch (error) {
    // Without an answer of the desk's own nobody knows: it may have ended after the list was written.
    const isKnown = error instanceof Refused && error.error;
    waits.dataset.text = waits.textContent = isKnown ? `Nothing was done: ${error.message}` : "The desk has not answered: whether it is taken back is not known. Open this page again to see.";
    button.disabled = !isKnown;
  }
}
