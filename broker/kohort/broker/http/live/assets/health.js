// The cluster's brokers, and how one of them fares: the one that serves this page, or the one that was chosen.

import { bytes, count, facts, h, link, name, number, shown, table } from "/page/dom.js";

// A broker alone tells of itself; in a cluster each has been asked.
function state(broker, told) {
  if (broker.silent) return h("span", { class: "bad" }, `does not answer: ${shown(broker.silent)}`);
  const reasons = broker.node_id === told.node_id ? told.reasons : broker.reasons;
  if (!reasons) return "–";
  return reasons.length ? h("span", { class: "bad" }, reasons.map(shown).join("; ")) : h("span", { class: "good" }, "ready");
}

export function healthView(told) {
  const { disk } = told;
  return [
    h("h1", {}, "Brokers"),
    table([["Id", "number"], ["Address"], ["Leads", "number"], ["Replicas", "number phone-off"], ["In sync", "number"], ["Rack", "phone-off"], ["State"]],
      told.brokers.map((each) => row(each, told)), "No broker is known."),
    h("h2", {}, `Broker ${told.node_id}`),
    told.reasons.length
      ? h("div", { class: "bad", role: "alert" }, h("p", {}, "Not ready:"), h("ul", {}, told.reasons.map((each) => h("li", {}, shown(each)))))
      : h("p", { class: "good" }, "Ready: serving all requests."),
    facts([
      ["Version", shown(told.version)], ["Cluster", shown(told.cluster_id)], ["Connections", number(told.connections)],
      ["Topics", number(told.topics)], ["Fetch sessions", number(told.fetch_sessions)],
      ["Disk", disk.free_bytes === null ? "–" : `${bytes(disk.free_bytes)} of ${bytes(disk.total_bytes)} free`],
      ["Maximum event-loop delay", `${Math.round(told.loop_late_seconds_max * 1000)} ms`],
      ["Shards of groups", Object.entries(told.shards).map(([state, count]) => `${count} ${state}`).join(", ")],
    ]),
    told.acls.length ? h("details", { id: "acls" }, h("summary", {}, `Access control entries (${told.acls.length}${told.has_more_acls ? "+" : ""})`),
      table([["Principal"], ["Host", "phone-off"], ["Permission"], ["Operation"], ["Resource"]], told.acls.map((each) => [name(each.principal),
        shown(each.host), each.permission, each.operation, h("span", {}, `${each.resource_type} `, name(each.name), each.pattern_type === "PREFIXED" ? "*" : "")]), "")) : null,
    tasks(told.tasks),
  ];
}

function row(each, told) {
  const isShort = each.in_sync < each.replicas;
  return [
    each.reasons ? link("health", { id: each.node_id }, String(each.node_id)) : String(each.node_id),
    h("span", {}, name(`${each.host}:${each.port}`), each.node_id === told.controller ? h("span", { class: "soft" }, " controller") : null),
    number(each.leaders), number(each.replicas),
    h("span", { class: isShort ? "warn" : null }, `${number(each.in_sync)} of ${number(each.replicas)}`),
    shown(each.rack ?? "–"), state(each, told),
  ];
}

// The last thing on the page, folded: what is wrong with one stands among the reasons above.
function tasks(all) {
  const failing = all.filter((each) => each.reason).length;
  return h("details", { id: "tasks" },
    h("summary", {}, count(all.length, "background task"), failing ? h("span", { class: "bad" }, `, ${failing} with a problem`) : ", all ok"),
    table([["Task"], ["Restarts", "number"], ["State"]], all.map((each) => [shown(each.name), number(each.restarts),
      each.reason ? h("span", { class: "bad" }, shown(each.reason)) : h("span", { class: "good" }, "ok")]), ""));
}
