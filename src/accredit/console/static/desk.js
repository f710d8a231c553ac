// The desk behind the page: signing in, asking it, and being told of changes. The bearer is in localStorage, which
// each port has for itself; a cookie would go to every port of this machine.

const BEARER = "accredit-desk-bearer";
const RETRY_MS = 1000;

/** What the desk said no to: `error` is a word, `reason` a sentence. */
export class Refused extends Error {
  constructor(status, said) {
    super(said.reason || said.error || `status ${status}`);
    this.status = status;
    this.error = said.error;
  }
}

export const isSignedIn = () => localStorage.getItem(BEARER) !== null;

/** Use the link by which the page was opened, if it was opened by one; it is gone from the address at once. */
export async function signIn() {
  const link = /^#k=(.+)$/.exec(location.hash);
  if (!link) return;
  history.replaceState(null, "", location.pathname);
  localStorage.setItem(BEARER, (await send("/api/login", { key: link[1] })).bearer);
}

const authorized = () => ({ authorization: `Bearer ${localStorage.getItem(BEARER)}` });

/** Ask the desk for something. */
export const ask = (path) => request(path, { headers: authorized() });

/** Tell the desk to do something. */
export const send = (path, said) =>
  request(path, {
    method: "POST",
    headers: { ...authorized(), "content-type": "application/json" },
    body: JSON.stringify(said),
  });

async function request(path, options) {
  const answer = await fetch(path, { ...options, credentials: "omit", cache: "no-store", redirect: "error" });
  const said = await answer.json();
  if (answer.status === 401) localStorage.removeItem(BEARER);
  if (!answer.ok) throw new Refused(answer.status, said);
  return said;
}

/** Call `onState` with the desk's state, again at each change, while the page is visible; `onLost` when it is gone. */
export async function follow(onState, onLost) {
  let last = "";
  for (;;) {
    await visible();
    const stop = new AbortController();
    const hide = () => document.visibilityState === "hidden" && stop.abort();
    document.addEventListener("visibilitychange", hide);
    try {
      const headers = { ...authorized(), ...(last ? { "last-event-id": last } : {}) };
      const options = { headers, signal: stop.signal, credentials: "omit", cache: "no-store" };
      const answer = await fetch("/api/events", options);
      if (answer.status === 401) {
        localStorage.removeItem(BEARER);
        return onLost(true);
      }
      for await (const event of events(answer.body)) {
        last = event.id;
        onState(JSON.parse(event.data));
      }
    } catch {
      // hidden, or the desk has ended: below
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
    if (!stop.signal.aborted) {
      onLost(!isSignedIn());
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

function visible() {
  return new Promise((resolve) => {
    const look = () => {
      if (document.visibilityState === "hidden") return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const found = /^id: (\d+)\ndata: (.*)$/s.exec(part);
      if (found) yield { id: found[1], data: found[2] };
    }
  }
}
