// The cluster's brokers, and how the one that serves this page fares.

import { bytes, facts, h, number, shown, table } from "/page/dom.js";

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
    h("h1", {}, `Broker ${told.node_id}`),
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
    h("h2", {}, "Brokers"),
    table([["Id", "number"], ["Address"], ["Rack"], ["State"]],
      told.brokers.map((each) => [number(each.node_id), shown(`${each.host}:${each.port}`), shown(each.rack ?? "–"), state(each, told)]), "None is known."),
    h("h2", {}, "Background tasks"),
    table([["Task"], ["Restarts", "number"], ["State"]], told.tasks.map((each) => [shown(each.name), number(each.restarts),
      each.reason ? h("span", { class: "bad" }, shown(each.reason)) : h("span", { class: "good" }, "ok")]), ""),
  ];
}
