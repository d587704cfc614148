// The broker's samples of a group or a topic: at most an hour, from the first view.

import { WORKER, h } from "/page/dom.js";

const FRESH_MS = 9_000;
export const SPANS = [[5, "5 minutes"], [15, "15 minutes"], [60, "1 hour"]];
let kept = { key: "", at: 0, samples: [], isAsking: false };

// Returns the known samples, and requests new ones when they are old. Then it calls `redraw`.
export function samplesOf(kind, name, redraw) {
  const key = JSON.stringify([kind, name]);
  if (kept.key !== key) kept = { key, at: 0, samples: [], isAsking: false };
  if (!kept.isAsking && Date.now() - kept.at > FRESH_MS) ask(kept, kind, name, redraw);
  return kept.samples.map(([ms, partitions, position, amount]) => ({ ms, partitions, position, amount }));
}

async function ask(mine, kind, name, redraw) {
  mine.isAsking = true;
  try {
    const answer = await fetch(`${WORKER}/api/v1/live/history?${new URLSearchParams({ kind, name })}`);
    const told = await answer.json();
    mine.samples = told.samples ?? mine.samples;
  } catch { /* The feed says that the broker does not answer. */ }
  mine.at = Date.now();
  mine.isAsking = false;
  if (kept === mine) redraw();
}

// The rates between two samples each; none if their partitions differ.
export function rates(samples, value) {
  const found = [];
  for (let place = 1; place < samples.length; place += 1) {
    const [before, after] = [samples[place - 1], samples[place]];
    if (before.partitions !== after.partitions) continue;
    found.push([after.ms, Math.max(0, (value(after) - value(before)) / (after.ms - before.ms) * 1000)]);
  }
  return found;
}

export function spanOf(parameters) {
  const minutes = Number(parameters.span);
  return (SPANS.some(([each]) => each === minutes) ? minutes : 15) * 60_000;
}

export function spanField(parameters, set) {
  const chosen = spanOf(parameters) / 60_000;
  return h("label", { class: "span" }, "the last ", h("select", { "aria-label": "Time shown", onchange: (event) => set({ span: event.target.value }) },
    SPANS.map(([minutes, text]) => h("option", { value: minutes, selected: minutes === chosen ? "" : null }, text))));
}

export function since(points, from) {
  return points.filter(([ms]) => ms >= from);
}
