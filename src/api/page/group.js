// One group: its limits, its budgets with their periods and what is left, its hours, its pods and its refusals.

import { ask, askAll } from "./api.js";
import { burnDown, models } from "./charts.js";
import { pods, refusals } from "./lists.js";
import { $, DAY, HOUR, amount, called, el, gauge, hours, kind, renew, second, share, short, table } from "./text.js";

/** So many points of a curve: of hours half a month, of days a year. */
const BY_HOUR = 15 * DAY;

/**
 * Reads what `draw` shows of `group`, a group of the tree that is looked at: of the instant `at`, which is now unless it
 * is `past`. Its log begins at `since`.
 */
export async function read(group, { at, past, since, parents }, options) {
  const name = encodeURIComponent(group.group);
  const of = `group=${name}&scope=subtree`;
  const to = Math.floor(at / HOUR) * HOUR;
  const from = Math.min(Math.floor(Math.max(to - 14 * DAY, since) / DAY) * DAY, to - HOUR);
  const until = past ? `&at=${new Date(at).toISOString()}` : "";
  // A name of dots alone leads elsewhere in a path; the tree has the same row.
  const one = past || /^\.*$/.test(group.group) ? null : ask(`/v1/quotas/${name}`, options);
  const usage = askAll(`/v1/usage?${of}&by=day&from=${iso(from)}&to=${iso(to)}&limit=10000`, "lines", options);
  const [told, used, running, refused] = await Promise.all([
    one, usage, ask(`/v1/pods?${of}&limit=50${until}`, options).catch(without({ pods: [] })), ask(`/v1/refusals?${of}&limit=20${until}`, options),
  ]);
  const shown = told ?? group;
  const cash = shown.keys.filter((row) => row.key.startsWith("cash/") && row.hard !== null);
  const courses = await Promise.all(cash.map((row) => course(group, row, at, past, options)));
  return { group: shown, parents, usage: used, pods: running, refusals: refused, past, at, of, until, cash, courses };
}

const iso = (at) => new Date(at).toISOString();

function course(group, row, at, past, options) {
  const by = at - Date.parse(row.period?.from ?? group.opened) <= BY_HOUR ? "hour" : "day";
  const to = past ? `&to=${iso(at)}` : "";
  const path = `/v1/burndown?group=${encodeURIComponent(group.group)}&key=${encodeURIComponent(row.key)}&by=${by}${to}`;
  return ask(path, options).catch(without({ points: [] }));
}

/** An instant of the past may be forgotten, and what was listed then be listed no more: then there is `nothing`, and why. */
function without(nothing) {
  return (why) => {
    if (why.status !== 400) throw why;
    return { ...nothing, why: why.message };
  };
}

/** Shows what was read. */
export function draw(told) {
  const { group, parents, cash, courses } = told;
  const states = { NotReady: `not in force: ${group.reason}`, Removed: "removed; its account stays", Undeclared: "not declared" };
  renew($("group"), [
    el("div", { class: "head" },
      el("h2", {}, called(group.group)),
      el("span", { class: "quiet" }, parents.length ? `in ${parents.join(" in ")}` : ""),
      el("span", { class: "bad" }, states[group.state] ?? "")),
    group.keys.length ? limits(group.keys) : el("p", { class: "quiet" }, "It lists no key."),
    ...cash.flatMap((row, i) => budget(row, courses[i], told)),
    ...models(told.usage),
    ...pods(told),
    ...refusals(told),
  ]);
}

function limits(rows) {
  const cell = (row, text, attributes = {}) =>
    text === null ? el("td", { class: "none" }, "–") : el("td", { title: text, ...attributes }, amount(row, text));
  const spent = (row) => row.consumedHours === "0"
    ? el("td", { class: "none" }, "–")
    : el("td", { title: `${row.consumedHours} ${row.unit}-hours` }, `${hours(row.consumedHours, row.unit)}\u202fh`);
  const lines = rows.map((row) => {
    const part = share(row);
    return el("tr", { "data-key": row.key },
      el("th", { scope: "row" }, row.key), cell(row, row.hard), cell(row, row.used),
      cell(row, row.left, { class: kind(part) }), cell(row, row.selfUsed), spent(row),
      el("td", { class: "fill" }, ...(part === null ? [] : [gauge(part, row.key)])));
  });
  const heads = ["key", "hard", "used", "left", "self", "consumed"].map((name) => [name, {}]);
  return table("limits", [...heads, ["", { class: "fill" }]], lines);
}

/** A budget: what is left of it and until when, its period, and how it came to this. */
function budget(row, course, { group, at }) {
  const unit = `${row.unit}-hours`;
  const limit = row.carried === undefined ? short(row.hard) : `${short(row.hard)} and ${short(row.carried)} carried over`;
  const sum = row.left.startsWith("-")
    ? `${short(row.left.slice(1))} ${unit} beyond ${limit}`
    : `${short(row.left)} of ${limit} ${unit} left`;
  return [
    el("h3", {}, el("span", { class: "key" }, row.key), ` ${sum}`),
    el("p", { class: `verdict ${row.left.startsWith("-") ? "bad" : ""}` }, verdict(row, at)),
    ...(row.period ? [period(row, group.cashPeriod, unit)] : []),
    ...burnDown(row, course),
  ];
}

function verdict(row, now) {
  const out = row.exhaustedAt ?? "never";
  if (out === "never") return row.period ? "Lasts until its period ends, if all goes on as it is." : "Lasts, if all goes on as it is.";
  const at = Date.parse(out.replace(/^by /, ""));
  const told = `${out.startsWith("by ") ? "by " : ""}${second(at)} UTC`;
  const words = at <= now ? `Used up since ${told}.` : `Lasts until ${told}, if all goes on as it is.`;
  return el("time", { datetime: out.replace(/^by /, ""), title: out }, words);
}

const EVERY = { Day: "day", Week: "week", Month: "month", Quarter: "quarter", Year: "year" };
const OVER = {
  None: "nothing goes over into the next", Unused: "what is not used goes over", Overdraft: "what is used beyond it goes over",
  Both: "what is left or used beyond it goes over",
};

/** Which period the numbers of a budget are of, and what went over into it. */
function period(row, policy, unit) {
  const zone = policy?.timeZone ?? "UTC";
  const most = policy?.maxPercent == null ? "" : `, at most ${policy.maxPercent}\u202f% of hard`;
  const rule = policy ? `A new budget every ${EVERY[policy.every] ?? policy.every}; ${OVER[policy.carryOver] ?? policy.carryOver}${most}.` : "";
  const carried = row.carried.startsWith("-")
    ? `${short(row.carried.slice(1))} ${unit} were overspent before`
    : `${short(row.carried)} ${unit} were carried over`;
  return el("p", { class: "period", "data-period": row.key },
    "This period: ", el("time", { datetime: row.period.from, title: row.period.from }, inZone(row.period.from, zone)), " to ",
    el("time", { datetime: row.period.to, title: row.period.to }, inZone(row.period.to, zone)), ` ${zone}; `,
    el("span", { title: row.carried }, carried), ". ", el("span", { class: "quiet" }, rule));
}

/** An instant on the clocks of a place; in UTC where the browser does not know the place. */
function inZone(text, zone) {
  try {
    const format = { timeZone: zone, dateStyle: "medium", timeStyle: "short" };
    return new Intl.DateTimeFormat("en-GB", format).format(Date.parse(text));
  } catch {
    return `${second(text)} UTC, in`;
  }
}
