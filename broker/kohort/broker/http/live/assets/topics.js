// The list of topics, and one topic: partitions, settings, and a look at its messages.

import { chart, short } from "/page/chart.js";
import { bytes, count, facts, h, link, name, number, shown, table } from "/page/dom.js";
import { age, kind, search, state, verdict } from "/page/groups.js";
import { rates, samplesOf, since, spanField, spanOf } from "/page/history.js";
import { messages } from "/page/messages.js";
import { noTopics } from "/page/start.js";

export function topicsView(told, { set, parameters, redraw }) {
  const isFirst = !told.matching && !parameters.q && !told.unanswered?.length;
  const rows = told.topics.map((each) => [
    h("span", {}, link("topic", { name: each.name }, name(each.name)), each.internal ? h("span", { class: "soft" }, " (internal)") : null),
    number(each.partitions), number(each.replicas), number(each.records) + (each.is_partial ? "+" : ""),
    bytes(each.size_bytes) + (each.is_partial ? "+" : ""), each.offline ? h("span", { class: "bad" }, `${each.offline} offline`) : h("span", { class: "good" }, "ok"),
  ]);
  return [
    h("h1", {}, "Topics"),
    isFirst ? noTopics(redraw) : null,
    h("div", { class: "tools" }, search(parameters, set, "Search topics"),
      h("label", {}, h("input", { type: "checkbox", checked: parameters.internal === "1" ? "" : null,
        onchange: (event) => set({ internal: event.target.checked ? "1" : "" }) }), " internal ones"),
      h("span", { class: "soft" }, `${number(told.topics.length)} of ${number(told.matching)} shown`)),
    isFirst ? null : table([["Topic"], ["Partitions", "number"], ["Replicas", "number phone-off"], ["Records", "number"], ["Size", "number"], ["State"]],
      rows, `No topic has “${shown(parameters.q ?? "")}” in its name.`),
  ];
}

export function topicView(told, context) {
  const rows = told.partitions.map((each) => [
    number(each.index), each.leader < 0 ? h("span", { class: "bad" }, "none") : number(each.leader), each.replicas.join(", "),
    h("span", { class: each.isr.length < each.replicas.length ? "warn" : null }, each.isr.join(", ")),
    each.offline ? h("span", { class: "bad" }, shown(each.offline)) : number(each.log_start_offset), number(each.high_watermark),
    bytes(each.size_bytes),
    h("button", { type: "button", onclick: () => context.set({ partition: each.index, offset: "", time: "", positions: "" }) , "aria-label": `Messages of partition ${each.index}` }, "Show"),
  ]);
  const own = told.settings.filter((each) => each.is_set), others = told.settings.filter((each) => !each.is_set);
  const setting = (each) => [shown(each.name), shown(each.value ?? "–")];
  return [
    h("h1", {}, link("topics", {}, "Topics"), " / ", name(told.name)),
    overview(told),
    h("p", { class: "soft small" }, `Topic id ${told.topic_id}`),
    charts(told, context),
    h("h2", {}, "Groups that read it"), readers(told),
    h("h2", {}, "Partitions"),
    table([["Partition", "number"], ["Leader", "number"], ["Replicas", "phone-off"], ["In sync", "phone-off"], ["Begins", "number phone-off"], ["Ends", "number"],
      ["Size", "number"], ["Messages"]], rows, "It has no partitions."),
    told.partition_count > told.partitions.length ? h("p", { class: "soft" }, `The first ${count(told.partitions.length, "partition")} are shown.`) : null,
    h("h2", { id: "messages-title" }, "Messages"), messages(told, context),
    h("h2", {}, "Settings"), table([["Set for this topic"], ["Value"]], own.map(setting), "Nothing is set for this topic."),
    h("details", { id: "defaults" }, h("summary", {}, count(others.length, "default")), table([["Setting"], ["Value"]], others.map(setting), "")),
  ];
}

function overview(told) {
  const sum = (value) => told.partitions.reduce((all, each) => all + (value(each) ?? 0), 0);
  const [set] = told.settings.filter((each) => each.name === "cleanup.policy"), [retention] = told.settings.filter((each) => each.name === "retention.ms");
  const isPartial = told.partition_count > told.partitions.length ? "+" : "";
  return facts([
    ["Records", number(sum((each) => each.high_watermark - each.log_start_offset || 0)) + isPartial], ["Size", bytes(sum((each) => each.size_bytes)) + isPartial],
    ["Partitions", number(told.partition_count)], ["Replicas", number(told.partitions[0]?.replicas.length)],
    ["Cleaned by", shown(set?.value ?? "–")], ["Kept for", kept(retention?.value)],
  ]);
}

function kept(ms) {
  const value = Number(ms);
  if (ms === undefined || ms === null) return "–";
  return value < 0 ? "ever" : value >= 172_800_000 ? `${number(Math.round(value / 86_400_000))} days` : `${number(Math.round(value / 60_000))} min`;
}

function charts(told, { parameters, set, redraw }) {
  const samples = samplesOf("topic", told.name, redraw);
  const from = Date.now() - spanOf(parameters);
  const written = since(rates(samples, (each) => each.position), from);
  return [
    h("div", { class: "title-row" }, h("h2", {}, "Over time"), spanField(parameters, set)),
    h("div", { class: "charts" },
      chart({ title: "Records written a second", format: short, lines: [{ name: "written", kind: "one", points: written }],
        empty: "The chart begins with the third sample, in half a minute. The broker keeps an hour of what somebody looks at." }),
      chart({ title: "Size", format: bytes, lines: [{ name: "size", kind: "two", points: since(samples.map((each) => [each.ms, each.amount]), from) }],
        empty: "The chart begins with the second sample, in some seconds." })),
  ];
}

function readers(told) {
  const rows = told.readers.map((each) => [
    link("group", { id: each.group_id }, name(each.group_id)), kind(each.type), state(each.state), number(each.members), number(each.lag), age(each.lag_seconds), verdict(each.verdict),
  ]);
  return [table([["Group"], ["Type", "phone-off"], ["State", "phone-off"], ["Members", "number phone-off"], ["Lag here", "number"], ["Age", "number"], ["Verdict"]], rows,
    "No group has read it. A group is listed once a member subscribes or commits."),
    told.readers_left_out ? h("p", { class: "soft" }, `${count(told.readers_left_out, "more group")} not shown.`) : null];
}
