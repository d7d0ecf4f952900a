// What runs in a group, and who heard no there.

import { ask } from "./api.js";
import { amount, called, el, lasting, second, table } from "./text.js";

/** A button that adds the next page of a list to what `add` takes. */
function more(path, { next }, words, add) {
  const button = el("button", { type: "button", class: "plain", "data-keep": path });
  let token = next;
  button.textContent = words;
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const page = await ask(`${path}&page=${token}`);
      add(page);
      token = page.next;
    } catch (why) {
      button.after(el("p", { class: "bad", role: "alert" }, why.message));
    }
    button.disabled = false;
    if (!token) button.remove();
  });
  return token ? [button] : [];
}

/** Pods that run at the instant that is looked at. */
export function pods({ pods: page, group, at, of, until, past }) {
  const rows = page.pods.map((pod) => running(pod, at));
  const none = page.why ?? (past ? "None ran then." : "None runs.");
  if (!rows.length) return [el("h3", {}, "Pods"), el("p", { class: "quiet" }, none)];
  const one = rows.length === 1 && !page.next;
  const title = `${rows.length}${page.next ? " and more" : ""} ${one ? "pod" : "pods"} ${past ? "ran then" : one ? "runs" : "run"}`;
  const heads = ["pod", "group", "cluster", "holds", "since, UTC", "for"].map((name) => [name, {}]);
  const list = table(`pods of ${called(group.group)}`, heads, rows);
  list.classList.add("pods");
  const body = list.querySelector("tbody");
  return [el("h3", {}, title), list, ...more(`/v1/pods?${of}&limit=50${until}`, page, "More pods", (next) => {
    body.append(...next.pods.map((pod) => running(pod, at)));
  })];
}

function running(pod, now) {
  return el("tr", { "data-pod": pod.uid },
    el("th", { scope: "row", title: pod.uid, class: "uid" }, pod.uid.split("-")[0]),
    el("td", {}, called(pod.group)),
    el("td", {}, pod.cluster.replace(/^\/clusters\//, "")),
    el("td", { title: Object.entries(pod.held).map((pair) => pair.join(" ")).join("\n") }, holds(pod.held)),
    el("td", { title: pod.from }, second(Date.parse(pod.from))),
    el("td", {}, lasting(now - Date.parse(pod.from))));
}

/** The limits that people look for: cores, memory, and cards by their models. */
function holds(held) {
  const cards = Object.keys(held).filter((key) => key.startsWith("limits.") && !/^limits\.(cpu|memory|ephemeral-storage)/.test(key));
  const exact = cards.filter((key) => !cards.some((other) => other.startsWith(`${key}.`)));
  const parts = [
    held["limits.cpu"] && `${held["limits.cpu"]}\u202fcpu`,
    held["limits.memory"],
    ...exact.map((key) => `${amount({ key }, held[key])}\u202f×\u202f${key.slice("limits.".length).replace(/^[^/]*\//, "")}`),
  ];
  return parts.filter(Boolean).join(", ") || "–";
}

/** Who heard no, newest first. */
export function refusals({ refusals: page, of, until, past }) {
  const title = el("h3", {}, past ? "Refused before" : "Refused");
  const list = el("ol", { class: "refusals" }, ...page.refusals.map(refused));
  const none = el("p", { class: "quiet" }, page.next ? "Nothing lately." : "Nothing was refused.");
  if (page.refusals.length) none.hidden = true;
  return [title, none, list, ...more(`/v1/refusals?${of}&limit=20${until}`, page, "Older refusals", (next) => {
    list.append(...next.refusals.map(refused));
    none.hidden = list.children.length > 0;
  })];
}

function refused(one) {
  const { kind, namespace, name } = one.workload;
  const often = one.count > 1 ? ` ${one.count} times since ${second(Date.parse(one.first))}` : "";
  return el("li", {},
    el("time", { datetime: one.last, title: one.last }, second(Date.parse(one.last))),
    el("span", { class: "reason" }, one.reason),
    el("span", { class: "who" }, `${kind} ${namespace ? `${namespace}/` : ""}${name}`,
      el("span", { class: "quiet" }, ` ${called(one.group)}, ${one.cluster}${often}`)),
    el("span", { class: "what" }, one.message));
}
