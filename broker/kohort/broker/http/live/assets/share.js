// Records of a share group: which are in whose hands, which wait to be handed out again, what came back last.

import { WORKER, count, duration, empty, h, link, name, number, shown, table } from "/page/dom.js";

const FRESH_MS = 5_000, HELD_SHOWN = 3;
let kept = { id: "", at: 0, told: null, isAsking: false };

export function deliveries(group, redraw) {
  if (kept.id !== group.group_id) kept = { id: group.group_id, at: 0, told: null, isAsking: false };
  if (!kept.isAsking && Date.now() - kept.at > FRESH_MS) ask(kept, redraw);
  if (!kept.told) return h("p", { class: "soft" }, "loading");
  if (!kept.told.partitions?.length) return empty("No records yet", "Partitions are listed once a member of the group reads them.");
  return table([["Partition"], ["From", "number"], ["To", "number phone-off"], ["In hands", "number"], ["Again", "number"], ["Dead letters", "number phone-off"], ["Held by", "phone-off"]],
    kept.told.partitions.map((each) => row(each, group.now_ms)), "");
}

async function ask(mine, redraw) {
  mine.isAsking = true;
  try {
    const answer = await fetch(`${WORKER}/api/v1/share-groups/${encodeURIComponent(mine.id)}`);
    mine.told = answer.ok ? await answer.json() : { partitions: [] };
  } catch { /* The feed says that the broker does not answer. */ }
  mine.at = Date.now();
  mine.isAsking = false;
  if (kept === mine) redraw();
}

function row(each, nowMs) {
  const held = each.held.slice(0, HELD_SHOWN).map((run) => h("div", {}, name(run.member_id),
    ` ${run.first_offset}–${run.last_offset}, delivery ${run.delivery_count}, ${duration(Math.max(0, run.lock_until_ms - nowMs))} left`));
  return [
    h("span", {}, link("topic", { name: each.topic }, name(each.topic)), ` ${shown(each.partition)}`), number(each.start_offset), number(each.end_offset),
    number(each.held_records), number(each.again_records), number(each.letter_records),
    h("span", {}, held.length ? held : "–", each.held.length > HELD_SHOWN ? h("div", { class: "soft" }, `and ${count(each.held.length - HELD_SHOWN, "more run")}`) : null),
  ];
}
