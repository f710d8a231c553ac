// Verifying a record in the browser: DSSE's Ed25519 signature, over the bytes that are shown. The desk is not asked.

const TYPE = "application/vnd.in-toto+json";

const bytesOf = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

/** What is signed for a payload (DSSE's PAE). */
function signedBytes(payload) {
  const head = new TextEncoder().encode(`DSSEv1 ${TYPE.length} ${TYPE} ${payload.length} `);
  const whole = new Uint8Array(head.length + payload.length);
  whole.set(head);
  whole.set(payload, head.length);
  return whole;
}

/** "good", "BAD", or "" where this browser can't tell: another kind of key, or no Ed25519. */
export async function verified(envelope, keys) {
  const { payload, payloadType, signatures } = JSON.parse(envelope);
  const key = keys[signatures[0].keyid];
  if (!key) return "";
  if (payloadType !== TYPE || signatures.length !== 1) return "BAD";
  try {
    const known = await crypto.subtle.importKey("raw", bytesOf(key), "Ed25519", false, ["verify"]);
    const isGood = await crypto.subtle.verify("Ed25519", known, bytesOf(signatures[0].sig), signedBytes(bytesOf(payload)));
    return isGood ? "good" : "BAD";
  } catch {
    return "";
  }
}

/** Have the browser save a text as a file. */
export function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
