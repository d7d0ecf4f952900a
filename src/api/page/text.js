// Elements, and texts of the API as people read them. They become numbers for lengths of lines only.

export const $ = (id) => document.getElementById(id);
export const HOUR = 3600000;
export const DAY = 24 * HOUR;

/** An element with attributes and children; texts are texts, never markup. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
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

/** Puts new children in place of the old; what was open, scrolled or in use (`data-keep`) stays so. */
export function renew(node, children) {
  const kept = new Map([...node.querySelectorAll("[data-keep]")].map((old) => [old.dataset.keep, old]));
  const focused = node.contains(document.activeElement) ? document.activeElement.dataset.keep : undefined;
  const at = new Map([...kept].map(([name, old]) => [name, { open: old.open, left: old.scrollLeft }]));
  node.replaceChildren(...children);
  for (const fresh of node.querySelectorAll("[data-keep]")) {
    const { open, left } = at.get(fresh.dataset.keep) ?? {};
    if (open) fresh.open = true;
    if (left) fresh.scrollLeft = left;
    if (fresh.dataset.keep === focused) fresh.focus({ preventScroll: true });
  }
}

/** A quantity as Kubernetes writes it, as a number for drawing. */
export function number(text) {
  const [, digits, suffix] = /^(-?[\d.]+(?:e\d+)?)(.*)$/.exec(text) ?? [null, "0", ""];
  const binary = "KMGTPE".indexOf(suffix[0]);
  if (suffix.endsWith("i")) return Number(digits) * 1024 ** (binary + 1);
  const decimal = { n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
  return Number(digits) * (decimal[suffix] ?? 1);
}

/** Hours are cut after two decimals to be read; the whole is in the title. */
export function short(text) {
  const [whole, rest] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const digits = (rest ?? "").slice(0, 2).replace(/0+$/, "");
  return digits ? `${grouped}.${digits}` : grouped;
}

const GI = 2n ** 30n;

/** Unit-hours to be read: bytes are counted in Gi, in whole numbers throughout. */
export function hours(text, unit) {
  if (unit !== "byte") return short(text);
  const hundredths = (BigInt(text.split(".")[0]) * 100n) / GI;
  return `${short(`${hundredths / 100n}.${String(hundredths % 100n).padStart(2, "0")}`)}\u202fGi`;
}

/** An amount of a row to be read: of a budget in hours, else as it came. */
export const amount = (row, text) => (row.key.startsWith("cash/") ? short(text) : text);

/** Instants are shown in UTC. */
export const minute = (at) => new Date(at).toISOString().slice(0, 16).replace("T", " ");
export const second = (at) => new Date(at).toISOString().slice(0, 19).replace("T", " ");

const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
export const date = (at) => DATE.format(at);

/** So long, in its two largest units. */
export function lasting(ms) {
  const minutes = Math.floor(ms / 60000);
  const parts = [[Math.floor(minutes / 1440), "d"], [Math.floor(minutes / 60) % 24, "h"], [minutes % 60, "min"]];
  const first = parts.findIndex(([count]) => count > 0);
  const told = first < 0 ? [[0, "min"]] : parts.slice(first, first + 2).filter(([count]) => count > 0);
  return told.map(([count, unit]) => `${count}\u202f${unit}`).join(" ");
}

/** Used in parts of hard and what went over; `null` without a limit. */
export function share(row) {
  if (row.hard === null) return null;
  const [used, limit] = [number(row.used), number(row.hard) + number(row.carried ?? "0")];
  return limit > 0 ? used / limit : used > 0 ? Infinity : 0;
}

export const kind = (part) => (part === null || part < 0.8 ? "" : part < 1 ? "near" : "bad");
export const percent = (part) => (part === Infinity ? "over" : `${Math.floor(part * 100)}\u202f%`);

export function gauge(part, name) {
  const attributes = { min: 0, max: 1, low: 0.8, high: 0.999999, optimum: 0, value: Math.min(part, 1) };
  return el("meter", { ...attributes, "aria-label": `${name}: ${percent(part)} used` });
}

/** What stands for a group's name. */
export const called = (name) => name || "(no group)";

/** A table: what heads its columns, and rows of cells. */
export function table(keep, heads, rows) {
  const head = heads.map(([text, attributes]) => el("th", { scope: "col", ...attributes }, text));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": keep, "data-keep": keep },
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)));
}
