// "Health": how gateways say that they are, how far the log is vouched for, and the revocation lists.

import { ask as askDesk } from "./desk.js";
import { make, moment, prose, rows, several, table } from "./dom.js";

const CLOCK_SECONDS = 2; // a certificate or a proof may be refused for less than what is more
const LIVE_MS = 10000;

let timer = null;

export const health = {
  home: "/health",
  isHere: (state) => state.health === true,
  label: () => "Health",
  matches: (path) => path === "/health",
  title: () => "Health",

  show(main) {
    main.classList.add("wide");
    const gateways = make("div", {}, make("p", { className: "mute" }, "Asking …"));
    const log = make("div", {});
    const lists = make("div", {});
    main.replaceChildren(make("h1", {}, "Health"), make("h2", {}, "Gateways"), gateways, make("h2", {}, "Log"), log, make("h2", {}, "Revocation lists"), lists);
    const look = () => {
      fill(gateways, "/api/health/gateways", (found) => found.gateways.map(gateway).concat(found.gateways.length ? [] : [none()], found.more ? [make("p", { className: "mute" }, `And ${several(found.more, "more gateway")}, which this desk does not ask.`)] : []));
      fill(log, "/api/health", (found) => {
        lists.replaceChildren(...revocations(found));
        return logged(found);
      });
    };
    look();
    clearInterval(timer);
    timer = setInterval(() => location.pathname === "/health" && document.visibilityState === "visible" && !main.contains(document.activeElement) && look(), LIVE_MS);
  },

  update() {},
};

async function fill(element, path, build) {
  try {
    element.replaceChildren(...build(await askDesk(path)));
  } catch (error) {
    element.replaceChildren(make("p", { className: "bad" }, prose(`${error.message}.`)));
  }
}

const none = () =>
  make("p", { className: "mute" }, "None is known. A gateway is known here once ", make("code", {}, "accredit up"), " has made it, an agent of yours has met it (", make("code", {}, "known_gateways.json"), " in the desk's folder), or ", make("code", {}, "--config"), " names it.");

function gateway(each) {
  const bad = Object.entries(each.parts).filter(([, value]) => !value).map(([name]) => name);
  const good = Object.entries(each.parts).filter(([, value]) => value).map(([name]) => name);
  const status = each.status ? make("span", { className: each.status === "ok" ? "good" : "bad" }, each.status) : make("span", { className: "bad" }, each.problem);
  const facts = [["says", status]];
  if (good.length) facts.push(["in order", good.join(", ")]);
  if (bad.length) facts.push(["not in order", make("span", { className: "bad" }, bad.join(", "))]);
  if (each.has_list !== null) facts.push(["revocation list", each.has_list ? make("span", { className: "good" }, "goes by one that this desk sees") : make("span", { className: "bad" }, "goes by none that this desk sees")]);
  if (each.clock_ahead !== null) facts.push(["clock", clock(each.clock_ahead)]);
  if (each.ids.some(Boolean)) facts.push(["id", make("code", {}, each.ids.join(", "))]);
  const note = each.counts ? "" : make("p", { className: "mark" }, "It answers in the clear: anybody on the way may have said this.");
  return make("section", { className: "card", "aria-label": `Gateway ${each.name || each.address}` }, make("h3", {}, each.name || each.address, each.name ? make("span", { className: "mute" }, ` ${each.address}`) : ""), rows(facts), note);
}

function clock(ahead) {
  const off = Math.abs(ahead);
  if (off < CLOCK_SECONDS) return "as this machine's";
  return make("span", { className: "bad" }, `${off.toFixed(0)} s ${ahead > 0 ? "ahead of" : "behind"} this machine's`);
}

function logged(found) {
  const log = found.log;
  if (found.problem) return [make("p", { className: "bad" }, prose(`${found.problem}.`))];
  if (!log) return [make("p", { className: "mute" }, "This desk knows no gateway's log. Name one: ", make("code", {}, "accredit desk --config accredit.toml"), ", or ", make("code", {}, "store"), " in ", make("code", {}, "desk.toml"), ".")];
  const vouched = !log.writers.some((each) => each.signature) ? "no checkpoint yet" : !found.checked ? "not checked: this desk was given no key of the gateway's" : log.writers.some((each) => each.signature.startsWith("BAD")) ? make("span", { className: "bad" }, "a checkpoint's signature is BAD") : make("span", { className: "good" }, "checkpoints are signed by the gateway");
  const facts = [
    ["entries", log.entries.toLocaleString("en")],
    ["newest", log.newest ? moment(log.newest) : "none"],
    ["growth", log.a_day === null ? "unknown yet" : `some ${log.a_day.toLocaleString("en")} records a day, by the newest ${log.by.toLocaleString("en")}`],
  ];
  if (log.bytes !== undefined) facts.push(["file", `${(log.bytes / 1048576).toFixed(1)} MiB`]);
  if (log.observed)
    facts.push(["proofs", "only observed: no call is refused for want of authority"]);
  facts.push(["signatures", vouched], ["after the last checkpoint", several(log.uncounted, "record")]);
  const told = make("p", { role: "status" });
  const verify = make("button", { type: "button", className: "small" }, "Verify the whole log");
  verify.onclick = () => verified(verify, told);
  const writers = log.writers.map((each) => [make("code", {}, each.writer), each.records.toLocaleString("en"), each.counted.toLocaleString("en"), each.at ? moment(each.at) : "–", make("span", { className: each.signature === "good" ? "good" : each.signature.startsWith("BAD") ? "bad" : "mute" }, each.signature || "–")]);
  const list = writers.length ? make("details", {}, make("summary", {}, `${several(log.writers.length + log.writers_more, "writer")}`), table("Writers of the log", ["writer", "records", "counted by a checkpoint", "of", "signature"], writers), log.writers_more ? make("p", { className: "mute" }, `And ${log.writers_more} more.`) : "") : "";
  const how = make("p", { className: "mute" }, "Without this page: ", make("code", {}, `accredit log verify ${log.words}`.trim()));
  return [rows(facts), list, found.checked ? make("p", {}, verify) : "", told, how].filter(Boolean);
}

async function verified(button, told) {
  button.disabled = true;
  told.className = "mute";
  told.textContent = "Verifying …";
  try {
    const found = await askDesk("/api/health/verify");
    told.className = found.valid ? "good" : "bad";
    told.textContent = found.valid ? `${several(found.records, "record")} verify, as of ${moment(found.at)}.` : `BAD: ${found.fault}. Read until then, in chains that are good so far: ${several(found.records, "record")}.`;
  } catch (error) {
    told.textContent = `${error.message}.`;
  }
  button.disabled = false;
}

function revocations(found) {
  if (!found.lists.length) return [make("p", { className: "mute" }, "No list is here yet: nothing was taken back at this desk. What was taken back elsewhere is not known here.")];
  return found.lists.map((each) =>
    make("section", { className: "card", "aria-label": `List of ${each.issuer}` }, rows([
      ["of", each.issuer || "–"],
      ["in", make("code", {}, each.where)],
      ["as of", each.updated_at ? `${moment(each.updated_at * 1000)} (${age(found.now - each.updated_at)})` : "–"],
      ["takes back", several(each.count, "certificate")],
      ["signature", each.fault ? make("span", { className: "bad" }, each.fault) : make("span", { className: "good" }, "good")],
    ])));
}

function age(seconds) {
  if (seconds < 0) return "later than this machine's clock";
  const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"]].find(([size]) => seconds >= size) ?? [1, "second"];
  return `${several(Math.floor(seconds / size), unit)} ago`;
}
