// The page over the API. Texts of the API are shown as they came; they become numbers for lengths of lines only.
"use strict";

const $ = (id) => document.getElementById(id);
const DAY = 86400000;
const state = { groups: [], at: 0, position: 0, chosen: null, shown: 0 };

/** An element with attributes and children; texts are texts, never markup. */
function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

async function ask(path) {
  const response = await fetch(path);
  const body = await response.json();
  if (!response.ok) throw new Error(body.detail);
  return body;
}

/** All pages of a list. */
async function askAll(path, list) {
  let page = await ask(path);
  const all = [...page[list]];
  while (page.next) {
    page = await ask(`${path}${path.includes("?") ? "&" : "?"}page=${page.next}`);
    all.push(...page[list]);
  }
  return { ...page, [list]: all };
}

/** A quantity as Kubernetes writes it, as a number for drawing. */
function number(text) {
  const [, digits, suffix] = /^(-?[\d.]+(?:e\d+)?)(.*)$/.exec(text) ?? [null, "0", ""];
  const binary = "KMGTPE".indexOf(suffix[0]);
  if (suffix.endsWith("i")) return Number(digits) * 1024 ** (binary + 1);
  const decimal = { n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
  return Number(digits) * (decimal[suffix] ?? 1);
}

/** Hours are cut after two decimals to be read; the whole is in the title. */
function short(text) {
  const [whole, rest] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const digits = (rest ?? "").slice(0, 2).replace(/0+$/, "");
  return digits ? `${grouped}.${digits}` : grouped;
}

const GI = 2n ** 30n;

/** Unit-hours to be read: bytes are counted in Gi, in whole numbers throughout. */
function hours(row) {
  if (row.unit !== "byte") return `${short(row.consumedHours)} h`;
  const hundredths = (BigInt(row.consumedHours.split(".")[0]) * 100n) / GI;
  return `${short(`${hundredths / 100n}.${String(hundredths % 100n).padStart(2, "0")}`)} Gi·h`;
}

/** An amount of the API in hours, cut to be read; an amount that is not hours as it came. */
function amount(row, text) {
  return row.key.startsWith("cash/") ? short(text) : text;
}

function minute(at) {
  return new Date(at).toISOString().slice(0, 16).replace("T", " ");
}

/** Used in parts of hard; `null` without a limit. */
function share(row) {
  if (row.hard === null) return null;
  const [used, hard] = [number(row.used), number(row.hard)];
  return hard > 0 ? used / hard : used > 0 ? Infinity : 0;
}

function kind(part) {
  return part === null || part < 0.8 ? "" : part < 1 ? "near" : "bad";
}

function percent(part) {
  return part === Infinity ? "over" : `${Math.floor(part * 100)}\u202f%`;
}

function gauge(part, name) {
  const attributes = { min: 0, max: 1, low: 0.8, high: 0.999999, optimum: 0, value: Math.min(part, 1) };
  return el("meter", { ...attributes, "aria-label": `${name}: ${percent(part)} used` });
}

// The tree.

async function readTree() {
  const tree = await askAll("/v1/quotas", "groups");
  state.groups = tree.groups;
  state.at = Date.parse(tree.at);
  state.position = tree.position;
  $("as-of").textContent = `${minute(state.at)} UTC, position ${tree.position}`;
  drawTree();
}

/** The fullest limit of a group. */
function fullest(group) {
  const parts = group.keys.map(share).filter((part) => part !== null);
  return parts.length ? Math.max(...parts) : null;
}

function drawTree() {
  const wanted = $("find").value.trim().toLowerCase();
  const groups = state.groups.filter((group) => group.group.toLowerCase().includes(wanted));
  const focused = document.activeElement?.dataset?.group;
  $("tree").replaceChildren(...groups.map((group) => {
    const part = fullest(group);
    const name = group.group || "(no group)";
    const chosen = group.group === state.chosen;
    return el("li", {
      role: "treeitem", class: `d${wanted ? 0 : Math.min(group.depth, 4)}`, "data-group": group.group,
      "aria-level": group.depth + 1, "aria-selected": chosen, tabindex: chosen ? 0 : -1,
      onclick: () => choose(group.group),
    },
    el("span", { class: "name", title: name }, name),
    part === null ? el("span") : gauge(part, name),
    el("span", { class: `share ${kind(part)}` }, part === null ? "" : percent(part)));
  }));
  if (!$("tree").querySelector("[tabindex='0']")) $("tree").firstElementChild?.setAttribute("tabindex", "0");
  if (focused !== undefined) item(focused)?.focus();
}

function item(group) {
  return [...$("tree").children].find((node) => node.dataset.group === group);
}

$("tree").addEventListener("keydown", (event) => {
  const here = document.activeElement;
  if (here?.parentElement !== $("tree")) return;
  const to = {
    ArrowDown: here.nextElementSibling, ArrowUp: here.previousElementSibling,
    Home: $("tree").firstElementChild, End: $("tree").lastElementChild,
  };
  if (event.key === "Enter" || event.key === " ") choose(here.dataset.group);
  else if (!(event.key in to)) return;
  else if (to[event.key]) {
    here.setAttribute("tabindex", "-1");
    to[event.key].setAttribute("tabindex", "0");
    to[event.key].focus();
  }
  event.preventDefault();
});

$("find").addEventListener("input", drawTree);

// One group.

function choose(group) {
  location.hash = encodeURIComponent(group);
}

async function show(group) {
  const turn = ++state.shown;
  state.chosen = group;
  drawTree();
  $("group").setAttribute("aria-busy", "true");
  try {
    const name = encodeURIComponent(group);
    const to = Math.floor(state.at / 3600000) * 3600000;
    const begin = new Date(Math.floor((to - 14 * DAY) / DAY) * DAY).toISOString();
    const query = `group=${name}&scope=subtree&by=day&from=${begin}&to=${new Date(to).toISOString()}&limit=10000`;
    const [one, usage] = await Promise.all([ask(`/v1/quotas/${name}`), askAll(`/v1/usage?${query}`, "lines")]);
    if (turn === state.shown) drawGroup(one, usage);
  } catch (error) {
    if (turn === state.shown) $("group").replaceChildren(el("p", { class: "verdict bad" }, error.message));
  }
  if (turn === state.shown) $("group").setAttribute("aria-busy", "false");
}

function drawGroup(one, usage) {
  const states = { NotReady: `not in force: ${one.reason}`, Removed: "removed; its account stays", Undeclared: "not declared" };
  const cash = one.keys.filter((row) => row.key.startsWith("cash/") && row.hard !== null);
  $("group").replaceChildren(
    el("div", { class: "head" },
      el("h2", {}, one.group || "(no group)"),
      el("span", { class: "quiet" }, one.above.length ? `in ${one.above.join(" in ")}` : ""),
      el("span", { class: "state" }, states[one.state] ?? "")),
    one.keys.length ? table(one.keys) : el("p", { class: "quiet" }, "It lists no key."),
    ...cash.flatMap((row) => burnDown(row, usage)),
    ...models(usage),
  );
}

function table(rows) {
  const cell = (row, text, attributes = {}) =>
    text === null ? el("td", { class: "none" }, "–") : el("td", { title: text, ...attributes }, amount(row, text));
  const spent = (row) => row.consumedHours === "0"
    ? el("td", { class: "none" }, "–")
    : el("td", { title: `${row.consumedHours} ${row.unit}-hours` }, hours(row));
  const head = ["key", "hard", "used", "left", "self", "consumed"].map((name) => el("th", { scope: "col" }, name));
  const lines = rows.map((row) => {
    const part = share(row);
    return el("tr", { "data-key": row.key },
      el("td", {}, row.key), cell(row, row.hard), cell(row, row.used),
      cell(row, row.left, { class: kind(part) }), cell(row, row.selfUsed),
      spent(row),
      el("td", { class: "fill" }, ...(part === null ? [] : [gauge(part, row.key)])));
  });
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, ...head, el("th", { class: "fill" }))), el("tbody", {}, ...lines)));
}

const [HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [190, 52, 22, 12, 12];

/** The next number that is easily halved and read. */
function round(value) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 4, 5, 6, 8, 10].map((n) => n * unit).find((n) => n >= value);
}

function frame(label, highest, from, to) {
  const [wide, most] = [Math.min(920, Math.max(280, $("group").clientWidth - 34)), round(highest)];
  const x = (at) => LEFT + ((at - from) / (to - from)) * (wide - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / (most || 1)) * (HEIGHT - BOTTOM - TOP);
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${wide} ${HEIGHT}`, width: wide, height: HEIGHT, role: "img", "aria-label": label });
  for (const value of [0, most / 2, most]) {
    chart.append(svg("line", { class: "axis", x1: LEFT, x2: wide - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, short(String(value))));
  }
  const step = Math.max(1, Math.ceil((to - from) / DAY / 7)) * DAY;
  for (let at = Math.ceil(from / DAY) * DAY; at < to; at += step) {
    chart.append(svg("text", { x: x(at), y: HEIGHT - 5 }, minute(at).slice(5, 10)));
  }
  return { chart, x, y };
}

/** What is left of a budget, day by day, and when it ends if all goes on as it is. */
function burnDown(row, usage) {
  const key = row.key.slice("cash/".length);
  const days = usage.lines.filter((line) => line.key === key);
  const [from, now] = [Date.parse(usage.from), Date.parse(usage.to)];
  const [hard, left] = [number(row.hard), number(row.left)];
  const out = row.exhaustedAt?.replace(/^by /, "");
  const end = out && out !== "never" ? Date.parse(out) : null;
  const to = end !== null && end > now ? Math.min(end, now + 14 * DAY) : now;
  // From what is left now backwards: each day before had so much more.
  const points = [[now, left]];
  let rest = left;
  for (const line of [...days].reverse()) {
    rest += number(line.hours);
    points.unshift([Date.parse(line.from), rest]);
  }
  const highest = Math.max(hard, ...points.map(([, value]) => value), 1);
  const { chart, x, y } = frame(`${row.key}: what is left`, highest, from, to);
  const clamp = (value) => Math.max(value, 0);
  const path = points.map(([at, value]) => `${x(at)},${y(clamp(value))}`).join(" ");
  chart.append(
    svg("polygon", { class: "area", points: `${x(points[0][0])},${y(0)} ${path} ${x(now)},${y(0)}` }),
    svg("polyline", { class: "spent", points: path }));
  if (end !== null && end > now) {
    const reached = clamp(left * (1 - (to - now) / (end - now)));
    chart.append(svg("line", { class: "ahead", x1: x(now), y1: y(clamp(left)), x2: x(to), y2: y(reached) }));
  }
  if (end !== null && end >= from && end <= to) {
    chart.append(svg("circle", { class: "out", cx: x(end), cy: y(0), r: 4 }, svg("title", {}, `used up at ${out}`)));
  }
  const words = {
    ended: `Used up since ${out}.`, ends: `Lasts until ${out} if all goes on as it is.`, lasts: "Lasts: nothing of it runs.",
  };
  const verdict = end === null ? "lasts" : end <= state.at ? "ended" : "ends";
  const sum = row.left.startsWith("-")
    ? `${short(row.left.slice(1))} ${row.unit}-hours beyond ${short(row.hard)}`
    : `${short(row.left)} of ${short(row.hard)} ${row.unit}-hours left`;
  return [el("h3", {}, `${row.key}: ${sum}`),
    el("p", { class: `verdict ${verdict === "ended" ? "bad" : ""}` }, words[verdict]), chart];
}

/** Unit-hours a day; of cards and cores by their models where there are such. */
function models(usage) {
  return [["core", "Core-hours a day"], ["card", "Card-hours a day"]].flatMap(([unit, title]) => {
    const lines = usage.lines.filter((line) => line.unit === unit && line.key.startsWith("limits."));
    const keys = [...new Set(lines.map((line) => line.key))].sort();
    // A key with a model is part of the one without.
    const parts = keys.filter((key) => !keys.some((other) => other.startsWith(`${key}.`)));
    if (!parts.length) return [];
    const [from, to] = [Date.parse(usage.from), Date.parse(usage.to)];
    const days = new Map();
    for (const line of lines.filter((line) => parts.includes(line.key))) {
      days.set(line.from, [...(days.get(line.from) ?? []), line]);
    }
    const sum = (list) => list.reduce((total, line) => total + number(line.hours), 0);
    const { chart, x, y } = frame(title, Math.max(...[...days.values()].map(sum)), from, to);
    for (const [day, list] of days) {
      const at = Date.parse(day);
      let below = 0;
      for (const line of list) {
        const value = number(line.hours);
        const [top, height] = [y(below + value), y(below) - y(below + value)];
        const across = Math.max(x(Date.parse(line.to)) - x(at) - 4, 1);
        chart.append(svg("rect", { class: `s${parts.indexOf(line.key) % 6}`, x: x(at) + 2, y: top, width: across, height },
          svg("title", {}, `${day.slice(0, 10)} ${line.key}: ${line.hours} ${unit}-hours`)));
        below += value;
      }
    }
    const names = parts.map((key, i) => el("li", {},
      svg("svg", { class: "chart", viewBox: "0 0 10 10" }, svg("rect", { class: `s${i % 6}`, width: 10, height: 10, rx: 2 })), key));
    return [el("h3", {}, title), chart, el("ul", { class: "legend" }, ...names)];
  });
}

// Events.

function listen() {
  const events = new EventSource("/v1/events?last=100");
  events.onopen = () => { $("feed-state").textContent = "live"; };
  events.onerror = () => { $("feed-state").textContent = "connecting …"; };
  events.onmessage = (message) => {
    const event = JSON.parse(message.data);
    const what = event.type.replace(/^.*bizrq\.(.*)\.v\d+$/, "$1");
    const bad = what === "workloads.refused" ? "bad" : "";
    $("feed").prepend(el("li", {},
      el("span", { class: "pos" }, message.lastEventId),
      el("time", { datetime: event.time }, event.time.slice(0, 19).replace("T", " ")),
      el("span", { class: bad }, what),
      el("span", { class: "what" }, event.subject ?? "")));
    while ($("feed").children.length > 200) $("feed").lastElementChild.remove();
    if (Number(message.lastEventId) > state.position) soon();
  };
}

let waiting = null;
/** Numbers follow the log, at most once in two seconds. */
function soon() {
  waiting ??= setTimeout(async () => {
    waiting = null;
    await readTree().catch(() => {});
    if (state.chosen !== null) await show(state.chosen);
  }, 2000);
}

function chosen() {
  return location.hash.length > 1 ? decodeURIComponent(location.hash.slice(1)) : null;
}

let width = innerWidth;
addEventListener("resize", () => {
  if (width !== innerWidth && state.chosen !== null) show(state.chosen);
  width = innerWidth;
});
addEventListener("hashchange", () => { if (chosen() !== null) show(chosen()); });

readTree().then(() => {
  const first = state.groups.find((group) => group.keys.some((row) => row.key.startsWith("cash/"))) ?? state.groups[0];
  const group = chosen() ?? first?.group;
  if (group !== undefined) show(group);
  listen();
}).catch((error) => { $("as-of").textContent = error.message; });
