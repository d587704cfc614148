// Lines over time, drawn by hand: with marks where rebalances were, and what there was where the pointer is.

import { h, number, shown, svg, time } from "/page/dom.js";

const WIDTH = 1000, HEIGHT = 160, GAP_MS = 35_000;

// `lines` are {name, kind, points: [[ms, value], ...]}; a gap in the points is one in the line.
export function chart({ title, lines, marks = [], format = number, unit = "", from, to, empty }) {
  const points = lines.flatMap((each) => each.points);
  if (points.length < 2) return h("div", { class: "chart" }, h("h3", {}, title), h("p", { class: "empty" }, empty));
  const first = from ?? Math.min(...points.map(([ms]) => ms)), last = Math.max(to ?? 0, ...points.map(([ms]) => ms));
  const most = nice(Math.max(...points.map(([, value]) => value)));
  const x = (ms) => (ms - first) / Math.max(1, last - first) * WIDTH, y = (value) => HEIGHT - value / most * HEIGHT;
  const inside = marks.filter((each) => each.ms >= first && each.ms <= last);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": summary(title, lines, inside, format, unit) },
    [0.5, 1].map((each) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(each * most), y2: y(each * most) })),
    svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
    inside.map((each) => svg("line", { class: "mark", x1: x(each.ms), x2: x(each.ms), y1: 0, y2: HEIGHT }, svg("title", {}, each.text))),
    lines.flatMap((each) => runs(each.points).map((run) =>
      svg("polyline", { class: each.kind, points: run.map(([ms, value]) => `${x(ms).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }))));
  const pointed = h("span", { class: "pointed" });
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    pointed.textContent = at(first + (event.clientX - box.left) / box.width * (last - first), lines, inside, last - first, format, unit);
  });
  drawing.addEventListener("pointerleave", () => { pointed.textContent = ""; });
  return h("figure", { class: "chart" },
    h("div", { class: "chart-head" }, h("h3", {}, title),
      h("span", { class: "legend" }, lines.length > 1 ? lines.map((each) => [h("i", { class: each.kind }), each.name]) : null,
        inside.length ? [h("i", { class: "mark" }), "rebalance"] : null)),
    h("div", { class: "plot" },
      h("div", { class: "scale", "aria-hidden": "true" }, [most, most / 2, 0].map((each) => h("span", {}, format(each)))), drawing),
    h("figcaption", {}, h("span", {}, clock(first, last - first)), pointed, h("span", {}, clock(last, last - first)),
      h("span", { class: "unseen" }, summary(title, lines, inside, format, unit))));
}

function summary(title, lines, marks, format, unit) {
  const told = lines.filter((each) => each.points.length).map((each) => {
    const values = each.points.map(([, value]) => value);
    return `${lines.length > 1 ? `${each.name} ` : ""}now ${format(values[values.length - 1])}, at most ${format(Math.max(...values))}`;
  });
  return `${title}: ${told.join("; ")}${unit ? ` ${unit}` : ""}. ${marks.length ? `${number(marks.length)} rebalances are marked.` : ""}`;
}

// What the lines have where the pointer is, and the rebalance beside it.
function at(ms, lines, marks, span, format, unit) {
  const near = (points) => points.reduce((best, each) => !best || Math.abs(each[0] - ms) < Math.abs(best[0] - ms) ? each : best, null);
  const values = lines.filter((each) => each.points.length).map((each) => `${lines.length > 1 ? `${each.name} ` : ""}${format(near(each.points)[1])}`);
  const mark = marks.find((each) => Math.abs(each.ms - ms) < span / 100);
  return `${clock(ms, span)}: ${values.join(", ")}${unit ? ` ${unit}` : ""}${mark ? ` – ${shown(mark.text)}` : ""}`;
}

function runs(points) {
  const found = [];
  for (const each of points) {
    const run = found[found.length - 1];
    if (run && each[0] - run[run.length - 1][0] <= GAP_MS) run.push(each);
    else found.push([each]);
  }
  return found.map((run) => run.length > 1 ? run : [run[0], [run[0][0] + 1, run[0][1]]]);
}

// A round number to end the scale with.
function nice(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((each) => each * power >= value) * power;
}

function clock(ms, span) {
  const text = time(Math.round(ms));
  return span > 86_400_000 ? text.slice(0, 16) : text.slice(11, 19);
}

export function short(value) {
  if (value === null || value === undefined) return "–";
  const units = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];
  const [size, unit] = units.find(([each]) => Math.abs(value) >= each) ?? [1, ""];
  const scaled = unit === "k" ? value / 1000 : value / size;
  return `${scaled.toLocaleString("en", { maximumFractionDigits: Math.abs(scaled) < 10 ? 1 : 0 })}${unit}`;
}
