// How a lag has moved while this page was open: a line, and how much it grows or shrinks each second.

import { svg } from "/page/dom.js";

const LOOKS = 600;  // Twenty minutes, one every two seconds.
const LINE_LOOKS = 60;
const KEYS = 500;
const seen = new Map();

export function note(key, lag) {
  const looks = seen.get(key) ?? [];
  const now = Date.now();
  if (!looks.length || now - looks[looks.length - 1][0] > 900) looks.push([now, lag]);
  if (looks.length > LOOKS) looks.shift();
  seen.delete(key);
  seen.set(key, looks);
  if (seen.size > KEYS) seen.delete(seen.keys().next().value);
  return looks;
}

export function growth(looks) {
  const [first, last] = [looks[Math.max(0, looks.length - 6)], looks[looks.length - 1]];
  const seconds = (last[0] - first[0]) / 1000;
  return seconds > 0 ? (last[1] - first[1]) / seconds : null;
}

export function words(perSecond) {
  if (perSecond === null || Math.abs(perSecond) < 0.05) return perSecond === null ? "" : "steady";
  const amount = Math.abs(perSecond).toLocaleString("en", { maximumFractionDigits: 1 });
  return perSecond > 0 ? `+${amount}/s` : `−${amount}/s`;
}

export function line(all) {
  const looks = all.slice(-LINE_LOOKS);
  const most = Math.max(1, ...looks.map(([, lag]) => lag));
  const points = looks.map(([, lag], place) =>
    `${(place / Math.max(1, looks.length - 1) * 96).toFixed(1)},${(20 - lag / most * 18).toFixed(1)}`);
  return svg("svg", { class: "trend", viewBox: "0 0 96 22", "aria-hidden": "true", preserveAspectRatio: "none" },
    svg("polyline", { points: points.join(" ") }));
}
