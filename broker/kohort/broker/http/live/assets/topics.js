// The list of topics, and one topic: partitions, settings, and a look at its messages.

import { WORKER, bytes, h, link, name, number, shown, table } from "/page/dom.js";
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
    h("button", { type: "button", onclick: () => context.set({ partition: each.index, offset: "" }) , "aria-label": `Messages of partition ${each.index}` }, "View messages"),
  ]);
  const own = told.settings.filter((each) => each.is_set), others = told.settings.filter((each) => !each.is_set);
  const setting = (each) => [shown(each.name), shown(each.value ?? "–")];
  return [
    h("h1", {}, link("topics", {}, "Topics"), " / ", name(told.name)),
    h("p", { class: "soft" }, `Topic id ${told.topic_id}, ${number(told.partition_count)} partitions`),
    h("h2", {}, "Partitions"),
    table([["Partition", "number"], ["Leader", "number"], ["Replicas", "phone-off"], ["In sync", "phone-off"], ["Begins", "number"], ["Ends", "number"],
      ["Size", "number"], ["Messages"]], rows, "It has no partitions."),
    told.partition_count > told.partitions.length ? h("p", { class: "soft" }, `The first ${told.partitions.length} are shown.`) : null,
    h("h2", {}, "Messages"), messages(told, context),
    h("h2", {}, "Settings"), table([["Set for this topic"], ["Value"]], own.map(setting), "Nothing is set for this topic."),
    h("details", {}, h("summary", {}, `${others.length} defaults`), table([["Setting"], ["Value"]], others.map(setting), "")),
  ];
}

function messages(told, { parameters, set }) {
  const first = told.partitions.find((each) => each.high_watermark > each.log_start_offset)?.index ?? 0;
  const partition = Number(parameters.partition ?? first), offset = parameters.offset || "";
  const place = h("div", { id: "messages" });
  const form = h("div", { class: "tools" },
    h("label", {}, "partition ", h("input", { type: "number", min: 0, max: Math.max(0, told.partition_count - 1), value: partition,
      onchange: (event) => set({ partition: event.target.value, offset: "" }) })),
    h("label", {}, "from offset ", h("input", { type: "number", value: offset, placeholder: "the last 50",
      onchange: (event) => set({ offset: event.target.value }) })),
    h("button", { type: "button", onclick: () => load(place, told.name, partition, offset) }, "Reload"));
  load(place, told.name, partition, offset);
  return [form, place];
}

async function load(place, topic, partition, offset) {
  const query = new URLSearchParams({ partition, ...(offset === "" ? {} : { offset }) });
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
  const rows = told.records.map((each) => [number(each.offset), time(each.timestamp_ms), data(each.key), data(each.value), headers(each)]);
  place.replaceChildren(...[
    h("p", { class: "soft" }, `Offsets ${number(told.log_start_offset)} to ${number(told.high_watermark)}; shown from ${number(told.offset)}.`),
    told.problem ? h("p", { class: "bad" }, shown(told.problem)) : null,
    table([["Offset", "number"], ["Time", "phone-off"], ["Key"], ["Value"], ["Headers", "phone-off"]], rows, "There is no record here."),
  ].filter(Boolean));
}

function time(ms) {
  return ms < 0 ? "–" : new Date(ms).toLocaleString();
}

function headers(record) {
  return [...record.headers.map(([title, value]) => h("div", {}, name(title), ": ", data(value))),
    record.headers_left_out ? h("div", { class: "soft" }, `and ${record.headers_left_out} more`) : null];
}

// Text as it is, JSON set in lines, anything else in hexadecimal digits; a choice where there is one.
function data(value) {
  if (value === null) return h("span", { class: "soft" }, "null");
  const forms = [];
  if (value.text !== null) {
    const laidOut = json(value.text);
    if (laidOut !== null) forms.push(["JSON", laidOut]);
    forms.push(["text", lines(value.text)]);
  }
  forms.push(["hex", value.hex.replace(/(..)/g, "$1 ").trim()]);
  const box = h("pre", { tabindex: 0 }, forms[0][1]);
  const more = value.size * 2 > value.hex.length ? h("span", { class: "soft" }, ` (${bytes(value.size)}, cut)`) : null;
  const choice = h("select", { "aria-label": "Shown as", onchange: (event) => { box.textContent = forms[event.target.value][1]; } },
    forms.map(([title], index) => h("option", { value: index }, title)));
  return h("div", {}, box, choice, more);
}

function lines(text) {
  return text.split("\n").map((each) => each.split("\t").map(shown).join("\t")).join("\n");
}

function json(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? lines(JSON.stringify(value, null, 2)) : null;
  } catch {
    return null;
  }
}
