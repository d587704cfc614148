// The changes that the page may make, if the broker allows it: each asks first and shows the result.

import { WORKER, h, shown } from "/page/dom.js";

export function changes(told) {
  if (!told.may_write) return null;
  const group = told.group_id, isEmpty = told.members.length === 0;
  const why = isEmpty ? null : "It has members: stop them first.";
  return h("div", { class: "tools", id: "changes" },
    button("Reset to the earliest", why, () => ask(`Read everything in ${shown(group)} again, from the earliest records on?`,
      { action: "reset", group, to: "earliest" })),
    button("Reset to the latest", why, () => ask(`Leave out all that ${shown(group)} has not read yet?`,
      { action: "reset", group, to: "latest" })),
    button("Delete the group", why, () => ask(`Delete ${shown(group)} with all its offsets? This cannot be undone.`,
      { action: "delete", group })),
    h("span", { class: "soft" }, why));
}

export function removal(told, member) {
  return told.may_write ? button("Remove", null, () => ask(
    `Put ${shown(member.client_id || member.member_id)} out of ${shown(told.group_id)}? If it lives it joins again.`,
    { action: "remove", group: told.group_id, member: member.member_id })) : null;
}

function button(text, why, onclick) {
  return h("button", { type: "button", onclick, disabled: why ? "" : null }, text);
}

// Outside of what is drawn anew all the while.
function ask(question, wanted) {
  const answer = h("p", { role: "status" });
  const dialog = h("dialog", { "aria-label": "Are you sure?" }, h("p", {}, question), answer);
  const close = () => { dialog.close(); dialog.remove(); };
  const no = button("No", null, close);
  const yes = button("Yes", null, async () => {
    yes.disabled = true;
    const [isDone, text] = await send(wanted);
    answer.textContent = shown(text);
    answer.className = isDone ? "good" : "bad";
    yes.remove();
    no.textContent = "Close";
  });
  dialog.append(h("div", { class: "tools" }, yes, no));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  no.focus();
}

async function send(wanted) {
  try {
    const answer = await fetch(`${WORKER}/api/v1/live/write`, { method: "POST", body: JSON.stringify(wanted),
      headers: { "content-type": "application/json", "x-kohort-write": "1" } });
    const told = await answer.json();
    return [answer.ok, told.done ?? told.error];
  } catch { return [false, "the broker does not answer"]; }
}
