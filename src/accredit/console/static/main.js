// The page: which of its parts an address shows, what stands at its top, and what is announced.
//
// A part is { home, isHere(state), label(state), matches(path), title(state), show(main, path, state), update(state) }:
// to add one, write its module and name it in `parts`. `show` is called when the part is opened, `update` whenever the
// desk's state is another one; `isHere` says whether this desk has it.

import { asked } from "./asked.js";
import { calls } from "./calls.js";
import { follow, isSignedIn, send, signIn } from "./desk.js";
import { make, prose } from "./dom.js";
import { health } from "./health.js";
import { apps } from "./apps.js";
import { people } from "./people.js";

const parts = [asked, calls, people, apps, health];
const main = document.querySelector("main");
const CODE = /^\/a\/([0-9A-Za-z]{4}-?[0-9A-Za-z]{2})$/;
const waiting = (state) => state.asks ?? [];
const KEY = { open: "key without a passphrase", unlocked: "key unlocked", asking: "waiting for the passphrase", locked: "key locked" };

let open = null;
let known = null;

function showPart(state) {
  const here = parts.filter((each) => each.isHere(state));
  const part = here.find((each) => each.matches(location.pathname)) ?? here[0];
  if (part !== open) {
    open = part;
    main.replaceChildren();
    main.classList.remove("wide");
    part.show(main, location.pathname, state);
  }
  part.update(state);
  document.title = `${waiting(state).length ? `(${waiting(state).length}) ` : ""}${part.title(state)} – accredit desk`;
}

function showTop(state) {
  const links = parts.filter((each) => each.isHere(state)).map((part) => {
    const link = make("a", { href: part.home }, part.label(state));
    if (part === open) link.setAttribute("aria-current", "page");
    return link;
  });
  document.querySelector("nav").replaceChildren(...links);
  const key = document.getElementById("key");
  if (!state.person) return key.replaceChildren("read-only");
  const lock = make("button", { type: "button", className: "small", onclick: () => send("/api/lock", {}) }, "Lock");
  key.replaceChildren(`${state.person} · ${KEY[state.key]} `, ...(state.key === "unlocked" ? [lock] : []));
}

/** Say what is new to those who don't see it. Focus stays where it is. */
function announce(state) {
  const before = new Set(waiting(known ?? state).map((each) => each.code));
  const news = waiting(state).filter((each) => !before.has(each.code));
  if (news.length) {
    document.getElementById("news").textContent = news.map((each) => `${each.agent} asks for ${each.target}.`).join(" ");
  }
}

function onState(state) {
  document.body.classList.remove("lost");
  announce(state);
  known = state;
  showPart(state);
  showTop(state);
}

function signedOut(reason) {
  open = null;
  document.title = "Signed out – accredit desk";
  document.querySelector("nav").replaceChildren();
  document.getElementById("key").textContent = "";
  const code = CODE.exec(location.pathname)?.[1];
  main.replaceChildren(
    make("h1", {}, "This page is not signed in"),
    reason ? make("p", { className: "warn" }, prose(reason)) : "",
    make("p", {}, "In a terminal, ", make("code", {}, code ? `accredit desk open ${code}` : "accredit desk open"), code ? " opens this ask on a page that is." : " opens a page that is."),
    make("p", { className: "mute" }, "A page stays signed in for 12 hours, and until the desk ends."),
  );
}

function lost(isSignedOut) {
  if (isSignedOut) return signedOut("");
  document.body.classList.add("lost");
  document.getElementById("key").textContent = "The desk does not answer";
}

async function start() {
  try {
    await signIn();
  } catch (error) {
    if (!isSignedIn()) return signedOut(`${error.message}.`); // an old link takes nothing from a browser that is
  }
  if (!isSignedIn()) return signedOut("");
  await follow(onState, lost);
}

start();
