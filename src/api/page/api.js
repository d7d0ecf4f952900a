// Asking the API: with the token, if one was entered; page by page; and its stream of events.

// One tab, one token: it is gone with the tab, and never in an address.
const KEPT = "bizrq.access";
let access = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");

/** Who asks: a token, and a group that narrows what it shows; `null` for nobody. */
export const who = () => access;

export function enter(token, group) {
  access = { token, group };
  sessionStorage.setItem(KEPT, JSON.stringify(access));
}

export function forget() {
  access = null;
  sessionStorage.removeItem(KEPT);
}

/** What the API answered instead: its words, and its status; 0 if it did not answer. */
export class Problem extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }

  /** Whether another token could help. */
  get asksWho() {
    return this.status === 401 || this.status === 403;
  }
}

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

async function send(path, headers, signal) {
  const asked = { ...headers };
  if (access) asked.authorization = `Bearer ${access.token}`;
  if (access?.group) asked["bizrq-group"] = access.group;
  try {
    return await fetch(path, { headers: asked, signal, cache: "no-cache" });
  } catch (why) {
    if (signal?.aborted) throw why;
    throw new Problem(0, "The server does not answer.");
  }
}

async function problem(response) {
  const body = await response.json().catch(() => ({}));
  return new Problem(response.status, body.detail ?? response.statusText);
}

/** The answer under `path`. Where the API says "come again", that is done, and `waiting` is told its words. */
export async function ask(path, { signal, waiting } = {}) {
  for (let tries = 0; ; tries++) {
    const response = await send(path, {}, signal);
    if (response.ok) return response.json();
    const why = await problem(response);
    if (response.status !== 503 || tries >= 60) throw why;
    waiting?.(why.message);
    await pause(1000 * Number(response.headers.get("retry-after") ?? 1));
    signal?.throwIfAborted();
  }
}

/** All pages of a list. */
export async function askAll(path, list, options) {
  let page = await ask(path, options);
  const all = [...page[list]];
  while (page.next) {
    page = await ask(`${path}${path.includes("?") ? "&" : "?"}page=${page.next}`, options);
    all.push(...page[list]);
  }
  return { ...page, [list]: all };
}

/**
 * Tells `each` every event under `path` with its id, and goes on behind the last one when a connection ends.
 * `told` hears how it stands. Throws what another token could help against.
 */
export async function follow(path, { each, told, signal }) {
  let last = null;
  for (;;) {
    try {
      const response = await send(path, last === null ? {} : { "last-event-id": last }, signal);
      if (!response.ok) throw await problem(response);
      told("live");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const events = (rest + part.value).split("\n\n");
        rest = events.pop();
        for (const event of events.map(parsed).filter(({ data }) => data !== "")) {
          if (event.id !== null) last = event.id;
          if (event.name === "end") told(event.data);
          else each(event);
        }
      }
    } catch (why) {
      signal.throwIfAborted();
      if (why.asksWho) throw why;
    }
    told("connecting …");
    await pause(1000);
    signal.throwIfAborted();
  }
}

/** One event of a stream, of its lines `field: value`. */
function parsed(text) {
  const event = { id: null, name: "message", data: [] };
  for (const line of text.split("\n")) {
    const [, field, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (field === "data") event.data.push(value);
    else if (field === "id") event.id = value;
    else if (field === "event") event.name = value;
  }
  return { ...event, data: event.data.join("\n") };
}
