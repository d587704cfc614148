// Which view is shown, and the feed that keeps it up.

import { accessView } from "/page/access.js";
import { healthView } from "/page/cluster.js";
import { CLUSTERS, OBSERVED, WORKER, h, name, shown } from "/page/dom.js";
import { groupsView, groupView } from "/page/groups.js";
import { leaveMessages } from "/page/messages.js";
import { clustersView, observedHealthView } from "/page/observed.js";
import { topicsView, topicView } from "/page/topics.js";
import { transactionsView } from "/page/transactions.js";

const POLL_MS = 5000, ANSWER_MS_MAX = 60_000, RETRY_MS = 30_000;
const ALL = {
  groups: { draw: groupsView, asks: ["q", "order"], under: "groups" },
  group: { draw: groupView, asks: ["id"], under: "groups" },
  topics: { draw: topicsView, asks: ["q", "internal"], under: "topics" },
  topic: { draw: topicView, asks: ["name"], under: "topics" },
  health: { draw: healthView, asks: ["id"], under: "health" },
  transactions: { draw: transactionsView, asks: [], under: "transactions" },
  access: { draw: accessView, asks: [], under: "access" },
};
const VIEWS = !OBSERVED ? ALL : CLUSTERS.length && !WORKER ? { clusters: { draw: clustersView, asks: [], under: "clusters" } } : {
  groups: ALL.groups,
  group: { ...ALL.group, asks: ["id", "hours"] },
  health: { draw: observedHealthView, asks: [], under: "health" },
};
const main = document.getElementById("main"), state = document.getElementById("link");
let feed = null, timer = null, polled = null, current = null, told = null, address = "", typing = null;

// Each worker of a host shows the groups that it coordinates and the partitions that it leads.
const workers = document.querySelector("meta[name=workers]")?.content.split(" ") ?? [];
if (workers.length > 1) {
  const links = workers.map((each) => h("a", { href: `/workers/${each}/`,
    ...(WORKER === `/workers/${each}` || (!WORKER && each === workers[0]) ? { "aria-current": "page" } : {}) }, `Worker ${each}`));
  document.querySelector("header nav").after(h("nav", { "aria-label": "Workers" }, ...links));
}

// Each cluster that an observer follows has a page of its own.
if (CLUSTERS.length) {
  const link = (href, text) => h("a", { href, ...(href === `${WORKER}/` ? { "aria-current": "page" } : {}) }, text);
  document.querySelector(".brand").after(h("nav", { "aria-label": "Clusters" }, link("/", "All clusters"), CLUSTERS.map((each) => link(`/${each}/`, each))));
}

function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const view = VIEWS[path] ? path : Object.keys(VIEWS)[0];
  return { view, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

function set(changes) {
  const { view, parameters } = place();
  const wanted = new URLSearchParams({ ...parameters, ...changes });
  for (const [key, value] of [...wanted]) if (value === "") wanted.delete(key);
  const go = () => { history.replaceState(null, "", `#/${view}?${wanted}`); turn(); };
  clearTimeout(typing);
  if ("q" in changes) typing = setTimeout(go, 250);
  else go();
}

function turn() {
  const next = place();
  const { asks } = VIEWS[next.view];
  const query = new URLSearchParams(Object.fromEntries(asks.filter((each) => next.parameters[each]).map((each) => [each, next.parameters[each]])));
  const wanted = `${WORKER}/api/v1/live/${next.view}`;
  const isOther = current?.view !== next.view;
  current = next;
  for (const each of document.querySelectorAll("nav a[data-view]")) {
    if (each.dataset.view === VIEWS[next.view].under) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  if (`${wanted}?${query}` === address) { draw(true); return; }
  address = `${wanted}?${query}`;
  told = null;
  if (next.view !== "topic") leaveMessages();
  if (isOther) main.replaceChildren(h("p", { class: "soft" }, "loading"));
  if (OBSERVED) poll();
  else follow(`${wanted}/events?${query}`);
}

function follow(url) {
  feed?.close();
  endPolling();
  const mine = feed = new EventSource(url);
  mine.onmessage = (event) => { if (mine === feed) take(JSON.parse(event.data)); };
  mine.onopen = () => tell("live");
  mine.onerror = () => {
    if (mine !== feed) return;
    tell(mine.readyState === EventSource.CLOSED ? "asking every 5 s" : "connection lost, trying again", true);
    if (mine.readyState === EventSource.CLOSED) poll();
  };
}

// Too many look on, or a proxy in between knows no events. An observer has none: it looks every some seconds itself.
function poll() {
  const wanted = address, mine = polled = {};
  const ask = async () => {
    try {
      const answer = await fetch(wanted, { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
      const next = await answer.json();
      if (mine !== polled) return;
      take(next);
      if (OBSERVED) tell("live");
    } catch { if (mine === polled) tell(`the ${OBSERVED ? "observer" : "broker"} does not answer`, true); }
    if (mine === polled) timer = setTimeout(ask, POLL_MS);  // Not before the answer: it may take long.
  };
  clearTimeout(timer);
  if (!OBSERVED) setTimeout(() => { if (wanted === address && feed?.readyState === EventSource.CLOSED) { address = ""; turn(); } }, RETRY_MS);
  ask();
}

function endPolling() {
  clearTimeout(timer);
  polled = null;
}

function take(next) {
  const isFirst = told === null;
  told = next;
  draw(isFirst);
}

function tell(text, isLost = false) {
  state.textContent = text;
  state.className = isLost ? "lost" : "";
}

function draw(isForced) {
  if (told === null) return;
  const { view, parameters } = current;
  if (told.error) {
    main.replaceChildren(h("h1", {}, name(parameters.id ?? parameters.name ?? view)), h("p", { class: "bad" }, shown(told.error)));
    return;
  }
  // Who reads messages, has a list open, writes in a field or marks text is not to be disturbed.
  const { activeElement } = document;
  const isBusy = main.contains(activeElement) && (["SELECT", "PRE"].includes(activeElement.tagName) || activeElement.closest(".fields") !== null);
  if (!isForced && (isBusy || String(getSelection()))) return;
  const focus = focused(), scrolled = window.scrollY;
  const unfolded = [...main.querySelectorAll("details[open]")].map((each) => each.id);
  main.replaceChildren(...unanswered(told), ...VIEWS[view].draw(told, { set, parameters, redraw: () => draw(false) }).flat(3).filter(Boolean));
  reach();
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
  refocus(focus);
  window.scrollTo(0, scrolled);
  document.title = `${parameters.id ?? parameters.name ?? (view === "health" ? "cluster" : view)} – kohort`;
}

// What can be scrolled can be reached by keys.
function reach() {
  for (const each of main.querySelectorAll(".wide")) {
    if (each.scrollWidth > each.clientWidth) for (const [key, value] of [["tabindex", 0], ["role", "region"], ["aria-label", "A wide table"]]) each.setAttribute(key, value);
  }
}
addEventListener("resize", reach);
window.matchMedia("(max-width: 40rem)").addEventListener("change", () => draw(true));  // A phone that is turned has other pictures.

// What brokers of the cluster lead and coordinate that did not answer is missing.
function unanswered(told) {
  return (told.unanswered ?? []).map((each) =>
    h("p", { class: "warn", role: "alert" }, `Broker ${each.broker} does not answer: ${shown(each.reason)}. What it has is not shown.`));
}

// What has the focus is drawn anew, and keeps it.
function focused() {
  const element = document.activeElement;
  if (!main.contains(element) || element === main) return null;
  const all = [...main.querySelectorAll("a, button, input, select, [tabindex]")];
  return { index: all.indexOf(element), id: element.id, start: element.selectionStart, end: element.selectionEnd,
    value: element.id === "search" ? element.value : null };
}

function refocus(focus) {
  if (focus === null) return;
  const all = [...main.querySelectorAll("a, button, input, select, [tabindex]")];
  const element = focus.id ? document.getElementById(focus.id) : all[focus.index];
  if (!element) return;
  if (focus.value !== null) element.value = focus.value;
  element.focus({ preventScroll: true });
  if (focus.id === "search") element.setSelectionRange(focus.start, focus.end);
}

addEventListener("hashchange", () => { turn(); main.focus({ preventScroll: true }); });
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (document.activeElement?.tagName === "INPUT") document.activeElement.blur();
    else location.hash = `#/${VIEWS[current.view].under}`;
    return;
  }
  if (["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName)) return;
  const go = { g: "groups", t: "topics", b: "health", x: "transactions", a: "access" }[event.key];
  if (VIEWS[go]) location.hash = `#/${go}`;
  else if (event.key === "/") { event.preventDefault(); document.getElementById("search")?.focus(); }
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { feed?.close(); endPolling(); tell("paused"); }
  else if (address) { address = ""; turn(); }
});
turn();
