// A call's story: what was decided, on whose word, and what each record of the log says.

import { ask as askDesk } from "./desk.js";
import { make, moment, prose, rows, table } from "./dom.js";
import { save, verified } from "./verify.js";

const SHORT = 12; // characters of an id, by which commands find it
const VERDICTS = { allow: "allowed", deny: "refused", challenge: "asked for a proof" };

export async function showStory(main, call) {
  try {
    const found = await askDesk(`/api/calls/${call}`);
    for (const each of found.records) each.here = await verified(each.envelope, found.keys);
    main.replaceChildren(...story(main, found));
    document.title = `${found.target}, ${moment(found.received)} – accredit desk`;
  } catch (error) {
    main.replaceChildren(make("h1", {}, "There is nothing to tell"), make("p", {}, prose(`${error.message}.`)), back());
  }
}

const back = () => make("p", {}, make("a", { href: "/calls" }, "All calls"));

function story(main, found) {
  const verdict = VERDICTS[found.decision] ?? found.decision;
  const ended = found.outcome ? `, ${found.outcome}` : "";
  const bundle = async () => save(`${found.call}.json`, (await askDesk(`/api/calls/${found.call}/bundle`)).bundle);
  const saves = make("button", { type: "button", onclick: bundle }, "Save bundle");
  const again = make("button", { type: "button", onclick: () => showStory(main, found.call) }, "Verify again");
  const facts = [["decision", `${verdict}${found.enforced ? "" : " (only observed)"}`]];
  if (found.error) facts.push(["because", [found.error, found.reason ? make("span", { className: "mute" }, ` (${found.reason})`) : ""]]);
  if (found.agent) facts.push(["agent", found.agent], ["on the word of", found.principal]);
  if (found.server) facts.push(["server", found.server]);
  return [
    make("h1", {}, make("code", {}, found.target), " ", make("span", { className: found.decision === "deny" ? "bad" : "good" }, `${verdict}${ended}`)),
    make("p", { className: "mute" }, `call ${found.call.slice(0, SHORT)}… · ${moment(found.received)} · ${found.method}`),
    found.checked && !found.good ? make("p", { className: "bad" }, "No record of this call verifies: somebody else than the gateway may have written this.") : "",
    rows(facts),
    ...(found.proved ? proved(found.proved) : []),
    make("h2", {}, "On whose word"),
    found.chain.length ? chain(found.chain) : make("p", { className: "mute" }, "The log holds no certificates of this call."),
    make("h2", {}, "Told by the log"),
    records(found.records),
    found.checked ? "" : make("p", { className: "mute" }, "Signatures are not checked: this desk was given no key of the gateway's."),
    make("p", { className: "buttons" }, found.checked ? again : "", saves),
    make("p", { className: "mute" }, "Without this page: ", make("code", {}, `accredit log show ${found.call.slice(0, SHORT)} ${found.words || "--key GATEWAY.pub"}`)),
    back(),
  ];
}

/** What the record proves by itself: in one sentence, and on what each part of that rests. */
const proved = (found) => [
  make("h2", {}, "What this proves"),
  make("p", { id: "proved" }, found.sentence),
  rows(found.parts.map(([name, says, verified]) => [
    name,
    make("span", { className: verified ? "good" : verified === false ? "bad" : "mute" }, says),
  ])),
  found.unanswered ? make("p", { className: "mute" }, `Not answered by the record: ${found.unanswered}`) : "",
  make("p", { className: "mute" }, "Whether it was taken back before, and what came of it, is the gateway’s word."),
];

const chain = (links) =>
  table("Chain of certificates, the human first", ["who", "lets", "do", "if", "until", "certificate"], links.map((each) => [
    each.who,
    each.lets,
    make("code", {}, each.scopes),
    each.constraints || "–",
    moment(each.until),
    make("code", {}, `${each.certificate.slice(0, 8)}…`),
  ]));

const records = (found) =>
  table("Records, in order", ["time", "record", "says", "signature"], found.map((each) => [
    moment(each.at),
    each.place,
    each.says,
    verdict(each),
  ]));

/** The verdict on a record: this browser's own, else the desk's. Where one of them says that it is bad, it is. */
function verdict(each) {
  const isBad = each.here === "BAD" || each.signature.startsWith("BAD");
  if (isBad) return make("span", { className: "bad" }, each.signature.startsWith("BAD") ? each.signature : "BAD");
  if (each.signature !== "good") return make("span", { className: "mute" }, each.signature);
  return [make("span", { className: "good" }, "good"), make("span", { className: "mute" }, each.here ? " (verified here)" : " (by the desk)")];
}
