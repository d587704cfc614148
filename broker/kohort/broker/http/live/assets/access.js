// Who may do what, and how much of it a second.

import { bytes, duration, empty, h, name, number, shown, table } from "/page/dom.js";

export function accessView(told) {
  if (told.is_hidden) {
    return [h("h1", {}, "Access"), empty("Not shown here", "Access control entries and quotas are shown where records are: see kohort.http.messages.enable.")];
  }
  return [
    h("h1", {}, "Access"),
    h("h2", {}, "Access control entries"),
    told.acls.length ? table([["Principal"], ["Host", "phone-off"], ["Permission"], ["Operation"], ["Resource"]], told.acls.map(acl), "")
      : empty("No entries", "Without entries and without an authorizer every client may do everything. kohort acls add makes one."),
    told.acls_left_out ? h("p", { class: "soft" }, "More entries are not shown: kohort acls list has all.") : null,
    h("h2", {}, "Quotas"),
    told.quotas.length ? table([["Who"], ["Quota"], ["Limit", "number"]], told.quotas.flatMap((each) =>
      each.values.map(([key, value]) => [entity(each.entity), key, amount(key, value)])), "")
      : empty("No quotas", "Every client may read and write as fast as it can. kohort quotas set limits one."),
    told.uses.length ? [h("h2", {}, "Used now"), table([["Who"], ["Quota"], ["Used", "number"], ["Slowed down by", "number"], ["Broker", "number phone-off"]],
      told.uses.map((each) => [h("span", {}, [["user", each.user], ["client id", each.client_id]].filter(([, value]) => value).map(([kind, value]) => [`${kind} `, name(value), " "]).flat()),
        each.key, amount(each.key, each.value), h("span", { class: each.throttle_ms ? "warn" : null }, each.throttle_ms ? duration(each.throttle_ms) : "–"), number(each.broker)]), "")] : null,
  ];
}

function acl(each) {
  return [name(each.principal), shown(each.host), h("span", { class: each.permission === "DENY" ? "bad" : null }, each.permission), each.operation,
    h("span", {}, `${each.resource_type} `, name(each.name), each.pattern_type === "PREFIXED" ? "*" : "")];
}

function entity(all) {
  return h("span", {}, all.map(([kind, value]) => [`${kind} `, value === null ? "by default" : name(value), " "]).flat());
}

function amount(key, value) {
  if (key.endsWith("_byte_rate")) return `${bytes(value)}/s`;
  if (key === "request_percentage") return `${number(value)} %`;
  return `${number(value)}/s`;
}
