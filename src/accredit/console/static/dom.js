// Building elements. Text is only ever text: no module of this page parses HTML, and the page's policy forbids it.

/** Make an element. `properties` are set as such; `data-`, `aria-`, `role` and `for` as attributes. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (/^(data-|aria-|role$|for$)/.test(name)) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** The rows of a list of terms: pairs of what is told and what it is. */
export function rows(pairs) {
  return make("dl", {}, pairs.flatMap(([term, detail]) => [make("dt", {}, term), make("dd", {}, detail)]));
}

/** A sentence of ours, in which our commands stand between backticks: they are shown as code. What others say stands in
 * quotation marks, which it can't end (`in_quotes`): nothing in them looks like a command of ours. */
export const prose = (text) =>
  text.split(/(“[^”]*”)|`(accredit [^`]+)`/).map((part, at) => (at % 3 === 2 && part ? make("code", {}, part) : (part ?? "")));

/** A text in which these names are shown as code. It stays the same text, but for backticks around our commands. */
export function withCode(text, names) {
  const [name, ...more] = names;
  const at = name ? text.lastIndexOf(name) : -1;
  if (at < 0) return more.length ? withCode(text, more) : [text];
  return [...withCode(text.slice(0, at), more), make("code", {}, name.replace(/^`(accredit [^`]+)`$/, "$1")), ...withCode(text.slice(at + name.length), more)];
}

/** A time of day, as this person writes it; with seconds where they matter. */
export function clock(seconds, precise = false) {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(precise ? { second: "2-digit" } : {}) };
  return new Date(seconds * 1000).toLocaleTimeString([], options);
}

/** A day and a time, from a record's RFC 3339. */
export const moment = (text) =>
  new Date(text).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** `1 call`, `2 calls`. */
export const several = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

/** When something ends: a day and how far it is away; `null` for what only its taking back ends. */
export function ends(at) {
  if (at === null) return "until it is taken back";
  const off = at - Date.now() / 1000;
  const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"]].find(([size]) => Math.abs(off) >= size) ?? [1, "second"];
  const far = several(Math.floor(Math.abs(off) / size), unit);
  return off < 0 ? `ended ${far} ago` : `ends in ${far}, ${moment(at * 1000)}`;
}

/** A table that scrolls by itself where it is too wide; its caption is for those who hear it. */
export function table(caption, heads, lines) {
  const head = make("tr", {}, heads.map((each) => make("th", { scope: "col" }, each)));
  const body = lines.map((cells) => make("tr", {}, cells.map((cell) => make("td", {}, cell))));
  const whole = make("table", {}, make("caption", { className: "unseen" }, caption), make("thead", {}, head), make("tbody", {}, body));
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption }, whole);
}
