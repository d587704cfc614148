// The list of topics, and one topic: partitions, settings, and a look at its messages.

import { bytes, count, h, link, name, number, shown, table } from "/page/dom.js";
import { search } from "/page/groups.js";
import { messages } from "/page/messages.js";

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
    h("button", { type: "button", onclick: () => context.set({ partition: each.index, offset: "", time: "", positions: "" }) , "aria-label": `Messages of partition ${each.index}` }, "View messages"),
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
    h("h2", { id: "messages-title" }, "Messages"), messages(told, context),
    h("h2", {}, "Settings"), table([["Set for this topic"], ["Value"]], own.map(setting), "Nothing is set for this topic."),
    h("details", { id: "defaults" }, h("summary", {}, count(others.length, "default")), table([["Setting"], ["Value"]], others.map(setting), "")),
  ];
}
