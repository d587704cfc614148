// The next steps with a new broker. The commands have the address of the broker that was asked.

import { WORKER, empty, h, shown } from "/page/dom.js";

let address = null;

export function firstSteps(redraw) {
  if (address === null) ask(redraw);
  const server = address ? `--bootstrap-server ${address}` : "";
  const step = (title, ...commands) => h("li", {}, h("p", {}, title), h("pre", { tabindex: 0 }, commands.map((each) => each.trim()).join("\n")));
  return h("div", { class: "start" },
    h("p", {}, "The broker runs, and no group has read from it yet. Any Kafka client works, in any language: give it this address as bootstrap.servers."),
    address ? h("pre", { tabindex: 0 }, address) : null,
    h("ol", {},
      step("Create a topic.", `kohort topics create orders --partitions 3 ${server}`),
      step("Write some records: a line is one.", `seq 1000 | kohort produce orders ${server}`),
      step("Read them as a group. Start it twice, and watch the group rebalance here.", `kohort consume orders --group billing --from-beginning ${server}`)),
    h("p", { class: "soft" }, "This page shows the group as soon as it is there; you need not reload it."));
}

async function ask(redraw) {
  address = "";
  try {
    const told = await (await fetch(`${WORKER}/api/v1/live/health`)).json();
    address = shown(told.brokers.map((each) => `${each.host}:${each.port}`).slice(0, 3).join(","));
    redraw();
  } catch { /* The feed says that the broker does not answer. */ }
}

export function noTopics(redraw) {
  return [empty("No topic yet", "A topic is created by a command, or by the first client that writes to it."), firstSteps(redraw)];
}
