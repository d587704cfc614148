// A group's rebalances in time: a storm is a thicket, a calm group a few thin bars.

import { count, duration, h, shown, svg, time } from "/page/dom.js";

const LANE = 18, TOP = 22, LEAST = 4, MEMBERS = 8;
const WIDE = { WIDTH: 1000, LEFT: 150, LETTERS: 20 }, NARROW = { WIDTH: 400, LEFT: 92, LETTERS: 12 };
const PHONE = window.matchMedia("(max-width: 40rem)");
const STORM_MS = 300_000, STORM_REBALANCES = 4;

export function timeline(group, chosen, choose) {
  const all = group.rebalances;
  if (!all.length) return h("p", { class: "soft" }, "No rebalance is known since the broker started.");
  const { WIDTH, LEFT, LETTERS } = PHONE.matches ? NARROW : WIDE;  // A picture that is shrunk cannot be read.
  const first = all[0].started_ms;
  const span = Math.max(group.now_ms - first, 1000);
  const x = (ms) => LEFT + (ms - first) / span * (WIDTH - LEFT - 12);
  const width = (ms) => Math.max(ms / span * (WIDTH - LEFT - 12), LEAST);
  const names = slowest(all);
  const height = TOP + LANE * (1 + names.length) + 24;
  const picture = svg("svg", { class: "timeline", viewBox: `0 0 ${WIDTH} ${height}`, role: "group",
    "aria-label": count(all.length, "rebalance") });
  for (const [from, to] of storms(all)) {
    picture.append(svg("rect", { class: "storming", x: x(from) - 3, y: 2, width: width(to - from) + 6, height: height - 22 }));
  }
  picture.append(svg("text", { x: 6, y: TOP + 10 }, "rebalances"));
  all.forEach((each, place) => picture.append(bar(each, place, x, width, place === chosen, choose)));
  names.forEach((name, lane) => {
    const y = TOP + LANE * (lane + 1);
    picture.append(svg("text", { x: 6, y: y + 10 }, shortened(shown(name), LETTERS)));
    for (const each of all) {
      for (const waited of each.waited_for.filter((one) => (one.client_id || one.member_id) === name)) {
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

function bar(each, place, x, width, isChosen, choose) {
  const from = x(each.started_ms), join = width(each.join_ms), sync = width(each.sync_ms);
  const label = `generation ${each.generation_id}: ${each.cause}, ${duration(each.still_ms)}, ${each.moved} moved`;
  const pick = (event) => {
    if (event.type === "click" || event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(place); }
  };
  return svg("g", { class: isChosen ? "mark chosen" : "mark", tabindex: 0, role: "button", "aria-label": label,
    "aria-pressed": isChosen, onclick: pick, onkeydown: pick, "data-place": place },
  svg("title", {}, label),
  svg("rect", { class: "join", x: from, y: TOP, width: join, height: LANE - 4 }),
  svg("rect", { class: "sync", x: from + join, y: TOP, width: Math.max(sync, 2), height: LANE - 4 }));
}

// The clients for which the others waited longest, all rebalances together.
function slowest(all) {
  const waits = new Map();
  for (const each of all) {
    for (const waited of each.waited_for) {
      const key = waited.client_id || waited.member_id;
      waits.set(key, (waits.get(key) ?? 0) + waited.waited_ms);
    }
  }
  return [...waits].sort((one, other) => other[1] - one[1]).slice(0, MEMBERS).map(([key]) => key);
}

function storms(all) {
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
  return h("p", { class: "legend" }, "Each bar is a rebalance:", h("i", { class: "join" }), "members join",
    h("i", { class: "sync" }), "the leader assigns", h("i", { class: "vain" }), "waited for in vain. Below: who was waited for.");
}
