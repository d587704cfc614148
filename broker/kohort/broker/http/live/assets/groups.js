// The list of groups, and one group: who owns what, how far it is, and the story of its rebalances.

import { chart, short } from "/page/chart.js";
import { OBSERVED, count, duration, facts, h, link, name, number, shown, table, time, topic as topicLink } from "/page/dom.js";
import { rates, samplesOf, since, spanField, spanOf } from "/page/history.js";
import { commits, hoursField, inShort, notices, observedStart, unknown } from "/page/observed.js";
import { deliveries } from "/page/share.js";
import { firstSteps } from "/page/start.js";
import { legend, timeline } from "/page/timeline.js";
import { growth, line, note, words } from "/page/trend.js";
import { changes, removal } from "/page/write.js";

const STATES = { Stable: "good", Empty: "soft", PreparingRebalance: "warn", CompletingRebalance: "warn", Dead: "bad" };
const VERDICTS = { OK: "good", WARN: "warn" };

export function groupsView(told, { set, parameters, redraw }) {
  const title = h("h1", {}, "Groups");
  if (!told.total && !told.loading && !told.unanswered?.length) return [title, OBSERVED ? observedStart(told) : firstSteps(redraw)];
  const rows = told.groups.map((each) => {
    const looks = looksOf(`group ${each.group_id}`, each.lag);
    return [
      h("span", {}, link("group", { id: each.group_id }, name(each.group_id)), " ", stormBadge(each.storm)),
      kind(each.type), state(each.state), number(each.members), number(each.lag), age(each.lag_seconds),
      trend(looks), verdict(each.verdict), shown(each.cause).replaceAll("_", " ") || "–",
    ];
  });
  const states = Object.entries(told.by_state).map(([each, count]) => `${number(count)} ${each}`).join(", ");
  return [
    title,
    OBSERVED ? notices(told) : null,
    h("div", { class: "tools" },
      search(parameters, set, "Search groups"),
      h("label", {}, "by ", h("select", { onchange: (event) => set({ order: event.target.value }), "aria-label": "Order" },
        ["lag", "name", "members", "state"].map((each) =>
          h("option", { value: each, selected: (parameters.order ?? "lag") === each ? "" : null }, each)))),
      h("span", { class: "soft" }, `${number(told.groups.length)} of ${number(told.matching)} shown`,
        told.matching < told.total ? ` (${number(told.total)} in all)` : "", states ? `: ${states}` : "")),
    told.loading ? h("p", { class: "warn" }, `The groups of ${count(told.loading, "partition")} of __consumer_offsets are being loaded.`) : null,
    table([["Group"], ["Type", "phone-off"], ["State", "phone-off"], ["Members", "number phone-off"], ["Lag", "number"], ["Age", "number phone-off"], ["Trend"],
      ["Verdict"], ["Last cause", "phone-off"]], rows, told.total ? `No group has “${shown(parameters.q ?? "")}” in its name.` : "No group is here."),
  ];
}

export function search(parameters, set, label) {
  return h("input", { type: "search", id: "search", value: parameters.q ?? "", placeholder: label, "aria-label": label,
    autocomplete: "off", oninput: (event) => set({ q: event.target.value }) });
}

function stormBadge(count) {
  return count ? h("span", { class: "badge storm" }, OBSERVED ? `storm: ${count} rebalances` : `storm: ${count} in 5 min`) : null;
}

export function kind(text) {
  return h("span", { class: "soft" }, shown(text));
}

export function state(text) {
  return h("span", { class: STATES[text] ?? "" }, shown(text));
}

export function verdict(text) {
  return text ? h("span", { class: `badge ${VERDICTS[text] ?? "bad"}` }, shown(text)) : "–";
}

// The lag at all looks; none while it is not known.
function looksOf(key, lag) {
  return lag === null || lag === undefined ? [] : note(key, lag);
}

// A line takes two looks; the second comes within seconds.
function trend(looks) {
  if (!looks.length) return "–";
  return looks.length < 2 ? h("span", { class: "soft" }, "…") : h("span", {}, line(looks), " ", words(growth(looks)));
}

export function age(seconds) {
  return seconds === null || seconds === undefined ? "–" : duration(seconds * 1000);
}

export function groupView(told, { set, parameters, redraw }) {
  const looks = looksOf(`group ${told.group_id}`, told.lag);
  const chosen = Math.min(Number(parameters.rebalance ?? told.rebalances.length - 1), told.rebalances.length - 1);
  return [
    h("h1", {}, link("groups", {}, "Groups"), " / ", name(told.group_id), " ", stormBadge(told.storm)),
    facts([
      ["State", state(told.state)], ["Type", shown(told.type)], ["Generation", number(told.generation_id)], ["Members", number(told.members.length + told.members_left_out)],
      ["Assignor", shown(told.protocol_name ?? "–")], ["Lag", h("span", {}, number(told.lag), h("br"), h("span", { class: "small soft" }, trend(looks)))], ["Oldest unread", age(told.lag_seconds)],
      ["Verdict", verdict(told.verdict)],
    ]),
    changes(told),
    told.rebalance ? ongoing(told.rebalance) : null,
    OBSERVED ? h("div", { class: "title-row" }, h("h2", {}, "What happened, and why"), hoursField(told, set)) : h("h2", {}, "Rebalances"),
    timeline(told, chosen, (place) => set({ rebalance: place })),
    told.rebalances.length ? legend() : null,
    told.rebalances.length ? story(told.rebalances[chosen], told.time_zone) : null,
    OBSERVED ? inShort(told) : null,
    charts(told, looks, parameters, set, redraw),
    told.type === "share" && !OBSERVED ? [h("h2", {}, "Records in hands"), deliveries(told, redraw)] : null,
    h("h2", {}, "Who owns what"), members(told),
    h("h2", {}, "Offsets"), offsets(told),
    OBSERVED ? unknown(told) : null,
  ];
}

// The broker's samples, followed by the lag that this page has seen since.
function charts(told, looks, parameters, set, redraw) {
  const samples = samplesOf("group", told.group_id, redraw), from = told.now_ms - spanOf(parameters);
  const last = samples.length ? samples[samples.length - 1].ms : 0;
  const lag = [...samples.map((each) => [each.ms, each.amount]), ...looks.filter(([ms]) => ms > last)];
  const marks = told.rebalances.filter((each) => !OBSERVED || each.changes).map((each) => ({ ms: each.started_ms, text: `rebalance ${each.cause.replaceAll("_", " ")}, ${time(each.started_ms)}` }));
  const rate = (value) => since(rates(samples, value), from), shownLag = since(lag, from);
  const range = { from: shownLag[0]?.[0], to: told.now_ms };  // Both charts have the same time range.
  return [
    h("div", { class: "title-row" }, h("h2", {}, "Over time"), spanField(parameters, set)),
    h("div", { class: "charts" },
      chart({ title: "Lag", unit: "records", format: short, lines: [{ name: "lag", kind: "one", points: shownLag }], marks, ...range,
        empty: "The chart begins with the second look at the group, in some seconds." }),
      told.type === "share" ? null : chart({ title: "Records a second", format: short, marks, ...range,
        lines: [{ name: "written", kind: "two", points: rate((each) => each.position + each.amount) }, { name: "read", kind: "one", points: rate((each) => each.position) }],
        empty: `The chart begins with the third sample, in half a minute. The ${OBSERVED ? "observer keeps an hour" : "broker keeps an hour of what somebody looks at"}.` })),
  ];
}

function ongoing(rebalance) {
  const waits = rebalance.waits_for_member_ids.slice(0, 10).map(shown).join(", ");
  return h("p", { class: "warn", role: "alert" },
    `A rebalance is under way for ${duration(rebalance.ongoing_ms)} (${rebalance.cause.kind}).`,
    waits ? ` It waits for ${waits}.` : "");
}

// The text has the times of the one that wrote it; all other times on the page are UTC.
function story(report, zone) {
  return h("div", { class: "story", id: "story", "aria-live": "polite" }, report.story.map((text) =>
    h("p", { class: rank(text) }, shown(text))), zone ? h("p", { class: "soft small" }, `Times in this text: ${shown(zone)}.`) : null);
}

// What is to be changed, and what an observer holds for the cause, stand out; what the cause rests on stands back.
function rank(text) {
  if (/^ *(What to change:|(Cause|And|Or) \()/.test(text)) return "advice";
  return OBSERVED && text.startsWith("    ") ? "evidence" : null;
}

function members(told) {
  const rows = told.members.map((each) => [
    h("span", {}, name(each.client_id || each.member_id), each.is_leader ? " (leader)" : "",
      h("br"), h("span", { class: "soft" }, name(each.group_instance_id ?? each.member_id))),
    shown(each.client_host), number(each.partitions.length), owned(each.partitions),
    OBSERVED ? commits(each, told) : h("span", {}, each.waits_for ? `waits for ${shown(each.waits_for)}` : `${duration(each.session_left_ms)} of ${duration(each.session_timeout_ms)} left`,
      " ", removal(told, each)),
  ]);
  return [table([["Member"], ["Host", "phone-off"], ["Partitions", OBSERVED ? "number phone-off" : "number"], ["Owns"], OBSERVED ? ["Commits"] : ["Session", "phone-off"]], rows, "Nobody is in it."),
    leftOut(told.members_left_out, "member")];
}

function owned(partitions) {
  const topics = new Map();
  for (const [topic, index] of partitions) topics.set(topic, [...topics.get(topic) ?? [], index]);
  return [...topics].slice(0, 20).map(([topic, indexes]) =>
    h("div", {}, topicLink(topic), ` ${ranges(indexes)}`));
}

export function ranges(indexes) {
  const found = [];
  for (const each of [...indexes].sort((one, other) => one - other)) {
    const last = found[found.length - 1];
    if (last && last[1] === each - 1) last[1] = each;
    else found.push([each, each]);
  }
  return found.map(([low, high]) => low === high ? low : `${low}–${high}`).join(", ");
}

function offsets(told) {
  const owners = new Map();
  for (const member of told.members) {
    for (const [topic, index] of member.partitions) owners.set(JSON.stringify([topic, index]), member.client_id || member.member_id);
  }
  const rows = told.offsets.map((each) => {
    const looks = looksOf(`group ${told.group_id} ${each.topic} ${each.partition}`, each.lag);
    const owner = owners.get(JSON.stringify([each.topic, each.partition]));
    return [h("span", {}, topicLink(each.topic), ` ${each.partition}`), owner ? name(owner) : "nobody",
      number(each.offset), number(each.end_offset), number(each.lag), age(each.lag_seconds), looks.length ? words(growth(looks)) : "–", verdict(each.verdict)];
  });
  return [table([["Partition"], ["Read by", "phone-off"], ["Committed", "number phone-off"], ["End", "number phone-off"], ["Lag", "number"],
    ["Age", "number phone-off"], ["Trend"], ["Verdict"]], rows, "It has committed nothing."), leftOut(told.offsets_left_out, "partition")];
}

function leftOut(left, what) {
  return left ? h("p", { class: "soft" }, `${count(left, what)} more ${left === 1 ? "is" : "are"} not shown.`) : null;
}
