// The page over the API: what is looked at, and what is read when.

import * as api from "./page/api.js";
import * as feed from "./page/feed.js";
import * as group from "./page/group.js";
import * as past from "./page/past.js";
import * as tree from "./page/tree.js";
import { $, DAY, el, minute } from "./page/text.js";

// What is shown: the tree of now and of the instant that is looked at, and the name of the chosen group.
const state = { now: null, tree: null, chosen: null };
/** The last reading; the one before it ends when another begins. */
let reading = new AbortController();
let listening = new AbortController();

/** What the address says is looked at: a group, and an instant if it is not now. */
function asked() {
  const words = new URLSearchParams(location.hash.slice(1));
  const at = Date.parse(words.get("at") ?? "");
  return { group: words.get("group"), at: Number.isNaN(at) ? null : at };
}

function look({ group: name, at }) {
  const words = new URLSearchParams();
  if (name !== null) words.set("group", name);
  if (at !== null) words.set("at", new Date(at).toISOString());
  if (`#${words}` === location.hash) read();
  else location.hash = words;
}

/** Reads and shows what the address says. */
async function read() {
  reading.abort();
  reading = new AbortController();
  const { signal } = reading;
  const began = performance.now();
  $("group").setAttribute("aria-busy", "true");
  try {
    await show(asked(), { signal });
    if (signal.aborted) return;
    $("group").setAttribute("aria-busy", "false");
    pace = Math.max(2000, 10 * (performance.now() - began));
  } catch (why) {
    if (!signal.aborted) failed(why);
  }
}

async function show({ group: name, at }, { signal }) {
  const waiting = (words) => { $("past-state").textContent = words; };
  const now = await api.askAll("/v1/quotas", "groups", { signal });
  const then = at === null ? now : await api.askAll(`/v1/state?at=${new Date(at).toISOString()}`, "groups", { signal, waiting });
  enter();
  state.now = now;
  state.tree = then;
  const end = Date.parse(now.at);
  const first = now.groups.reduce((first, { opened }) => Math.min(first, Date.parse(opened ?? "") || Infinity), Infinity);
  const since = first < Infinity ? first : end - 30 * DAY;
  past.bounds(since, end, at);
  $("as-of").textContent = `${minute(now.at)} UTC, position ${now.position}`;
  $("past-state").textContent = at === null ? "" : `As it stood then, by the records up to position ${then.position}.`;
  document.body.classList.toggle("past", at !== null);
  const cash = ({ keys }) => keys.some((row) => row.key.startsWith("cash/"));
  const chosen = name ?? (now.groups.find(cash) ?? now.groups[0])?.group ?? null;
  state.chosen = chosen;
  tree.draw(then.groups, chosen);
  if (chosen === null) return told("There is no group yet.");
  const shown = then.groups.find((one) => one.group === chosen);
  if (!shown) return told(at === null ? `No group that is shown to you is called ${chosen}.` : `${chosen} was not there then.`);
  const options = { at: Date.parse(then.at), past: at !== null, since, parents: above(then.groups, shown) };
  const all = await group.read(shown, options, { signal });
  if (!signal.aborted) group.draw(all);
}

/** The names above a group, the nearest first. */
function above(groups, one) {
  const names = [];
  for (let at = one.parent; at !== null && !names.includes(at); at = groups.find((up) => up.group === at)?.parent ?? null) names.push(at);
  return names;
}

function told(words, kind = "quiet") {
  $("group").replaceChildren(el("p", { class: kind }, words));
}

// Who asks.

/** Lets in who may see: the page in place of the question for a token. */
function enter() {
  $("door").hidden = true;
  $("house").hidden = false;
  const who = api.who();
  $("who").hidden = who === null;
  $("whom").textContent = who?.group ? `with a token, of ${who.group}` : "with a token";
}

/** Another token could help: asks for one; anything else is told in place of the group. */
function failed(why) {
  $("group").setAttribute("aria-busy", "false");
  if (!why.asksWho) {
    if ($("house").hidden) $("as-of").textContent = why.message;
    else told(why.message, "bad");
    return;
  }
  const had = api.who();
  leave();
  $("door-why").textContent = had ? rejected(why, had) : "";
  if (had) $("only").value = had.group;
  $(why.status === 403 ? "only" : "token").focus();
}

const rejected = (why, had) => (why.status === 401 ? "This token is not known here." : why.message.replace("in the header Bizrq-Group", had.group ? "" : "below"));

/** Nothing of what was shown stays. */
function leave() {
  listening.abort();
  reading.abort();
  api.forget();
  $("house").hidden = true;
  $("who").hidden = true;
  $("door").hidden = false;
  $("as-of").textContent = "";
  for (const part of ["tree", "group", "feed"]) $(part).replaceChildren();
}

async function begin() {
  listening.abort();
  listening = new AbortController();
  const { signal } = listening;
  await read();
  if (signal.aborted) return;
  const heard = (position) => { if (position > (state.now?.position ?? Infinity)) soon(); };
  feed.listen({ signal, heard, again: soon }).catch((why) => { if (!signal.aborted && api.who()) failed(why); });
}

let timer = null;
/** So many milliseconds lie between two readings. */
let pace = 2000;
/** Numbers follow the log, at most once in two seconds, and so that no more than a tenth of the time goes into reading. */
function soon() {
  timer ??= setTimeout(() => {
    timer = null;
    if (asked().at === null && $("door").hidden) read();
  }, pace);
}

$("door-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const [token, only] = [$("token").value.trim(), $("only").value.trim()];
  if (!/^[\x20-\x7e]*$/.test(token + only)) {
    $("door-why").textContent = "A token and a group’s name are sent as they are, so they have ASCII letters only.";
    return;
  }
  $("door-why").textContent = "";
  $("token").value = "";
  api.enter(token, only);
  begin();
});
$("forget").addEventListener("click", () => {
  leave();
  $("door-why").textContent = "";
  $("only").value = "";
  history.replaceState(null, "", location.pathname);
  $("token").focus();
});

tree.listen((name) => look({ ...asked(), group: name }));
past.listen((at) => look({ group: asked().group ?? state.chosen, at }));
addEventListener("hashchange", read);
let width = innerWidth;
addEventListener("resize", () => {
  if (width !== innerWidth && !$("house").hidden) read();
  width = innerWidth;
});
begin();
