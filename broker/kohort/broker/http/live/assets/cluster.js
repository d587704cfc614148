// The cluster: its brokers, partitions with a problem, and the health of one broker.

import { bytes, count, duration, facts, h, link, name, number, shown, table, topic } from "/page/dom.js";

export function healthView(told) {
  return [
    ...clusterView(told, h("span", { class: "bad" }, "none")),
    table([["Id", "number"], ["Address"], ["Leads", "number"], ["In sync", "number"], ["Size", "number phone-off"], ["Disk free", "number phone-off"],
      ["Clients", "number phone-off"], ["Rack", "phone-off"], ["State"]], told.brokers.map((each) => row(each, told)), "No broker is known."),
    ...broker(told),
  ];
}

// What brokers and the observer know alike: the facts of the cluster, and its problems. A table of brokers follows.
export function clusterView(told, withoutController) {
  const { cluster } = told;
  return [
    h("h1", {}, "Cluster"),
    facts([
      ["Brokers", number(told.brokers.length)], ["Controller", told.controller < 0 ? withoutController : `broker ${told.controller}`],
      ["Topics", number(cluster.topics)], ["Partitions", number(cluster.partitions)],
      ["Under-replicated", h("span", { class: cluster.under_replicated ? "warn" : "good" }, number(cluster.under_replicated))],
      ["Offline", h("span", { class: cluster.offline ? "bad" : "good" }, number(cluster.offline))],
    ]),
    gone(told),
    problems(cluster),
    h("h2", {}, "Brokers"),
  ];
}

export function address(each, told) {
  return h("span", {}, name(`${each.host}:${each.port}`), each.node_id === told.controller ? h("span", { class: "soft" }, " controller") : null);
}

export function inSync(each) {
  return h("span", { class: each.in_sync < each.replicas ? "warn" : null }, `${number(each.in_sync)} of ${number(each.replicas)}`);
}

// A broker alone has only its own facts; in a cluster each broker was asked.
function factsOf(each, told) {
  return each.facts ?? (each.node_id === told.node_id ? told : null);
}

function row(each, told) {
  const own = factsOf(each, told);
  return [
    each.reasons ? link("health", { id: each.node_id }, String(each.node_id)) : String(each.node_id),
    address(each, told), number(each.leaders), inSync(each),
    bytes(own?.size_bytes), own ? bytes(own.disk.free_bytes) : "–", number(own?.connections), shown(each.rack ?? "–"), state(each, told, own),
  ];
}

function state(each, told, own) {
  if (each.silent) return h("span", { class: "bad" }, `does not answer: ${shown(each.silent)}`);
  const reasons = each.node_id === told.node_id ? told.reasons : each.reasons;
  if (!reasons) return "–";
  if (reasons.length) return h("span", { class: "bad" }, reasons.map(shown).join("; "));
  if (own?.offline_logs) return h("span", { class: "bad" }, `${count(own.offline_logs, "log")} offline`);
  return h("span", { class: "good" }, "ready");
}

// A broker whose session has ended is not in the list, but the partitions with a problem name it.
function gone(told) {
  const known = new Set(told.brokers.map((each) => each.node_id));
  const missing = new Set(told.cluster.problems.flatMap((each) => each.replicas).filter((id) => !known.has(id)));
  return [...missing].sort((one, other) => one - other).map((id) =>
    h("p", { class: "warn", role: "alert" }, `Broker ${id} has replicas and is not in the cluster now.`));
}

function problems(cluster) {
  if (!cluster.problems.length) return null;
  const rows = cluster.problems.map((each) => [
    h("span", {}, topic(each.topic), ` ${each.partition}`),
    each.is_offline ? h("span", { class: "bad" }, "offline: no leader") : h("span", { class: "warn" }, "under-replicated"),
    each.leader < 0 ? "none" : number(each.leader), each.replicas.join(", "), each.in_sync.join(", ") || "none",
    each.replicas.filter((id) => !each.in_sync.includes(id)).join(", ") || "–",
  ]);
  const told = cluster.problems.reduce((all, each) => all + each.is_offline + (each.in_sync.length < each.replicas.length), 0);
  return [h("h2", {}, "Partitions with a problem"),
    table([["Partition"], ["Problem"], ["Leader", "number"], ["Replicas", "phone-off"], ["In sync", "phone-off"], ["Missing"]], rows, ""),
    told < cluster.offline + cluster.under_replicated ? h("p", { class: "soft" }, `The first ${number(rows.length)} are shown.`) : null];
}

function broker(told) {
  const { disk } = told;
  return [
    h("h2", {}, `Broker ${told.node_id}`),
    told.reasons.length
      ? h("div", { class: "bad", role: "alert" }, h("p", {}, "Not ready:"), h("ul", {}, told.reasons.map((each) => h("li", {}, shown(each)))))
      : h("p", { class: "good" }, "Ready: serving all requests."),
    facts([
      ["Version", shown(told.version)], ["Cluster id", shown(told.cluster_id)], ["Connections", number(told.connections)],
      ["Fetch sessions", number(told.fetch_sessions)], ["Size of open logs", bytes(told.size_bytes)],
      ["Disk", disk.free_bytes === null ? "–" : `${bytes(disk.free_bytes)} of ${bytes(disk.total_bytes)} free`],
      ["Maximum event-loop delay", duration(told.loop_late_seconds_max * 1000)],
      ["Shards of groups", Object.entries(told.shards).filter(([, count]) => count).map(([state, count]) => `${count} ${state}`).join(", ") || "none"],
    ]),
    tasks(told.tasks),
  ];
}

// The last part of the page, folded: the reasons above name tasks with a problem.
function tasks(all) {
  const failing = all.filter((each) => each.reason).length;
  return h("details", { id: "tasks" },
    h("summary", {}, count(all.length, "background task"), failing ? h("span", { class: "bad" }, `, ${failing} with a problem`) : ", all ok"),
    table([["Task"], ["Restarts", "number"], ["State"]], all.map((each) => [shown(each.name), number(each.restarts),
      each.reason ? h("span", { class: "bad" }, shown(each.reason)) : h("span", { class: "good" }, "ok")]), ""));
}
