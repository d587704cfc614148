// Transactional ids of the cluster: which transactions are open, and for how long.

import { count, duration, empty, facts, h, link, name, number, shown, table, time } from "/page/dom.js";
import { ranges } from "/page/groups.js";

export function transactionsView(told) {
  return [
    h("h1", {}, "Transactions"),
    facts([["Open", number(told.open)], ["Transactional ids", number(told.total)]]),
    told.loading ? h("p", { class: "warn" }, "Some coordinators are loading their transactions.") : null,
    told.transactions.length ? table([["Transactional id"], ["State"], ["Open for", "number"], ["Time-out", "number phone-off"], ["Producer", "number phone-off"], ["Partitions", "phone-off"]],
      told.transactions.map((each) => row(each, told.now_ms)), "")
      : empty("No transactional id yet", "A producer with a transactional.id is listed here. A transaction that stays open holds readers of committed records back: it comes first."),
    told.total > told.transactions.length ? h("p", { class: "soft" }, `${count(told.total - told.transactions.length, "more id")} not shown.`) : null,
  ];
}

function row(each, nowMs) {
  const age = each.started_ms === null || !each.is_open ? null : nowMs - each.started_ms;
  const isLate = age !== null && age > each.timeout_ms;
  return [
    name(each.transactional_id), h("span", { class: each.is_open ? "warn" : "soft" }, shown(each.state)),
    h("span", { class: isLate ? "bad" : null, title: each.started_ms === null ? null : time(each.started_ms) }, duration(age)), duration(each.timeout_ms),
    `${each.producer_id}, epoch ${each.producer_epoch}`,
    h("span", {}, each.topics.map(([topic, indexes]) => h("div", {}, link("topic", { name: topic }, name(topic)), ` ${ranges(indexes)}`)),
      each.topics_left_out ? `and ${count(each.topics_left_out, "more topic")}` : each.topics.length ? null : "–"),
  ];
}
