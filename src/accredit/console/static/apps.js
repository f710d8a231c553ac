// "Connect an app": finds an app by the code that its gateway's page shows, and lets it in. No app comes here by itself:
// whoever has begun with it may be a stranger.

import { passphrase } from "./asked.js";
import { onceSeen } from "./decision.js";
import { send } from "./desk.js";
import { ends, make, prose, rows } from "./dom.js";

let place = null;

export const apps = {
  home: "/apps",
  isHere: (state) => state.apps === true,
  label: () => "Connect an app",
  matches: (path) => path === "/apps",
  title: () => "Connect an app",

  show(main) {
    place = { waits: make("div", {}), told: make("div", { role: "status" }) };
    main.replaceChildren(make("h1", {}, "Connect an app"), ...finding(main), place.waits, place.told);
  },

  update(state) {
    place.waits.replaceChildren(...passphrase(state));
  },
};

const warn = (error) => place.told.replaceChildren(make("p", { className: "warn" }, prose(`${error.message}.`)));

const warning = () =>
  make("p", { className: "warn" }, make("strong", {}, "Never take a code from anybody else. "), "Whoever has begun that page would act for you.");

function finding(main) {
  const input = make("input", { id: "code", autocomplete: "off", spellcheck: false, required: true, maxLength: 16 });
  const button = make("button", { type: "submit", className: "small" }, "Find");
  const form = make("form", { className: "filter" }, make("label", { for: "code" }, "Code"), input, button);
  form.onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    place.told.replaceChildren(make("p", { className: "mute" }, "Asking the gateways …"));
    try {
      const found = await send("/api/apps", { code: input.value });
      place.told.replaceChildren();
      main.replaceChildren(...asking(main, found));
      main.querySelector("[data-deny]").focus({ preventScroll: true });
    } catch (error) {
      warn(error);
    }
    button.disabled = false;
  };
  return [make("p", {}, "The page to which the app has sent your browser shows a code. Type it here."), warning(), form];
}

function asking(main, found) {
  const deny = make("button", { type: "button", "data-deny": "" }, "Deny");
  const allow = make("button", { type: "button", className: "yes", disabled: true, "data-allow": "" }, "Let it in");
  const decide = async (decision, then) => {
    deny.disabled = allow.disabled = true;
    place.told.replaceChildren();
    try {
      main.replaceChildren(...then(await send(`/api/apps/${found.code}`, { ask: found.ask, nonce: found.nonce, decision })));
      main.querySelector(".over").focus({ preventScroll: true });
    } catch (error) {
      warn(error);
      deny.disabled = allow.disabled = false;
    }
  };
  deny.onclick = () => decide("deny", () => over("It was not let in. Nothing was signed."));
  allow.onclick = () => decide("allow", (done) => over("Let in. Type these digits into the page that shows ", make("span", { className: "code" }, found.code), ": ", make("strong", { className: "code", "data-digits": "" }, done.digits), ". ", make("a", { href: "/people" }, "Who may what"), " takes it back."));
  onceSeen(allow, () => (allow.disabled = false));
  return [
    make("h1", {}, "An app asks to act for you"),
    make("p", { className: "mute" }, `Code ${found.code}`),
    rows([...found.facts, ["ends", ends(found.until)]]),
    warning(),
    place.waits,
    place.told,
    make("div", { className: "go" }, deny, allow),
  ];
}

const over = (...text) => [
  make("h1", {}, "Connect an app"),
  make("p", { className: "over", role: "status", tabIndex: -1 }, ...text),
  make("p", {}, make("a", { href: "/apps" }, "Another app")),
];
