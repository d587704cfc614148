// The page of one worker: a queue's worker or tracker, a push proxy, a region's member or coordinator.

import { count, duration, facts, h, name, number, shown, table } from "/page/dom.js";
import { line, note } from "/page/trend.js";

const EVERY_MS = 2000;
const main = document.getElementById("main"), link = document.getElementById("link");
const counted = new Map();  // A counter's last values, for its rate.

const good = (text) => h("span", { class: "good" }, shown(text));
const warn = (text) => h("span", { class: "warn" }, shown(text));
const bad = (text) => h("span", { class: "bad" }, shown(text));
const some = (value, draw) => value ? draw(number(value)) : "0";

// How fast a counter has grown since this page looked at it some looks ago.
function rate(key, total) {
  const looks = counted.get(key) ?? [];
  const now = Date.now();
  if (looks.length && total < looks[looks.length - 1][1]) looks.length = 0;  // The process began anew.
  looks.push([now, total]);
  if (looks.length > 6) looks.shift();
  counted.set(key, looks);
  const seconds = (now - looks[0][0]) / 1000;
  if (seconds < 1) return "–";
  return `${((total - looks[0][1]) / seconds).toLocaleString("en", { maximumFractionDigits: 1 })}/s`;
}

function trend(key, value) {
  return h("span", {}, `${number(value)} `, line(note(key, value)));
}

// A generation that stays the same over a rolling update says that nobody was rebalanced.
function group(told) {
  return h("span", {}, name(told.group), h("span", { class: "soft" }, told.generation_id < 0 ? " not joined" : ` generation ${number(told.generation_id)}`));
}

function trackerView(told) {
  const total = (what) => told.by_partition.reduce((sum, each) => sum + each[what], 0);
  return [
    h("h1", {}, "Tracker of queue ", name(told.topic)),
    told.by_partition.some((each) => !each.is_caught_up) ? h("p", { class: "warn" }, "It reads the markers that were there at its start; until then it delivers nothing again.") : null,
    facts([
      ["Markers in flight", trend("open", told.open)],
      ["Overdue", some(told.overdue, bad)],
      ["Oldest unacknowledged", told.open ? duration(told.oldest_open_ms) : "–"],
      ["Redelivered", h("span", {}, number(total("redelivered")), h("span", { class: "soft" }, ` ${rate("redelivered", told.redelivered)}`))],
      ["Dead letters", some(total("dead"), bad)],
      ["Vanished", some(total("vanished"), bad)],
      ["Delivered again after", duration(told.message_timeout_ms)],
      ["Group", group(told)],
    ]),
    h("h2", {}, "Partitions"),
    table([["Partition", "number"], ["In flight", "number"], ["Overdue", "number"], ["Oldest", "number"],
      ["Redelivered", "number phone-off"], ["Dead", "number phone-off"], ["Vanished", "number phone-off"]],
      told.by_partition.map((each) => [number(each.partition), number(each.open), some(each.overdue, bad), each.open ? duration(each.oldest_open_ms) : "–",
        number(each.redelivered), some(each.dead, bad), some(each.vanished, bad)]),
      "This tracker has no partition: others have them all, or the group has not settled yet."),
    h("p", { class: "soft" }, "Counts by partition are those of all trackers so far. Dead letters are in ", name(told.dead_letters_topic), "."),
  ];
}

function queueWorkerView(told) {
  return [
    h("h1", {}, "Worker of queue ", name(told.topic)),
    facts([
      ["At work", `${number(told.running)} of ${number(told.workers)}`],
      ["Taken, not begun", number(told.waiting)],
      ["Done", h("span", {}, number(told.done), h("span", { class: "soft" }, ` ${rate("done", told.done)}`))],
      ["Failed, come again", some(told.failed, warn)],
      ["Released", number(told.released)],
      ["Rejected, dead letters", some(told.rejected, bad)],
      ["Partitions", told.partitions.length ? told.partitions.join(", ") : "none"],
      ["Group", group(told)],
    ]),
    h("p", { class: "soft" }, "Markers in flight, redeliveries and overdue records are on the page of a tracker: kohort queue track --http."),
  ];
}

function circuit(state) {
  return state === "closed" ? good("closed") : state === "open" ? bad("open") : warn(state);
}

function forwardView(told) {
  return [
    h("h1", {}, count(told.destinations.length, "destination")),
    told.destinations.length ? null : h("p", { class: "warn" }, "No destination runs: each starts anew after a failure, see the log."),
    ...told.destinations.flatMap(destination),
  ];
}

function destination(each) {
  const routes = [["", each.default_route], ...Object.entries(each.routes)];
  return [
    h("h2", {}, name(each.name)),
    facts([
      ["Topic", name(each.topic)],
      ["Group", group(each)],
      ["Circuit", circuit(each.circuit)],
      ["Backlog", trend(`backlog ${each.name}`, each.unfinished)],
      ["Delayed", number(each.delayed)],
      ["Read, not committed", number(each.uncommitted)],
      ["Done", h("span", {}, number(each.counts.done ?? 0), h("span", { class: "soft" }, ` ${rate(`done ${each.name}`, each.counts.done ?? 0)}`))],
      ["Retried", number(each.counts.retry ?? 0)],
      ["Dead letters", some(each.counts.dead, bad)],
      ["Stashed", some(each.counts.stash, warn)],
      ["Partitions", each.partitions.length ? count(each.partitions.length, "partition") : "none"],
    ]),
    each.held_back ? h("p", { class: "warn" }, "It reads no further for now: its window is full.") : null,
    each.last_failure ? h("p", {}, "The last failure: ", h("span", { class: "soft" }, shown(each.last_failure))) : null,
    table([["Route"], ["Circuit"], ["Rate", "number"], ["Limit", "number phone-off"], ["Under way", "number phone-off"], ["Backlog", "number"], ["Delayed", "number"],
      ["Pushed to", "phone-off"]],
      routes.map(([route, state]) => [route ? name(route) : h("span", { class: "soft" }, "no route"), circuit(state.circuit),
        rate(`pushed ${each.name} ${route}`, state.pushed), state.rate_max ? `${number(state.rate_max)}/s` : "–",
        `${number(state.running)} of ${number(state.concurrency_limit)}`, number(state.unfinished), number(state.delayed), name(state.url)]), ""),
  ];
}

function phase(value) {
  return value === "failed" ? bad(value) : value === "running" || value === "checkpointing" ? good(value) : warn(value || "not known yet");
}

function regionView(told) {
  const isMember = told.role === "member";
  return [
    h("h1", {}, isMember ? "Member " : "Coordinator", isMember ? name(told.member) : null, " of region ", name(told.region)),
    facts([
      isMember ? ["This member", good(told.state)] : ["This coordinator", told.rules ? good("decides") : "would take over"],
      ["Region", phase(told.phase)],
      ["Members", told.size > told.members.length ? warn(`${number(told.members.length)} of ${number(told.size)}`) : number(told.members.length)],
      ["Last checkpoint", told.checkpoint ? `${number(told.checkpoint)}, ${duration(told.checkpoint_age_ms)} ago` : "none yet"],
      ["Records before it", number(told.records_before_checkpoint)],
      ["Resets", number(told.resets)],
      ["Failures in a row", some(told.consecutive_resets, warn)],
      ...(isMember ? [
        ["Processed", h("span", {}, number(told.processed), h("span", { class: "soft" }, ` ${rate("processed", told.processed)}`))],
        ["Queued", trend("queued", told.queued)],
        ["Drain, last and longest", `${duration(told.drain_ms_last)}, ${duration(told.drain_ms_most)}`],
        ["Partitions", count(told.partitions.length, "partition")],
        ["Group", group(told)],
      ] : []),
    ]),
    told.reason ? h("p", {}, "Why it was reset the last time: ", h("span", { class: "soft" }, shown(told.reason))) : null,
    told.phase === "failed" ? h("p", { class: "bad", role: "alert" }, `How it goes on: kohort region status ${shown(told.region)}`) : null,
    h("h2", {}, "Members"),
    table([["Member"], ["State"], ["Reset", "phone-off"], ["Generation", "number phone-off"], ["Asks for a reset"]],
      told.members.map((each) => [name(each.name), each.state === "reset pending" ? warn(each.state) : shown(each.state || "no report"),
        each.has_reset ? good("done") : warn("to do"), number(each.generation_id), each.wants ? warn(each.wants) : "–"]),
      "No member has registered yet."),
  ];
}

const VIEWS = { forward: forwardView, region: regionView, queue: (told) => told.role === "tracker" ? trackerView(told) : queueWorkerView(told) };

function draw(told) {
  document.getElementById("kind").replaceChildren(told.ready ? good("ready") : warn("not ready: it has not joined its group, or stops"));
  document.title = `${told.topic ?? told.region ?? told.kind} – kohort`;
  if (String(getSelection())) return;  // Who marks text is not to be disturbed.
  const scrolled = window.scrollY;
  main.replaceChildren(...VIEWS[told.kind](told).flat().filter(Boolean));
  window.scrollTo(0, scrolled);
}

function tell(text, isLost = false) {
  link.textContent = text;
  link.className = isLost ? "lost" : "";
}

async function look() {
  if (document.hidden) return;
  try {
    const answer = await fetch("/api/v1/worker", { signal: AbortSignal.timeout(10_000) });
    const told = await answer.json();
    if (!answer.ok) { tell(told.error ?? `status ${answer.status}`, true); return; }
    tell("live");
    draw(told);
  } catch { tell("the process does not answer, trying again", true); }
}

async function follow() {
  await look();
  setTimeout(follow, EVERY_MS);
}

document.addEventListener("visibilitychange", () => { if (document.hidden) tell("paused"); });
follow();
