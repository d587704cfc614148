// A topic's messages: of one partition or of all, searched step by step, or followed as they arrive.

import { WORKER, bytes, count, h, name, number, shown, time } from "/page/dom.js";

const FORMS = ["JSON", "text", "hex"], WANTED = 50, FOLLOWED = 200, FOLLOW_MS = 1000, BUSY_MS = 500;
const ASKED = { partition: "all", offset: "", time: "", key: "", contains: "", where: "", positions: "" };
const AS_PARAMETER = { contains: "q" };

// The topic is drawn again every two seconds. The search and the open records stay.
let kept = { id: "", element: null, stop() {} };

export function messages(told, { parameters, set }) {
  const asked = Object.fromEntries(Object.entries(ASKED).map(([each, usual]) => [each, parameters[each] || usual]));
  const form = FORMS.includes(parameters.form) ? parameters.form : FORMS[0];
  const isFollowed = parameters.follow === "1";
  const id = JSON.stringify([told.name, asked, form, isFollowed]);
  if (kept.id !== id || !kept.element.isConnected) {
    kept.stop();
    const place = h("div", { id: "messages" });
    const search = new Search(place, told.name, asked, form, isFollowed, set);
    kept = { id, element: h("div", {}, fields(told, asked, form, isFollowed, set, () => search.begin()), place), stop: () => search.stop() };
    search.begin();
  }
  return kept.element;
}

export function leaveMessages() {
  kept.stop();
  kept = { id: "", element: null, stop() {} };
}

function fields(told, asked, form, isFollowed, set, reload) {
  const field = (title, each, attributes, others = {}) => h("label", {}, h("span", {}, title), h("input", { ...attributes, "aria-label": title,
    value: asked[each] === "all" ? "" : asked[each], onchange: (event) => set({ [each]: event.target.value, positions: "", ...others }) }));
  return h("div", { class: "fields" },
    field("partition", "partition", { type: "number", min: 0, max: Math.max(0, told.partition_count - 1), placeholder: "all" }),
    field("from offset", "offset", { type: "number", placeholder: "the newest" }, { time: "" }),
    field("from time (UTC)", "time", { type: "text", placeholder: "2026-01-31 12:00:00" }, { offset: "" }),
    field("key", "key", { type: "search", placeholder: "the whole key" }),
    field("contains", "contains", { type: "search", placeholder: "in key, value or headers" }),
    field("JSON path", "where", { type: "search", placeholder: "$.lines[*].count >= 2" }),
    h("label", {}, h("span", {}, "as"), h("select", { "aria-label": "Shown as", onchange: (event) => set({ form: event.target.value }) },
      FORMS.map((each) => h("option", { value: each, selected: each === form ? "" : null }, each)))),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: reload }, "Reload"),
      h("button", { type: "button", "aria-pressed": String(isFollowed), onclick: () => set({ follow: isFollowed ? "" : "1", positions: "" }) }, "Follow")));
}

// Asks again and again until there is enough to show: each question costs the broker a second at most.
class Search {
  constructor(place, topic, asked, form, isFollowed, set) {
    Object.assign(this, { place, topic, asked, form, isFollowed, set });
    this.status = h("div", { role: "status" });
    this.list = h("div", {});
    this.more = h("div", {});
    this.runs = 0;
    place.append(this.status, this.list, this.more);
  }

  get isSearch() { return Boolean(this.asked.contains || this.asked.key || this.asked.where); }

  stop() { this.runs += 1; }

  async begin() {
    const run = this.runs += 1;
    this.records = [];
    this.searched = 0;
    this.positions = this.asked.positions;
    this.say("loading");
    this.list.replaceChildren();
    this.more.replaceChildren();
    for (let isFirst = true; run === this.runs; isFirst = false) {
      const told = await this.ask();
      if (run !== this.runs) return;
      if (!isFirst && !this.place.isConnected) return;
      if (told.error) {
        this.say(shown(told.error), "bad");
        if (!this.isFollowed) return;
        await pause(5 * FOLLOW_MS);
        continue;
      }
      const isStuck = told.positions === this.positions;
      this.positions = told.positions;
      this.searched += told.searched;
      this.take(told, isFirst);
      const isEnough = this.records.length >= WANTED || told.is_at_end || isStuck;
      this.tell(told, !isEnough && this.isSearch);
      if (this.isFollowed) {
        do await pause(told.is_at_end || document.hidden ? FOLLOW_MS : 0); while (document.hidden);
      } else if (isEnough || !this.isSearch) return;
    }
  }

  async ask() {
    const query = new URLSearchParams({ partition: this.asked.partition });
    if (!this.isFollowed) query.set("count", WANTED - this.records.length);  // The next question has the rest.
    for (const each of ["offset", "key", "contains", "where"]) {
      if (this.asked[each] !== "") query.set(AS_PARAMETER[each] ?? each, this.asked[each]);
    }
    if (this.positions) query.set("positions", this.positions);
    if (this.asked.time !== "") query.set("time", Date.parse(`${this.asked.time.trim().replace(/ +/, "T").replace(/Z$/, "")}Z`));
    if (query.get("time") === "NaN") return { error: `${this.asked.time} is no time: write 2026-01-31 12:00:00, in UTC.` };
    try {
      for (;;) {
        const answer = await fetch(`${WORKER}/api/v1/live/messages/${encodeURIComponent(this.topic)}?${query}`);
        if (answer.status !== 503 || !this.place.isConnected) return await answer.json();
        const { error } = await answer.json();
        if (!error.includes("try again")) return { error };
        await pause(BUSY_MS);
      }
    } catch {
      return { error: "the broker does not answer" };
    }
  }

  take(told, isFirst) {
    const isOfAll = this.asked.partition === "all";
    if (!this.isFollowed) {
      this.records.push(...told.records);
      this.list.replaceChildren(this.records.length ? table(this.records.flatMap((each) => rows(each, this.form, isOfAll)), isOfAll)
        : h("p", { class: "empty" }, this.isSearch || !isFirst ? "There is no such record here." : "There is no such record here. New ones are shown as they come with Follow."));
      return;
    }
    if (isFirst) this.list.replaceChildren(table([], isOfAll));
    const body = this.list.querySelector("tbody");
    for (const each of told.records) body.prepend(...rows(each, this.form, isOfAll));
    while (body.rows.length > 2 * FOLLOWED) body.lastElementChild.remove();
  }

  say(text, kind = "soft") { this.status.replaceChildren(h("p", { class: kind }, text)); }

  tell(told, isGoingOn) {
    const [first] = told.partitions, sum = (name) => told.partitions.reduce((all, each) => all + each[name], 0);
    const where = told.partitions.length === 1
      ? `Offsets ${number(first.log_start_offset)} to ${number(first.high_watermark)}; shown from ${number(first.offset)}.`
      : `${count(told.partitions.length, "partition")}, ${count(sum("high_watermark") - sum("log_start_offset"), "record")}.`;
    const found = this.isSearch ? ` ${count(this.records.length, "record")} of ${number(this.searched)} searched.` : "";
    this.status.replaceChildren(
      h("p", { class: "soft" }, this.isFollowed ? "Following: new records come on top. " : isGoingOn ? "Searching. " : "", where, found),
      ...told.partitions.filter((each) => each.problem).map((each) => h("p", { class: "bad" }, `Partition ${each.partition}: ${shown(each.problem)}`)),
      ...(told.not_searched.length ? [h("p", { class: "warn" }, `Not searched, without a leader or offline: partition ${told.not_searched.join(", ")}.`)] : []),
      ...(told.unanswered ?? []).map((each) => h("p", { class: "warn" }, `Broker ${each.broker} does not answer: ${shown(each.reason)}. What it leads is not searched.`)));
    const button = (text, onclick) => h("button", { type: "button", onclick }, text);
    if (isGoingOn) this.more.replaceChildren(button("Stop", () => { this.stop(); this.tell(told, false); }));
    else if (!told.is_at_end && !this.isFollowed) this.more.replaceChildren(button("Go on", () => this.set({ positions: this.positions })));
    else this.more.replaceChildren();
  }
}

function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

const TITLES = [["", "open-cell"], ["Partition", "number place phone-off"], ["Offset", "number offset"], ["Time", "phone-off moment"], ["Key", "key"], ["Value", ""],
  ["Headers", "number phone-off few"]];

function table(all, isOfAll) {
  const titles = isOfAll ? TITLES : TITLES.filter(([title]) => title !== "Partition");
  const head = h("tr", {}, titles.map(([title, kind]) => h("th", { class: kind, scope: "col" }, title || h("span", { class: "unseen" }, "Open"))));
  return h("div", { class: "wide" }, h("table", { class: "records" }, h("thead", {}, head), h("tbody", {}, all)));
}

// One line for each record; its button opens the whole record.
function rows(record, form, isOfAll) {
  const titles = isOfAll ? TITLES : TITLES.filter(([title]) => title !== "Partition");
  const whole = h("tr", { hidden: "" }, h("td", { colspan: titles.length }));
  const open = h("button", { type: "button", class: "open", "aria-expanded": "false", "aria-label": `Record ${record.offset} of partition ${record.partition}`,
    onclick: () => {
      whole.hidden = !whole.hidden;
      whole.cells[0].replaceChildren(...(whole.hidden ? [] : [details(record, form)]));
      open.setAttribute("aria-expanded", String(!whole.hidden));
      open.textContent = whole.hidden ? "+" : "–";
    } }, "+");
  const cells = [open, ...(isOfAll ? [number(record.partition)] : []), number(record.offset), time(record.timestamp_ms), line(record.key, form), line(record.value, form),
    number(record.headers.length + record.headers_left_out)];
  return [h("tr", {}, cells.map((cell, index) => h("td", { class: titles[index][1] }, cell))), whole];
}

function line(value, form) {
  if (value === null) return h("span", { class: "soft" }, "null");
  if (isDecoded(value, form)) return h("div", { class: "line" }, shown(value.decoded.text.slice(0, 300)));
  const isText = value.text !== null && form !== "hex";
  return h("div", { class: "line" }, isText ? shown(value.text.slice(0, 300)) : spaced(value.hex.slice(0, 200)));
}

function details(record, form) {
  const headers = record.headers.map(([title, value]) => [h("div", {}, "Header ", name(title)), data(value, form)]);
  return h("div", { class: "record" }, h("div", { class: "soft" }, `Partition ${record.partition}, offset ${record.offset}, ${time(record.timestamp_ms)}`), h("div", {}, "Key"), data(record.key, form), h("div", {}, "Value"), data(record.value, form), ...headers.flat(),
    record.headers_left_out ? h("div", { class: "soft" }, `${count(record.headers_left_out, "more header")} left out`) : null);
}

// Whether to show the JSON that the broker has decoded by a schema registry's schema.
function isDecoded(value, form) {
  return form === "JSON" && typeof value.decoded?.text === "string";
}

function schema({ schema_id, type, subject, version }) {
  return [`schema ${schema_id}`, subject && `${shown(subject)} version ${version}`, type && shown(type)].filter(Boolean).join(", ");
}

// JSON in lines where it is JSON, text where it is text, else hexadecimal digits; the title says which.
function data(value, form) {
  if (value === null) return h("span", { class: "soft" }, "null");
  const decoded = value.decoded, { text, isCut } = isDecoded(value, form) ? { text: decoded.text, isCut: decoded.is_cut }
    : { text: value.text, isCut: value.size * 2 > value.hex.length };
  const laidOut = form === "JSON" && text !== null ? json(text) : null;
  const isText = form !== "hex" && text !== null;
  const kind = laidOut !== null ? "JSON" : isText ? "text" : "hex";
  const title = [kind, decoded && schema(decoded), bytes(value.size), isCut && "cut"].filter(Boolean).join(", ");
  return h("div", {}, h("pre", { tabindex: 0 }, laidOut ?? (isText ? lines(text) : spaced(value.hex))), h("span", { class: "soft" }, title),
    decoded?.problem ? h("div", { class: "warn" }, `Not decoded: ${shown(decoded.problem)}`) : null);
}

function spaced(hex) {
  return hex.replace(/(..)/g, "$1 ").trim();
}

function lines(text) {
  return text.split("\n").map((each) => each.split("\t").map(shown).join("\t")).join("\n");
}

function json(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? lines(indented(text)) : null;
  } catch {
    return null;
  }
}

// Valid JSON over several lines. Its literals stay as they are written: JavaScript would round large numbers.
function indented(text) {
  let depth = 0, before = "", found = "";
  for (const part of text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const isEnd = part === "}" || part === "]", isBegun = before === "{" || before === "[";
    depth -= isEnd;
    if (isEnd ? !isBegun : isBegun || before === ",") found += `\n${"  ".repeat(depth)}`;
    found += part === ":" ? ": " : part;
    depth += part === "{" || part === "[";
    before = part;
  }
  return found;
}
