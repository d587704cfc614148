// A group's rebalances in time: a storm is a thicket, a calm group a few thin bars.

import { OBSERVED, count, duration, h, shown, svg, time } from "/page/dom.js";

const LANE = 18, TOP = 22, LEAST = 4, MEMBERS = 8;
const WIDE = { WIDTH: 1000, LEFT: 150, LETTERS: 20 }, NARROW = { WIDTH: 400, LEFT: 92, LETTERS: 12 };
const PHONE = window.matchMedia("(max-width: 40rem)");
const STORM_MS = 300_000, STORM_REBALANCES = 4;

export function timeline(group, chosen, choose) {
  const all = group.rebalances;
  if (!all.length) return h("p", { class: "soft" }, OBSERVED ? "Nothing is known to have happened in this time." : "No rebalance is known since the broker started.");
  const { WIDTH, LEFT, LETTERS } = PHONE.matches ? NARROW : WIDE;  // A picture that is shrunk cannot be read.
  const first = all[0].started_ms;
  const span = Math.max(group.now_ms - first, 1000);
  const x = (ms) => LEFT + (ms - first) / span * (WIDTH - LEFT - 12);
  const width = (ms) => Math.max(ms / span * (WIDTH - LEFT - 12), LEAST);
  const names = slowest(all);
  const height = TOP + LANE * (1 + names.length) + 24;
  const picture = svg("svg", { class: "timeline", viewBox: `0 0 ${WIDTH} ${height}`, role: "group",
    "aria-label": count(all.length, OBSERVED ? "event" : "rebalance") });
  for (const [from, to] of storms(all)) {
    picture.append(svg("rect", { class: "storming", x: x(from) - 3, y: 2, width: width(to - from) + 6, height: height - 22 }));
  }
  picture.append(svg("text", { x: 6, y: TOP + 10 }, OBSERVED ? "causes" : "rebalances"));
  all.forEach((each, place) => picture.append(bar(each, place, x, width, place === chosen, choose)));
  names.forEach((name, lane) => {
    const y = TOP + LANE * (lane + 1);
    picture.append(svg("text", { x: 6, y: y + 10 }, shortened(shown(name), LETTERS)));
    for (const each of all) {
      if (each.about?.includes(name)) {
        picture.append(svg("rect", { class: each.likelihood, x: x(each.started_ms), y: y + 3, width: width(each.ended_ms - each.started_ms), height: LANE - 8 },
          svg("title", {}, `${shown(name)}: ${each.cause}`)));
      }
      for (const waited of waitsOf(each).filter((one) => (one.client_id || one.member_id) === name)) {
        const kind = waited.joined ? "wait" : "vain";
        picture.append(svg("rect", { class: kind, x: x(each.started_ms), y: y + 3, width: width(waited.waited_ms), height: LANE - 8 },
          svg("title", {}, `${shown(name)}: waited for ${duration(waited.waited_ms)}${waited.joined ? "" : ", in vain"}`)));
      }
    }
  });
  const base = height - 18;
  picture.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - 8, y1: base, y2: base }),
    svg("text", { x: LEFT, y: height - 5 }, moment(first, LETTERS)),
    svg("text", { x: WIDTH - 8, y: height - 5, "text-anchor": "end" }, `now, ${duration(span)} later`));
  return h("div", { class: "wide" }, picture);
}

// For how long members waited for whom: brokers alone know it.
function waitsOf(each) {
  return each.waited_for ?? [];
}

function bar(each, place, x, width, isChosen, choose) {
  const from = x(each.started_ms);
  const label = OBSERVED ? observedLabel(each) : `generation ${each.generation_id}: ${each.cause}, ${duration(each.still_ms)}, ${each.moved} moved`;
  const pick = (event) => {
    if (event.type === "click" || event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(place); }
  };
  return svg("g", { class: isChosen ? "mark chosen" : "mark", tabindex: 0, role: "button", "aria-label": label,
    "aria-pressed": isChosen, onclick: pick, onkeydown: pick, "data-place": place },
  svg("title", {}, label),
  OBSERVED ? svg("rect", { class: each.likelihood, x: from, y: TOP, width: width(each.ended_ms - each.started_ms), height: LANE - 4 }) : phases(each, from, width));
}

function phases(each, from, width) {
  const join = width(each.join_ms), sync = width(each.sync_ms);
  return [svg("rect", { class: "join", x: from, y: TOP, width: join, height: LANE - 4 }),
    svg("rect", { class: "sync", x: from + join, y: TOP, width: Math.max(sync, 2), height: LANE - 4 })];
}

function observedLabel(each) {
  const changes = each.changes > 1 ? `, ${count(each.changes, "rebalance")}` : "", moved = each.changes ? `, ${each.moved} moved` : "";
  return `${time(each.started_ms)}: ${each.cause} (${each.likelihood})${changes}${moved}`;
}

// The clients for which the others waited longest, all rebalances together; of an observer what the causes are about most often.
function slowest(all) {
  const waits = new Map();
  for (const each of all) {
    for (const about of each.about ?? []) waits.set(about, (waits.get(about) ?? 0) + 1);
    for (const waited of waitsOf(each)) {
      const key = waited.client_id || waited.member_id;
      waits.set(key, (waits.get(key) ?? 0) + waited.waited_ms);
    }
  }
  return [...waits].sort((one, other) => other[1] - one[1]).slice(0, MEMBERS).map(([key]) => key);
}

function storms(all) {
  if (OBSERVED) return all.filter((each) => each.is_storm).map((each) => [each.started_ms, each.ended_ms]);
  const found = [];
  for (let place = 0; place + STORM_REBALANCES <= all.length; place += 1) {
    const last = all[place + STORM_REBALANCES - 1];
    if (last.started_ms - all[place].started_ms > STORM_MS) continue;
    const to = last.started_ms + last.still_ms, before = found[found.length - 1];
    if (before && all[place].started_ms <= before[1]) before[1] = Math.max(before[1], to);
    else found.push([all[place].started_ms, to]);
  }
  return found;
}

function shortened(text, letters) {
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}

// When it began; a phone has no room for the day.
function moment(ms, letters) {
  return letters < WIDE.LETTERS ? time(ms).slice(11) : time(ms);
}

export function legend() {
  if (OBSERVED) {
    return h("p", { class: "legend" }, "Each bar is something that happened; its cause is", ["certain", "likely", "possible"].map((each) => [h("i", { class: each }), each]),
      ". Below: who, or which partition, it is about. How long members waited, and for whom, brokers alone know.");
  }
  return h("p", { class: "legend" }, "Each bar is a rebalance:", h("i", { class: "join" }), "members join",
    h("i", { class: "sync" }), "the leader assigns", h("i", { class: "vain" }), "waited for in vain. Below: who was waited for.");
}
