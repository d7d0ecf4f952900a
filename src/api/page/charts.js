// Drawings: what is left of a budget, with its forecast, and unit-hours by day and model.

import { $, DAY, date, el, hours, minute, number, short, svg, table } from "./text.js";

const [HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [200, 56, 24, 14, 16];

/** The next number that is easily halved and read. */
function round(value) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((n) => n * unit).find((n) => n >= value) ?? 10 * unit;
}

/** Axes from `from` to `to` and from `low` to `high`, and where instants and amounts lie on them. */
function frame(label, [low, high], [from, to]) {
  const most = round(high);
  const least = low < 0 ? -round(-low) : 0;
  const wide = Math.min(920, Math.max(260, $("group").clientWidth - 34));
  const x = (at) => LEFT + ((at - from) / Math.max(to - from, 1)) * (wide - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((value - least) / (most - least || 1)) * (HEIGHT - BOTTOM - TOP);
  const chart = svg("svg", {
    class: "chart", viewBox: `0 0 ${wide} ${HEIGHT}`, width: wide, height: HEIGHT, role: "img", "aria-label": label,
  });
  for (const value of new Set([least, 0, most / 2, most])) {
    chart.append(svg("line", { class: value === 0 ? "zero" : "axis", x1: LEFT, x2: wide - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, short(String(value))));
  }
  const most_dates = Math.max(2, Math.floor(wide / 90));
  const step = Math.max(1, Math.ceil((to - from) / DAY / most_dates)) * DAY;
  for (let at = Math.ceil(from / DAY) * DAY; at <= to; at += step) {
    const anchor = x(at) > wide - RIGHT - 20 ? "end" : "middle";
    chart.append(svg("text", { x: x(at), y: HEIGHT - 6, "text-anchor": anchor }, date(at)));
  }
  return { chart, x, y };
}

/** What is left of a budget, as it was and as it will be if all goes on as it is. */
export function burnDown(row, course) {
  const points = course.points.map((point) => [Date.parse(point.at), number(point.left), point]);
  if (points.length < 2) return [];
  const [from, [now, left]] = [points[0][0], points.at(-1)];
  const out = row.exhaustedAt?.replace(/^by /, "");
  const end = out && out !== "never" ? Date.parse(out) : null;
  const to = end !== null && end > now ? Math.min(end, now + Math.max(14 * DAY, now - from)) : now;
  const values = points.map(([, value]) => value);
  const { chart, x, y } = frame(
    `${row.key}: what is left, day by day`, [Math.min(...values), Math.max(...values, 1)], [from, to],
  );
  const path = points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  chart.append(
    svg("polygon", { class: "area", points: `${x(from)},${y(0)} ${path} ${x(now)},${y(0)}` }),
    svg("polyline", { class: "spent", points: path }));
  if (end !== null && end > now) {
    const reached = left * (1 - (to - now) / (end - now));
    chart.append(svg("line", { class: "ahead", x1: x(now), y1: y(left), x2: x(to), y2: y(reached) }));
  }
  if (end !== null && end >= from && end <= to) {
    chart.append(svg("circle", { class: "out", cx: x(end), cy: y(0), r: 4 }, svg("title", {}, `used up at ${out}`)));
  }
  const days = points.filter(([at], i) => at % DAY === 0 || i === points.length - 1);
  const rows = days.map(([at, , point]) => el("tr", {},
    el("td", {}, minute(at)), el("td", { title: point.used }, short(point.used)), el("td", { title: point.left }, short(point.left))));
  return [chart, numbers(row.key, ["instant, UTC", "used", "left"], rows)];
}

/** The same as a table, for who reads numbers or hears them. */
function numbers(name, heads, rows) {
  return el("details", { "data-keep": `numbers of ${name}` }, el("summary", {}, "Numbers"),
    table(`${name} in numbers`, heads.map((head) => [head, {}]), rows));
}

/** Unit-hours a day; of cards and cores by their models where there are such. */
export function models(usage) {
  return [["core", "Core-hours a day"], ["card", "Card-hours a day"]].flatMap(([unit, title]) => {
    const lines = usage.lines.filter((line) => line.unit === unit && line.key.startsWith("limits."));
    const keys = [...new Set(lines.map((line) => line.key))].sort();
    // A key with a model is part of the one without.
    const parts = keys.filter((key) => !keys.some((other) => other.startsWith(`${key}.`)));
    return parts.length ? byDay(title, unit, parts, lines.filter((line) => parts.includes(line.key)), usage) : [];
  });
}

function byDay(title, unit, parts, lines, usage) {
  const days = Map.groupBy(lines, (line) => line.from);
  const sum = (list) => list.reduce((total, line) => total + number(line.hours), 0);
  const highest = Math.max(...[...days.values()].map(sum), 1);
  const { chart, x, y } = frame(title, [0, highest], [Date.parse(usage.from), Date.parse(usage.to)]);
  for (const [day, list] of days) {
    const at = Date.parse(day);
    const across = Math.max(x(Date.parse(list[0].to)) - x(at) - 4, 1);
    let below = 0;
    for (const line of list) {
      const [low, value] = [below, number(line.hours)];
      below += value;
      chart.append(svg("rect", {
        class: `s${parts.indexOf(line.key) % 6}`, x: x(at) + 2, y: y(below), width: across, height: Math.max(y(low) - y(below), 0),
      }, svg("title", {}, `${day.slice(0, 10)} ${line.key}: ${line.hours} ${unit}-hours`)));
    }
  }
  const names = parts.map((key, i) => el("li", {},
    svg("svg", { class: "chart", viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { class: `s${i % 6}`, width: 10, height: 10, rx: 2 })), key));
  const rows = [...days].sort(([a], [b]) => (a < b ? -1 : 1)).map(([day, list]) => el("tr", {}, el("td", {}, day.slice(0, 10)),
    ...parts.map((key) => {
      const line = list.find((line) => line.key === key);
      return line ? el("td", { title: line.hours }, hours(line.hours, unit)) : el("td", { class: "none" }, "–");
    })));
  return [el("h3", {}, title), chart, el("ul", { class: "legend" }, ...names), numbers(title, ["day", ...parts], rows)];
}
