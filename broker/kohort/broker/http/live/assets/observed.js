// What the page shows of a cluster that `kohort observe` follows: its clusters, how far the observer is, what it cannot know.

import { address, clusterView, inSync } from "/page/cluster.js";
import { count, duration, empty, facts, h, link, name, number, shown, table, time } from "/page/dom.js";

const HOURS = [[1, "the last hour"], [24, "the last day"], [168, "the last week"], [0, "all that is kept"]];
const LOOKED_MS_MAX = 60_000;

export function clustersView(told) {
  const rows = told.clusters.map((each) => [
    h("a", { href: `/${encodeURIComponent(each.name)}/` }, name(each.name)), number(each.groups), number(each.brokers.length),
    readiness(each),
    name(each.cluster_id || "–"),
  ]);
  return [h("h1", {}, "Clusters"), table([["Cluster"], ["Groups", "number"], ["Brokers", "number"], ["Observer"], ["Cluster id", "phone-off"]], rows, "")];
}

function readiness(each) {
  if (!each.is_ready) return h("span", { class: each.problem ? "bad" : "warn" }, shown(each.problem || "still reading"));
  return each.reads_records ? h("span", { class: "good" }, "up to date") : h("span", { class: "warn" }, "may not read __consumer_offsets");
}

// What to do next, where no group is known yet.
export function observedStart(told) {
  const { observer } = told, server = `--bootstrap-server ${observer.bootstrap}`;
  const step = (title, command) => h("li", {}, h("p", {}, title), h("pre", { tabindex: 0 }, command));
  if (observer.problem) {
    return start(h("p", { class: "bad", role: "alert" }, `The cluster cannot be followed: ${shown(observer.problem)}.`),
      step("Does a command reach it from here? It has the same settings as the observer.", `kohort topics list ${server}`),
      step("A cluster with TLS or SASL needs a file with a client's settings.", `kohort observe ${server} --command-config client.properties`));
  }
  if (!observer.is_caught_up) {
    return start(h("p", {}, "The observer reads __consumer_offsets from its beginning. ", observer.behind ? `${count(observer.behind, "record")} to go.` : "",
      " Groups are listed here as it meets them; you need not reload the page."));
  }
  if (!observer.reads_records) {
    return start(h("p", { class: "warn" }, "No group is known: the observer may not read __consumer_offsets, and the cluster lists no group to it."),
      h("li", {}, right(observer)), step("It also has to be allowed to describe groups.", `kohort acls add --principal User:OBSERVER --operation DESCRIBE --group '*' ${server}`));
  }
  return start(h("p", {}, "The observer has read all of __consumer_offsets, and no group is in it. It shows each group that commits or has members."),
    step("Does the cluster list a group? Then the observer may lack rights: see Cluster above.", `kohort groups list ${server}`),
    step("Or start a group. Start it twice, and see here why it rebalances.", `kohort consume TOPIC --group billing --from-beginning ${server}`));
}

function start(text, ...steps) {
  const items = steps.filter(Boolean);
  return h("div", { class: "start" }, text, items.length ? h("ol", {}, items) : null);
}

function right(observer) {
  return [h("p", {}, "Give its principal the right to read __consumer_offsets. It tries again within a minute, and need not be restarted."),
    h("pre", { tabindex: 0 }, `kohort acls add --principal User:OBSERVER --operation READ --topic __consumer_offsets --bootstrap-server ${observer.bootstrap}`)];
}

// What to know before the groups: the observer is behind, lacks a right, or an alert stands.
export function notices(told) {
  const { observer } = told;
  return [
    observer.problem ? notice(h("p", { class: "bad", role: "alert" }, `What is shown may be old: ${shown(observer.problem)}.`)) : null,
    !observer.problem && !observer.is_caught_up
      ? notice(h("p", {}, `The observer still reads __consumer_offsets${observer.behind ? `: ${count(observer.behind, "record")} to go` : ""}. What happened lately may be missing.`)) : null,
    told.cannot_know.length ? notice(h("p", {}, h("strong", {}, "Not known")), h("ul", {}, told.cannot_know.map((each) => h("li", {}, shown(each)))),
      observer.reads_records ? null : right(observer)) : null,
    told.alerts.length ? notice(h("p", {}, h("strong", {}, "Alerts")), h("ul", {}, told.alerts.map((each) =>
      h("li", {}, link("group", { id: each.group_id }, name(each.group_id)), `: ${shown(each.summary)}, since ${time(each.started_ms)}`)))) : null,
  ];
}

function notice(...content) {
  return h("div", { class: "notice" }, content);
}

export function hoursField(told, set) {
  return h("label", { class: "span" }, h("select", { "aria-label": "History shown", onchange: (event) => set({ hours: event.target.value, rebalance: "" }) },
    HOURS.map(([hours, text]) => h("option", { value: hours, selected: hours === told.hours ? "" : null }, text))));
}

// All that happened on one page, as `kohort groups explain --since` prints it.
export function inShort(told) {
  if (!told.digest.length) return null;
  return [
    told.rebalances_left_out ? h("p", { class: "soft" }, `${count(told.rebalances_left_out, "older event")} not drawn.`) : null,
    told.explained_since_ms ? h("p", { class: "soft" }, `More happened than is explained here: this is what happened since ${time(told.explained_since_ms)}. For all of it: kohort groups explain --since.`) : null,
    h("h2", {}, "In short"), h("pre", { class: "digest", tabindex: 0 }, told.digest.map(shown).join("\n")),
  ];
}

// How a member commits: the observer sees nothing else of it.
export function commits(member, told) {
  if (told.type === "share") return h("span", { class: "soft" }, "members of share groups commit nothing");
  if (member.last_commit_ms === null) return h("span", { class: "soft" }, "no commit seen");
  const last = `last ${duration(Math.max(0, told.now_ms - member.last_commit_ms))} ago`;
  const stands = member.last_progress_ms === null || member.last_commit_ms - member.last_progress_ms < LOOKED_MS_MAX ? "" : `; offsets stand for ${duration(told.now_ms - member.last_progress_ms)}`;
  return h("span", {}, member.commit_interval_ms === null ? last : `every ${duration(member.commit_interval_ms)}, ${last}`, h("span", { class: "warn" }, stands));
}

export function unknown(told) {
  return [h("h2", {}, "Not known"), h("ul", { class: "soft" },
    [...told.cannot_know, "From outside it cannot be known who leads the group, for how long and for whom members waited, what a client said as it left, and who was refused.",
      ...(told.type === "share" ? ["Which records are in the hands of members of a share group brokers alone know."] : [])].map((each) => h("li", {}, shown(each))))];
}

export function observedHealthView(told) {
  const { observer } = told;
  return [
    ...clusterView(told, h("span", { class: "soft" }, "not told")),
    table([["Id", "number"], ["Address"], ["Leads", "number"], ["In sync", "number"], ["Rack", "phone-off"]], told.brokers.map((each) => [
      number(each.node_id), each.host ? address(each, told) : h("span", { class: "soft" }, "not told"), number(each.leaders), inSync(each), shown(each.rack ?? "–"),
    ]), "No broker is known yet."),
    h("p", { class: "soft" }, "Counted are topics that the observer may describe. Sizes of logs, disks, clients, and whether a broker is ready, brokers alone know."),
    standing(told),
    h("h2", {}, "Observer"),
    observer.problem ? h("p", { class: "bad", role: "alert" }, shown(observer.problem)) : h("p", { class: observer.is_ready ? "good" : "warn" }, observer.is_ready ? "Up to date." : `Still reading: ${count(observer.behind, "record")} to go.`),
    facts([
      ["Knows groups by", observer.reads_records ? "records" : "descriptions"], ["Records not read", number(observer.behind)], ["Groups", number(observer.groups)],
      ["Last look", observer.looked_ms ? `${duration(Math.max(0, told.now_ms - observer.looked_ms))} ago` : "–"], ["Requests", number(observer.calls)], ["Fetches", number(observer.fetches)],
      ["Cluster id", shown(told.cluster_id || "–")], ["Version", shown(observer.version)],
    ]),
    told.cannot_know.length ? notices({ ...told, alerts: [], observer: { ...observer, problem: "", is_caught_up: true } }) : h("p", { class: "soft" }, "It has all rights that it can use."),
  ];
}

function standing(told) {
  if (!told.open_transactions.length) return null;
  return [h("h2", {}, "Open transactions"),
    table([["Partition"], ["Last stable offset", "number"], ["End", "number"], ["Stands for", "number"]], told.open_transactions.map((each) => [
      h("span", {}, name(each.topic), ` ${each.partition}`), number(each.last_stable_offset), number(each.end_offset), duration(Math.max(0, told.now_ms - each.since_ms))]), "")];
}
