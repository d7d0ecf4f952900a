// The tree of groups: each with its fullest limit, reached by clicks and by keys. Of many groups branches are closed at
// first, and so many lines at most are drawn at once.

import { $, called, el, gauge, kind, percent, share } from "./text.js";

/** At first so many groups are shown, as deep as that goes; of what is deeper, only what is opened. */
const FEW = 300;
/** Lines that are drawn, and that each "more" adds. */
const LINES = 300;

let [groups, chosen, choose] = [[], null, () => {}];
/** What somebody opened or closed, by name; how deep the others are open; and how many lines are drawn. */
const turned = new Map();
let [deep, most] = [0, LINES];

/** The fullest limit of a group. */
function fullest(group) {
  const parts = group.keys.map(share).filter((part) => part !== null);
  return parts.length ? Math.max(...parts) : null;
}

/** Shows these groups and which is chosen. */
export function draw(all, name) {
  const another = name !== chosen;
  [groups, chosen] = [all, name];
  deep = depth();
  if (another) reveal();
  const wanted = $("find").value.trim().toLowerCase();
  const shown = wanted ? found(wanted) : unfolded();
  if (another) most = Math.max(most, 1 + shown.findIndex(({ group }) => group.group === name));
  const focused = document.activeElement?.dataset?.group;
  $("tree").replaceChildren(...shown.slice(0, most).map((one) => item(one, wanted !== "")));
  if (!$("tree").querySelector("[tabindex='0']")) $("tree").firstElementChild?.setAttribute("tabindex", "0");
  const left = shown.length - most;
  $("tree-more").hidden = left <= 0;
  $("tree-more").textContent = `${Math.min(left, LINES)} of ${left} more`;
  if (focused !== undefined) node(focused)?.focus();
}

const found = (wanted) => groups.filter((group) => group.group.toLowerCase().includes(wanted)).map((group) => ({ group, open: null }));

/** Whether what is below a group is shown. */
const isOpen = (group) => turned.get(group.group) ?? group.depth < deep;

/** The deepest level down to which there are few groups. */
function depth() {
  const levels = [];
  for (const group of groups) levels[group.depth] = (levels[group.depth] ?? 0) + 1;
  let sum = 0;
  const first = levels.findIndex((count) => (sum += count ?? 0) > FEW);
  return first < 0 ? Infinity : first - 1;
}

/** Groups come parents first, each before what is below it: those that no closed one is above. */
function unfolded() {
  const shown = [];
  let closed = Infinity;
  groups.forEach((group, place) => {
    if (group.depth > closed) return;
    const has = groups[place + 1]?.depth > group.depth;
    const open = has ? isOpen(group) : null;
    closed = open === false ? group.depth : Infinity;
    shown.push({ group, open });
  });
  return shown;
}

/** What is above the chosen group is opened, so that it can be seen. */
function reveal() {
  const place = groups.findIndex((group) => group.group === chosen);
  let level = groups[place]?.depth ?? 0;
  for (const group of groups.slice(0, Math.max(place, 0)).reverse()) {
    if (group.depth >= level) continue;
    level = group.depth;
    turned.set(group.group, true);
  }
}

function turn(name, open) {
  turned.set(name, open);
  draw(groups, chosen);
}

function item({ group, open }, flat) {
  const [part, name, is] = [fullest(group), called(group.group), group.group === chosen];
  const onturn = (event) => {
    event.stopPropagation();
    turn(group.group, !open);
  };
  return el("li", {
    role: "treeitem", class: `d${flat ? 0 : Math.min(group.depth, 4)}`, "data-group": group.group,
    "aria-level": flat ? 1 : group.depth + 1, "aria-selected": is, tabindex: is ? 0 : -1,
    ...(open === null ? {} : { "aria-expanded": open }),
    onclick: () => choose(group.group),
  },
  open === null ? el("span", { class: "turn" }) : el("span", { class: "turn", title: open ? "close" : "open", onclick: onturn }),
  el("span", { class: "name", title: name }, name),
  part === null ? el("span") : gauge(part, name),
  el("span", { class: `share ${kind(part)}` }, part === null ? "" : percent(part)));
}

const node = (group) => [...$("tree").children].find((child) => child.dataset.group === group);

const level = (item) => Number(item.ariaLevel);

/** The item above, by the levels. */
function parent(here) {
  let at = here;
  while (at && level(at) >= level(here)) at = at.previousElementSibling;
  return at;
}

function child(here) {
  const next = here.nextElementSibling;
  return next && level(next) > level(here) ? next : null;
}

function onKey(event) {
  const here = document.activeElement;
  if (here?.parentElement !== $("tree") || event.ctrlKey || event.altKey || event.metaKey) return;
  const to = {
    ArrowDown: here.nextElementSibling, ArrowUp: here.previousElementSibling,
    ArrowLeft: parent(here), ArrowRight: child(here),
    Home: $("tree").firstElementChild, End: $("tree").lastElementChild,
  };
  // An arrow opens or closes a branch first.
  const turns = { ArrowLeft: "true", ArrowRight: "false" }[event.key];
  if (event.key === "Enter" || event.key === " ") choose(here.dataset.group);
  else if (!(event.key in to)) return;
  else if (turns && here.ariaExpanded === turns) turn(here.dataset.group, event.key === "ArrowRight");
  else if (to[event.key]) {
    here.setAttribute("tabindex", "-1");
    to[event.key].setAttribute("tabindex", "0");
    to[event.key].focus();
  }
  event.preventDefault();
}

/** Calls `then` with each group that is chosen. */
export function listen(then) {
  choose = then;
  $("tree").addEventListener("keydown", onKey);
  $("find").addEventListener("input", () => {
    most = LINES;
    draw(groups, chosen);
  });
  $("tree-more").addEventListener("click", () => {
    most += LINES;
    draw(groups, chosen);
  });
}
