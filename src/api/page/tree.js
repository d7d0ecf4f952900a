// The tree of groups: each with its fullest limit, reached by clicks and by keys.

import { $, called, el, gauge, kind, percent, share } from "./text.js";

let [groups, chosen, choose] = [[], null, () => {}];

/** The fullest limit of a group. */
function fullest(group) {
  const parts = group.keys.map(share).filter((part) => part !== null);
  return parts.length ? Math.max(...parts) : null;
}

/** Shows these groups and which is chosen. */
export function draw(all, name) {
  [groups, chosen] = [all, name];
  const wanted = $("find").value.trim().toLowerCase();
  const shown = groups.filter((group) => group.group.toLowerCase().includes(wanted));
  const focused = document.activeElement?.dataset?.group;
  $("tree").replaceChildren(...shown.map((group) => item(group, wanted !== "")));
  if (!$("tree").querySelector("[tabindex='0']")) $("tree").firstElementChild?.setAttribute("tabindex", "0");
  if (focused !== undefined) node(focused)?.focus();
}

function item(group, flat) {
  const [part, name, is] = [fullest(group), called(group.group), group.group === chosen];
  return el("li", {
    role: "treeitem", class: `d${flat ? 0 : Math.min(group.depth, 4)}`, "data-group": group.group,
    "aria-level": flat ? 1 : group.depth + 1, "aria-selected": is, tabindex: is ? 0 : -1,
    onclick: () => choose(group.group),
  },
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
  if (event.key === "Enter" || event.key === " ") choose(here.dataset.group);
  else if (!(event.key in to)) return;
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
  $("find").addEventListener("input", () => draw(groups, chosen));
}
