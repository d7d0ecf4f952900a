// The log as it grows, newest first.

import { follow } from "./api.js";
import { $, el } from "./text.js";

/** So many stay on the page. */
const MOST = 200;

/** Shows events until `signal` says that it ends; `heard` is told the position of each, `again` that they go on. */
export function listen({ heard, again, signal }) {
  let lost = false;
  return follow("/v1/events?last=100", {
    signal,
    told: (words) => {
      $("feed-state").textContent = words;
      if (words === "live" && lost) again();
      lost = words !== "live";
    },
    each: ({ id, name, data }) => {
      $("feed").prepend(name === "undecodable" ? line(id, "", "undecodable", data) : event(id, data));
      while ($("feed").children.length > MOST) $("feed").lastElementChild.remove();
      heard(Number(id));
    },
  });
}

function event(position, data) {
  const { type, time, subject } = JSON.parse(data);
  return line(position, time ?? "", (type ?? "").replace(/^.*bizrq\.(.*)\.v\d+$/, "$1"), subject ?? "");
}

function line(position, time, what, about) {
  return el("li", {},
    el("span", { class: "pos" }, position),
    el("time", { datetime: time }, time.slice(0, 19).replace("T", " ")),
    el("span", { class: what === "workloads.refused" || what === "undecodable" ? "bad" : "" }, what),
    el("span", { class: "what" }, about));
}
