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
