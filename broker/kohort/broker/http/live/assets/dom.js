// Elements, and text that is shown and never obeyed: nothing on this page is made of markup from the wire.

// A page of one of several workers is at /workers/N/, that of one of several clusters of an observer at /NAME/, and so is all that it asks.
const given = (what) => document.querySelector(`meta[name=${what}]`)?.content ?? null;
export const WORKER = given("base") ?? location.pathname.match(/^\/workers\/\d+/)?.[0] ?? "";

// Whether `kohort observe` shows the page, and which clusters it names.
export const OBSERVED = given("clusters") !== null, CLUSTERS = given("clusters")?.split(" ").filter(Boolean) ?? [];

export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  return filled(element, attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

// Control characters and marks of direction are written out: they hide, and turn round what stands beside them.
export function shown(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (each) =>
    "\\u" + each.charCodeAt(0).toString(16).padStart(4, "0"));
}

export function name(text) {
  return h("bdi", { class: "name", title: shown(text) }, shown(text));
}

export function table(titles, rows, empty) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const head = titles.map(([title, kind]) => h("th", { class: kind, scope: "col" }, title));
  const body = rows.map((cells) => h("tr", {}, cells.map((cell, place) => h("td", { class: titles[place][1] }, cell))));
  return h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

// What there is to say where there is nothing to show: what it would be, and how to get it.
export function empty(title, ...text) {
  return h("div", { class: "empty" }, h("strong", {}, title), h("p", {}, ...text));
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value))));
}

// ISO 8601 in UTC. A record may have a time that no calendar has.
export function time(ms) {
  const date = new Date(ms);
  return ms < 0 ? "–" : Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString();
}

// "1 partition", "2 partitions".
export function count(value, one) {
  return `${number(value)} ${one}${value === 1 ? "" : "s"}`;
}

export function number(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (value >= 1000 && place < units.length - 1) { value /= 1000; place += 1; }
  return `${value.toLocaleString("en", { maximumFractionDigits: place ? 1 : 0 })} ${units[place]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} days`;
}

// A topic with the link to its view. An observer has none of topics.
export function topic(text) {
  return OBSERVED ? name(text) : link("topic", { name: text }, name(text));
}

export function link(view, parameters, ...children) {
  const query = new URLSearchParams(parameters).toString();
  return h("a", { href: `#/${view}${query ? `?${query}` : ""}` }, ...children);
}
