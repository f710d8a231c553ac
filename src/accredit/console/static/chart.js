// Calls a minute in the last hour: a line for those who see it, and a table for everybody.

import { make, several } from "./dom.js";

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 40;

function draw(tag, attributes) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

export function chart({ minutes, until, whole }) {
  const total = minutes.reduce((sum, each) => sum + each, 0);
  if (!total) return [];
  const most = Math.max(...minutes);
  const end = new Date(until).getTime();
  const at = (place) => new Date(end - (minutes.length - 1 - place) * 60000);
  const text = `${several(total, "call")} in the last hour${whole ? "" : ", counted in part"}, at most ${most.toLocaleString("en")} a minute, by the log, which is not verified for this`;
  const points = minutes.map((each, place) => `${(place / (minutes.length - 1)) * WIDTH},${HEIGHT - 2 - (each / most) * (HEIGHT - 4)}`);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": text, preserveAspectRatio: "none" });
  svg.append(draw("polyline", { points: points.join(" ") }));
  const lines = minutes.flatMap((each, place) => (each ? [make("tr", {}, make("td", {}, time(at(place))), make("td", {}, String(each)))] : []));
  const heads = make("tr", {}, make("th", { scope: "col" }, "minute"), make("th", { scope: "col" }, "calls"));
  const table = make("table", {}, make("thead", {}, heads), make("tbody", {}, lines));
  return [svg, make("details", {}, make("summary", {}, text), table)];
}

const time = (date) => date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
