// The slider over time: any instant from when the first account was opened.

import { $, HOUR, minute } from "./text.js";

let [begin, end, go] = [0, 0, () => {}];
let timer = null;

const instant = (step) => (step >= Number($("slider").max) ? null : begin + step * HOUR);

/** Sets the bounds: from `from` to `to`; and shows `at`, or now if it is `null`. */
export function bounds(from, to, at) {
  [begin, end] = [Math.floor(from / HOUR) * HOUR, to];
  const slider = $("slider");
  slider.max = Math.max(Math.ceil((end - begin) / HOUR), 1);
  if (timer === null && document.activeElement !== $("instant")) mark(at);
}

function mark(at) {
  const slider = $("slider");
  slider.value = at === null ? slider.max : Math.round((at - begin) / HOUR);
  $("instant").value = new Date(at ?? end).toISOString().slice(0, 16);
  slider.setAttribute("aria-valuetext", at === null ? "now" : `${minute(at)} UTC`);
  $("now").disabled = at === null;
}

/** Calls `then` with each instant that is chosen; `null` is now. */
export function listen(then) {
  go = then;
  $("slider").addEventListener("input", () => {
    const at = instant(Number($("slider").value));
    mark(at);
    clearTimeout(timer);
    // Who drags passes many instants; each costs a fold.
    timer = setTimeout(() => { timer = null; go(at); }, 150);
  });
  $("instant").addEventListener("change", () => {
    const at = Date.parse(`${$("instant").value}Z`);
    if (Number.isNaN(at)) return;
    const chosen = at >= end ? null : Math.max(at, begin);
    mark(chosen);
    go(chosen);
  });
  $("now").addEventListener("click", () => {
    mark(null);
    go(null);
  });
}
