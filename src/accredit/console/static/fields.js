// The values of a call: all of them, as text. What is long is folded, and counts as seen once it was unfolded.

import { make, several } from "./dom.js";

const SHOWN = 1000; // characters, lines and values that show at once, as `MAX_UNFOLDED_CHARS` and the like have them
const LINES = 20;
const VALUES = 100;
const INDENTED = 4; // the sheet sets values in up to this level

/** { element, isSeen(), whenSeen(call) }: the values, and whether all of them were unfolded. */
export function shownFields(fields) {
  let folds = 0;
  const waiting = [];
  const fold = (label, unfold) => {
    folds += 1;
    const button = make("button", { type: "button", className: "small" }, label);
    button.onclick = () => {
      unfold(button);
      folds -= 1;
      if (!folds) waiting.forEach((call) => call());
    };
    return button;
  };
  const list = make("dl", {}, fields.slice(0, VALUES).flatMap((each, at) => row(each, fields[at + 1], fold)));
  const rest = fields.slice(VALUES);
  if (rest.length) {
    const more = make("div", {}, fold(`Show all: ${several(rest.length, "more value")}`, (button) => {
      list.append(...rest.flatMap((each, at) => row(each, rest[at + 1], null)));
      button.remove();
    }));
    return result(make("div", {}, list, more));
  }
  return result(fields.length ? list : make("p", { className: "mute" }, "No arguments"));

  function result(element) {
    return { element, isSeen: () => folds === 0, whenSeen: (call) => waiting.push(call) };
  }
}

function row(each, next, fold) {
  const level = String(Math.min(each.level, INDENTED + 1));
  const marks = each.marks.map((mark) => make("p", { className: "mark" }, mark));
  const detail = make("dd", { className: "mono", "data-level": level }, value(each, next, fold), marks);
  const deep = each.level > INDENTED ? `⟨level ${each.level}⟩ ` : ""; // no name holds these brackets
  return [make("dt", { "data-level": level }, deep, each.label), detail];
}

function value(each, next, fold) {
  const note = (text) => make("span", { className: "mute" }, `⟨${text}⟩`); // no text holds these brackets
  if (each.kind === "list" || each.kind === "object") return note(next && next.level > each.level ? each.kind : `empty ${each.kind}`);
  const text = each.lines.join("\n");
  if (each.kind === "text" && !text) return note("empty text");
  if (each.kind !== "text") return [make("span", { className: "value" }, text), " ", note(each.kind)];
  if (!each.folded || fold === null) return make("div", {}, lines(each.lines));
  const first = make("div", {}, lines(`${each.lines.slice(0, LINES).join("\n").slice(0, SHOWN)} …`.split("\n")));
  const button = fold(`Show all ${several(each.chars, "character")}`, (pressed) => {
    first.replaceChildren(...lines(each.lines));
    pressed.remove();
  });
  return [first, make("div", {}, button)];
}

/** One element for each line: where a long one is wrapped, what follows is set in, so that it can't pass for a line. */
const lines = (texts) => texts.map((text) => make("span", { className: texts.length > 1 ? "value line" : "value" }, text));
