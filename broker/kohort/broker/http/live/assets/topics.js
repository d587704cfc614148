// The list of topics, and one topic: partitions, settings, and a look at its messages.

import { WORKER, bytes, count, h, link, name, number, shown, table, time } from "/page/dom.js";
import { search } from "/page/groups.js";

export function topicsView(told, { set, parameters }) {
  const rows = told.topics.map((each) => [
    h("span", {}, link("topic", { name: each.name }, name(each.name)), each.internal ? h("span", { class: "soft" }, " (internal)") : null),
    number(each.partitions), number(each.replicas), number(each.records) + (each.is_partial ? "+" : ""),
    bytes(each.size_bytes) + (each.is_partial ? "+" : ""), each.offline ? h("span", { class: "bad" }, `${each.offline} offline`) : h("span", { class: "good" }, "ok"),
  ]);
  return [
    h("h1", {}, "Topics"),
    h("div", { class: "tools" }, search(parameters, set, "Search topics"),
      h("label", {}, h("input", { type: "checkbox", checked: parameters.internal === "1" ? "" : null,
        onchange: (event) => set({ internal: event.target.checked ? "1" : "" }) }), " internal ones"),
      h("span", { class: "soft" }, `${number(told.topics.length)} of ${number(told.matching)} shown`)),
    table([["Topic"], ["Partitions", "number"], ["Replicas", "number phone-off"], ["Records", "number"], ["Size", "number"], ["State"]],
      rows, "No topic is here."),
  ];
}

export function topicView(told, context) {
  const rows = told.partitions.map((each) => [
    number(each.index), each.leader < 0 ? h("span", { class: "bad" }, "none") : number(each.leader), each.replicas.join(", "),
    h("span", { class: each.isr.length < each.replicas.length ? "warn" : null }, each.isr.join(", ")),
    each.offline ? h("span", { class: "bad" }, shown(each.offline)) : number(each.log_start_offset), number(each.high_watermark),
    bytes(each.size_bytes),
    h("button", { type: "button", onclick: () => context.set({ partition: each.index, offset: "", time: "" }) , "aria-label": `Messages of partition ${each.index}` }, "View messages"),
  ]);
  const own = told.settings.filter((each) => each.is_set), others = told.settings.filter((each) => !each.is_set);
  const setting = (each) => [shown(each.name), shown(each.value ?? "–")];
  return [
    h("h1", {}, link("topics", {}, "Topics"), " / ", name(told.name)),
    h("p", { class: "soft" }, `Topic id ${told.topic_id}, ${count(told.partition_count, "partition")}`),
    h("h2", {}, "Partitions"),
    table([["Partition", "number"], ["Leader", "number"], ["Replicas", "phone-off"], ["In sync", "phone-off"], ["Begins", "number"], ["Ends", "number"],
      ["Size", "number"], ["Messages"]], rows, "It has no partitions."),
    told.partition_count > told.partitions.length ? h("p", { class: "soft" }, `The first ${count(told.partitions.length, "partition")} are shown.`) : null,
    h("h2", {}, "Messages"), messages(told, context),
    h("h2", {}, "Settings"), table([["Set for this topic"], ["Value"]], own.map(setting), "Nothing is set for this topic."),
    h("details", { id: "defaults" }, h("summary", {}, count(others.length, "default")), table([["Setting"], ["Value"]], others.map(setting), "")),
  ];
}

const FORMS = ["JSON", "text", "hex"];

// The records of one partition: where to begin, what they have to contain, and how they are shown.
function messages(told, { parameters, set }) {
  const first = told.partitions.find((each) => each.high_watermark > each.log_start_offset)?.index ?? 0;
  const asked = { partition: Number(parameters.partition ?? first), offset: parameters.offset ?? "", time: parameters.time ?? "",
    contains: parameters.contains ?? "" };
  const form = FORMS.includes(parameters.form) ? parameters.form : FORMS[0];
  const place = h("div", { id: "messages" });
  const field = (title, attributes, name) => h("label", {}, `${title} `, h("input", { ...attributes, value: asked[name], "aria-label": title,
    onchange: (event) => set({ [name]: event.target.value, ...(name === "offset" ? { time: "" } : {}), ...(name === "time" ? { offset: "" } : {}) }) }));
  load(place, told.name, asked, form, set);
  return [h("div", { class: "tools" },
    field("partition", { type: "number", min: 0, max: Math.max(0, told.partition_count - 1) }, "partition"),
    field("from offset", { type: "number", placeholder: "-50 (the last 50)" }, "offset"),
    field("from time (UTC)", { type: "text", placeholder: "2026-01-31 12:00:00" }, "time"),
    field("contains", { type: "search", placeholder: "in key, value or headers" }, "contains"),
    h("label", {}, "as ", h("select", { "aria-label": "Shown as", onchange: (event) => set({ form: event.target.value }) },
      FORMS.map((each) => h("option", { value: each, selected: each === form ? "" : null }, each)))),
    h("button", { type: "button", onclick: () => load(place, told.name, asked, form, set) }, "Reload")), place];
}

async function load(place, topic, asked, form, set) {
  const query = new URLSearchParams({ partition: asked.partition });
  if (asked.offset !== "") query.set("offset", asked.offset);
  if (asked.time !== "") query.set("time", Date.parse(`${asked.time.trim().replace(/ +/, "T").replace(/Z$/, "")}Z`));
  if (asked.contains !== "") query.set("q", asked.contains);
  if (query.get("time") === "NaN") {
    place.replaceChildren(h("p", { class: "bad" }, `${shown(asked.time)} is no time: write 2026-01-31 12:00:00, in UTC.`));
    return;
  }
  let told;
  try {
    const answer = await fetch(`${WORKER}/api/v1/live/messages/${encodeURIComponent(topic)}?${query}`);
    told = await answer.json();
  } catch {
    told = { error: "the broker does not answer" };
  }
  if (told.error) {
    place.replaceChildren(h("p", { class: "bad" }, shown(told.error)));
    return;
  }
  const found = asked.contains === "" ? "" : ` ${count(told.records.length, "record")} of ${number(told.searched)} searched.`;
  const isMore = told.next_offset < told.high_watermark;
  place.replaceChildren(...[
    h("p", { class: "soft" }, `Offsets ${number(told.log_start_offset)} to ${number(told.high_watermark)}; shown from ${number(told.offset)}.${found}`),
    told.problem ? h("p", { class: "bad" }, shown(told.problem)) : null,
    told.records.length ? records(told.records, form) : h("p", { class: "soft" }, "There is no such record here."),
    isMore ? h("button", { type: "button", onclick: () => set({ offset: told.next_offset, time: "" }) }, `Go on at offset ${number(told.next_offset)}`) : null,
  ].filter(Boolean));
}

// One line for each record; its button opens all that there is of it.
function records(all, form) {
  const titles = [["", ""], ["Offset", "number"], ["Time", "phone-off"], ["Key", ""], ["Value", ""], ["Headers", "number phone-off"]];
  const rows = all.flatMap((record) => {
    const whole = h("tr", { hidden: "" }, h("td", { colspan: titles.length }, details(record, form)));
    const open = h("button", { type: "button", class: "open", "aria-expanded": "false", "aria-label": `Record ${record.offset}`,
      onclick: () => {
        whole.hidden = !whole.hidden;
        open.setAttribute("aria-expanded", String(!whole.hidden));
        open.textContent = whole.hidden ? "+" : "–";
      } }, "+");
    const cells = [open, number(record.offset), time(record.timestamp_ms), line(record.key, form), line(record.value, form),
      number(record.headers.length + record.headers_left_out)];
    return [h("tr", {}, cells.map((cell, index) => h("td", { class: titles[index][1] }, cell))), whole];
  });
  const head = h("tr", {}, titles.map(([title, kind]) => h("th", { class: kind, scope: "col" }, title)));
  return h("div", { class: "wide" }, h("table", { class: "records" }, h("thead", {}, head), h("tbody", {}, rows)));
}

function line(value, form) {
  if (value === null) return h("span", { class: "soft" }, "null");
  const isText = value.text !== null && form !== "hex";
  return h("div", { class: "line" }, isText ? shown(value.text.slice(0, 300)) : spaced(value.hex.slice(0, 200)));
}

function details(record, form) {
  const headers = record.headers.map(([title, value]) => [h("div", {}, "Header ", name(title)), data(value, form)]);
  return h("div", { class: "record" }, h("div", {}, "Key"), data(record.key, form), h("div", {}, "Value"), data(record.value, form), ...headers.flat(),
    record.headers_left_out ? h("div", { class: "soft" }, `${count(record.headers_left_out, "more header")} left out`) : null);
}

// JSON in lines where it is JSON, text where it is text, else hexadecimal digits; the title says which.
function data(value, form) {
  if (value === null) return h("span", { class: "soft" }, "null");
  const isCut = value.size * 2 > value.hex.length;
  const laidOut = form === "JSON" && value.text !== null ? json(value.text) : null;
  const isText = form !== "hex" && value.text !== null;
  const kind = laidOut !== null ? "JSON" : isText ? "text" : "hex";
  return h("div", {}, h("pre", { tabindex: 0 }, laidOut ?? (isText ? lines(value.text) : spaced(value.hex))),
    h("span", { class: "soft" }, `${kind}, ${bytes(value.size)}${isCut ? ", cut" : ""}`));
}

function spaced(hex) {
  return hex.replace(/(..)/g, "$1 ").trim();
}

function lines(text) {
  return text.split("\n").map((each) => each.split("\t").map(shown).join("\t")).join("\n");
}

function json(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? lines(indented(text)) : null;
  } catch {
    return null;
  }
}

// Valid JSON over several lines. Its literals stay as they are written: JavaScript would round large numbers.
function indented(text) {
  let depth = 0, before = "", found = "";
  for (const part of text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const isEnd = part === "}" || part === "]", isBegun = before === "{" || before === "[";
    depth -= isEnd;
    if (isEnd ? !isBegun : isBegun || before === ",") found += `\n${"  ".repeat(depth)}`;
    found += part === ":" ? ": " : part;
    depth += part === "{" || part === "[";
    before = part;
  }
  return found;
}
