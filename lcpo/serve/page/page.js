"use strict";
// The status page of `lcpo serve`. It asks for v1/status every few seconds and draws the answer.
// Text from the server becomes text nodes only, never HTML.

const EVERY = 3000; // milliseconds between questions
const PATIENCE = 5000; // until the server counts as silent
const FEWEST = 3; // groups of blocks that an interval needs
const MODES = {
  frozen: "The policy decides. Nothing learns.",
  shadow: "Your own rule decides. The agent watches, and learns everything except its policy.",
  switchback: "Your own rule and the policy decide in randomized blocks of time.",
  live: "The policy decides, and learns.",
};
const LINES = {
  policy: ["policy", "incumbent"],
  share: ["fallback", "guard"],
};

const page = { status: null, token: "", heard: null, failure: null, reasons: [], cursor: null, asked: null, refused: false, busy: false, timer: 0 };
const $ = (id) => document.getElementById(id);

// ---- Elements

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function show(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = !text;
}

// Replace what an element holds only if its data changed: a focused button keeps the focus.
const drawn = new WeakMap();
function redraw(element, data, build) {
  const text = JSON.stringify(data);
  if (drawn.get(element) === text) return;
  drawn.set(element, text);
  element.replaceChildren(...build());
}

// ---- Numbers and times

const known = (x) => typeof x === "number" && Number.isFinite(x);
const whole = new Intl.NumberFormat("en");
const significant = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const scientific = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "scientific" });
function number(x) {
  if (!known(x)) return "\u2013";
  const size = Math.abs(x);
  const format = size && (size < 1e-3 || size >= 1e5) ? scientific : significant;
  return format.format(x).replaceAll("-", "\u2212");
}
const count = (x) => (known(x) ? whole.format(x) : "\u2013");
const percent = (x) => (known(x) ? `${significant.format(Number((100 * x).toPrecision(3)))} %` : "\u2013");
const signed = (x) => (x > 0 ? `+${number(x)}` : number(x));

function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
}

function bytes(n) {
  if (!known(n)) return "\u2013";
  const step = n < 1e3 ? 0 : Math.min(4, Math.floor(Math.log10(n) / 3));
  const digits = step ? 3 : 4;
  return `${Number((n / 1000 ** step).toPrecision(digits))} ${["B", "kB", "MB", "GB", "TB"][step]}`;
}

const two = (n) => String(n).padStart(2, "0");
function clock(seconds, { day = false, second = false } = {}) {
  if (!known(seconds)) return "\u2013";
  const t = new Date(seconds * 1000);
  const date = `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} `;
  return `${day ? date : ""}${two(t.getHours())}:${two(t.getMinutes())}${second ? `:${two(t.getSeconds())}` : ""}`;
}

// ---- The server

class Refused extends Error {
  constructor(code, text, token) {
    super(text);
    this.code = code;
    this.token = token;
  }
}

async function call(path, body) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), PATIENCE);
  const token = page.token;
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body) headers["Content-Type"] = "application/json";
  try {
    const answer = await fetch(path, {
      method: body ? "POST" : "GET", headers, cache: "no-store", credentials: "omit", redirect: "error",
      body: body && JSON.stringify(body), signal: stop.signal,
    });
    if (answer.ok) return await answer.json();
    const text = await answer.json().then((found) => String(found.error), () => answer.statusText);
    throw new Refused(answer.status, text, token);
  } catch (error) {
    if (stop.signal.aborted) throw new Error(`It did not answer within ${PATIENCE / 1000} s.`);
    if (error instanceof TypeError) throw new Error("The connection failed.");
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

// What the server waits for, in its own words.
async function reasons(status) {
  if (status.ready) return [];
  try {
    const answer = await fetch("readyz?verbose", { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PATIENCE) });
    const lines = (await answer.text()).split("\n");
    return lines.filter((line) => line && !line.endsWith(": ok"));
  } catch {
    return [];
  }
}

async function poll() {
  clearTimeout(page.timer);
  if (page.busy) return;
  page.busy = true;
  let failure = null;
  try {
    const status = await call("v1/status");
    // Together: a resize draws what `page` holds.
    Object.assign(page, { reasons: await reasons(status), status, heard: Date.now() });
  } catch (error) {
    failure = error;
  }
  page.busy = false;
  hear(failure);
  // Without a token every further question would be one more refusal in the server's counts.
  if ($("access").hidden) page.timer = setTimeout(poll, EVERY);
  if (!failure) render();
}

// ---- What is known of the server

function hear(failure) {
  const before = page.failure;
  page.failure = failure;
  document.body.classList.toggle("stale", Boolean(failure));
  const denied = failure instanceof Refused && failure.code === 401;
  if (denied && page.token && page.token === failure.token) {
    page.token = "";
    page.refused = true;
  }
  if (denied !== !$("access").hidden) {
    $("access").hidden = !denied;
    if (denied) $("token").focus();
  }
  if (before && !failure) say("The server answers again.");
  tick();
}

function trouble() {
  const failure = page.failure;
  if (!failure) return page.status && !page.status.ready ? `The server is not ready. ${page.reasons.join(", ")}` : "";
  if (failure instanceof Refused) {
    if (failure.code === 401) return `${page.refused ? "The token was refused" : "The server asks for a token"}: ${failure.message}`;
    return `The server answers with error ${failure.code}: ${failure.message}`;
  }
  const old = page.heard ? " What you see below is old." : "";
  return `The server does not answer. ${failure.message}${old}`;
}

function tick() {
  const heard = page.heard && `Last heard ${duration((Date.now() - page.heard) / 1000)} ago, at ${clock(page.heard / 1000, { second: true })}`;
  const text = heard || (page.failure ? "Never heard from the server" : "Asking the server ...");
  if ($("heard").textContent !== text) $("heard").textContent = text;
  show($("alert"), trouble());
  const mode = page.status ? page.status.mode : "";
  document.title = `${page.failure ? "no answer" : mode || "..."} \u00b7 lcpo serve`;
}

function say(text) {
  $("said").textContent = text;
}

// ---- The page, from one status

function render() {
  const status = page.status;
  $("content").hidden = false;
  const { stats } = status; // null until the agent is open
  show($("mode"), status.mode || "");
  const ready = status.draining ? "draining" : status.ready ? "ready" : "not ready";
  show($("ready"), ready);
  $("ready").className = ready === "ready" ? "chip good" : "chip bad";
  renderProblems(status);
  for (const one of document.querySelectorAll(".of-agent")) one.hidden = !stats;
  if (!stats) return;
  show($("mode-meaning"), MODES[status.mode] || "");
  renderNow(status, stats);
  renderVerdict(status, stats);
  renderSources(stats);
  renderVersions(status, stats);
  renderServer(status, stats);
  renderCharts();
}

function renderNow(status, stats) {
  const behind = status.log.unapplied;
  const good = status.versions.find((one) => one.good); // to which a rollback would return
  const tiles = [
    ["Policy version", count(stats.policy_version), good ? `last good: ${count(good.number)}` : "no good version yet"],
    ["Updates", count(stats.updates), stats.dropped_updates ? `${count(stats.dropped_updates)} dropped` : "none dropped"],
    ["Log lag", `${count(behind)} ${behind === 1 ? "step" : "steps"}`, "logged, and not yet learned from"],
    ["Log", bytes(status.log.bytes), `newest event: ${count(stats.sequence)}`],
    ["Open decisions", count(stats.open), "wait for a reward"],
    ["Rewards", `${count(stats.late)} late`, `${count(stats.expired)} expired, ${count(stats.discarded)} discarded`],
  ];
  redraw($("now"), tiles, () => tiles.map(([name, value, note]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, note)))));
}

function renderProblems(status) {
  show($("problems-none"), status.problems.length ? "" : `None since the server started at ${clock(status.started, { day: true })}.`);
  redraw($("problems"), status.problems, () => status.problems.map(({ time, text }) =>
    make("li", {}, make("time", { datetime: new Date(time * 1000).toISOString() }, clock(time, { day: true, second: true })), text)));
  const list = $("problems"); // the keyboard must reach what scrolls
  if (list.scrollHeight > list.clientHeight) list.tabIndex = 0;
  else list.removeAttribute("tabindex");
}

function renderVerdict(status, stats) {
  const found = stats.switchback;
  const design = status.switchback_design;
  const rewarded = [...status.series.policy, ...status.series.incumbent].some(known);
  const blocks = design ? `A block lasts ${duration(design.length)}; the policy has ${percent(design.share)} of them.` : "";
  let words;
  let note = blocks;
  const measured = found && found.groups >= FEWEST && known(found.low) && known(found.high);
  if (measured) {
    const side = found.low > 0 ? "good" : found.high < 0 ? "bad" : "";
    const claim = { good: "The policy is better", bad: "The policy is worse", "": "No significant difference" }[side];
    words = [make("strong", { class: side }, `${claim}: `),
      `${signed(found.difference)} reward per decision, 95 % interval ${signed(found.low)} to ${signed(found.high)}, ${count(found.groups)} groups of blocks.`];
  } else if (found) {
    words = [`No interval yet: ${count(found.groups || 0)} complete groups of blocks, and at least ${FEWEST} are needed.`];
    if (found.num_left_out) note = `${note} ${count(found.num_left_out)} blocks belong to incomplete groups.`;
  } else if (status.mode === "shadow") {
    words = ["No comparison in shadow mode: your own rule decides, so the policy earns no reward."];
    note = "Change to switchback mode to measure the difference.";
  } else {
    words = ["No comparison outside switchback mode."];
    note = "The lines below are means over time. Different loads make them differ, too.";
  }
  if (!rewarded) note = `No reward has arrived yet. ${note}`;
  redraw($("verdict"), [found, status.mode], () => words);
  show($("verdict-note"), note);
  redraw($("interval"), [measured && found, width("interval")], () => (measured ? [drawInterval(found)] : []));
}

function renderSources(stats) {
  const rows = Object.entries(stats.decisions).filter(([, n]) => n);
  const all = rows.reduce((sum, [, n]) => sum + n, 0);
  show($("sources-none"), rows.length ? "" : "No decision yet.");
  $("sources").hidden = !rows.length;
  redraw($("sources").tBodies[0], [stats.decisions, stats.mean_reward], () => rows.map(([source, n]) =>
    make("tr", {}, make("th", { scope: "row", class: "l" }, source), cell(count(n)), cell(percent(n / all)), cell(number(stats.mean_reward[source])))));
}

const cell = (text, kind = "r") => make("td", { class: kind }, text);

function renderVersions(status, stats) {
  const rows = [...status.versions].sort((a, b) => b.number - a.number);
  const year = `${new Date(status.now * 1000).getFullYear()}-`; // goes without saying
  show($("versions-none"), rows.length ? "" : "No version yet. The first one is saved with the first update.");
  $("versions").hidden = !rows.length;
  redraw($("versions").tBodies[0], [rows, stats.policy_version], () => rows.map((one) => {
    const used = one.number === stats.policy_version;
    const notes = [used && "in use", one.good && "last good"].filter(Boolean);
    const button = make("button", { type: "button", "aria-label": `Roll back to version ${one.number}` }, "Roll back");
    button.addEventListener("click", () => ask(one.number));
    return make("tr", {}, make("th", { scope: "row", class: "r" }, count(one.number)), cell(clock(one.time, { day: true }).replace(year, ""), "l"),
      cell(notes.join(", "), "l"), make("td", { class: "l" }, ...(used ? [] : [button])));
  }));
}

function renderServer(status, stats) {
  const design = status.switchback_design;
  const rows = [
    ["lcpo", status.version], ["config", status.config_hash],
    ["started", `${clock(status.started, { day: true, second: true })} (${duration(status.now - status.started)} ago)`],
    ["checkpoint", `up to event ${count(stats.checkpoint)} of ${count(stats.sequence)}`],
    ["switchback", design ? `blocks of ${duration(design.length)}, share ${percent(design.share)}, burn-in ${duration(design.burn_in)}, seed ${design.seed}` : "none"],
    ["times", `of this browser (${Intl.DateTimeFormat().resolvedOptions().timeZone})`],
  ];
  redraw($("server"), rows, () => rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
}

// ---- Charts

const MARGIN = { left: 54, right: 8, top: 8, bottom: 24 };
const width = (id) => Math.max(240, $(id).clientWidth);

function renderCharts() {
  const { series } = page.status;
  const last = series.start.length - 1;
  $("cursor-section").hidden = last < 1;
  const slider = $("cursor");
  slider.max = String(Math.max(0, last));
  if (page.cursor !== null && page.cursor < series.start[0]) page.cursor = null;
  const found = page.cursor === null ? last : series.start.findLastIndex((t) => t <= page.cursor);
  slider.value = String(found);
  const time = last < 0 ? "" : `${clock(series.start[found], { day: true, second: true })}${found === last ? ", the newest" : ""}`;
  $("cursor-time").textContent = time;
  slider.setAttribute("aria-valuetext", time);
  chart("reward", LINES.policy, series, found, { height: 240, empty: "Rewards will appear here.", name: "Mean reward over time" });
  chart("share", LINES.share, series, found, { height: 150, share: true, empty: "Decisions will appear here.", name: "Share of fallback and guard over time" });
  chart("active", ["active"], series, found, { height: 150, share: true, empty: "No update has reported a constraint. Agents without one never do.", name: "Constraint activity over time" });
  strips(series, found);
  renderNumbers(series);
}

function chart(id, names, series, at, { height, share, empty, name }) {
  const lines = names.map((one) => ({ name: one, kind: one === "active" ? "mean" : one, values: series[one] }));
  const data = [series.start, lines, at, width(id)];
  redraw($(id), data, () => {
    if (!lines.some((line) => line.values.some(known))) return [make("p", { class: "empty" }, empty)];
    const format = share ? percent : number;
    const legend = make("ul", { class: "legend" }, ...lines.map((line) => make("li", {},
      draw("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, draw("path", { class: `trace ${line.kind}`, d: "M1 5H25" })),
      line.name === "active" ? "active" : line.name, make("b", {}, format(line.values[at])))));
    return [legend, drawLines(series.start, lines, at, { width: width(id), height, share, title: describe(name, lines, format) })];
  });
}

// What a screen reader says of a chart; the table of numbers has the rest.
function describe(name, lines, format) {
  const parts = lines.map(({ name: line, values }) => {
    const there = values.filter(known);
    if (!there.length) return `${line}: no values`;
    return `${line}: newest ${format(there.at(-1))}, from ${format(Math.min(...there))} to ${format(Math.max(...there))}`;
  });
  return `${name}. ${parts.join(". ")}.`;
}

function drawLines(start, lines, at, { width: wide, height, share, title, strip = false }) {
  const margin = strip ? { left: 2, right: 2, top: 5, bottom: 5 } : MARGIN;
  const values = lines.flatMap((line) => line.values.filter(known));
  let low = Math.min(...values);
  let high = Math.max(...values);
  if (share) [low, high] = [0, Math.min(1, Math.max(high, 0.01))];
  if (low === high) [low, high] = [low - (Math.abs(low) * 0.1 || 1), high + (Math.abs(high) * 0.1 || 1)];
  const marks = strip ? [] : ticks(low, high, height < 200 ? 3 : 5);
  if (!strip) [low, high] = [Math.min(low, marks[0]), Math.max(high, marks.at(-1))];
  const steps = start.slice(1).map((t, i) => t - start[i]).sort((a, b) => a - b);
  const step = steps[0] || 60; // empty intervals are left out, so others are multiples of it
  const longest = 4 * (steps[steps.length >> 1] || step);
  const [first, final] = [start[0], start.at(-1) + step];
  const x = (t) => margin.left + ((t - first) / (final - first)) * (wide - margin.left - margin.right);
  const y = (v) => height - margin.bottom - ((v - low) / (high - low)) * (height - margin.top - margin.bottom);
  const made = draw("svg", { viewBox: `0 0 ${wide} ${height}`, height, role: "img", "aria-label": title });
  for (const mark of marks) {
    const label = share ? percent(mark) : number(mark);
    made.append(draw("path", { class: mark === 0 ? "zero" : "grid", d: `M${margin.left} ${y(mark)}H${wide - margin.right}` }),
      draw("text", { x: margin.left - 6, y: y(mark) + 4, "text-anchor": "end" }, label));
  }
  if (!strip) {
    for (const [t, text] of timeMarks(first, final, Math.max(3, Math.floor(wide / 120)))) {
      const place = Math.min(Math.max(x(t), margin.left + 16), wide - 20);
      made.append(draw("text", { x: place, y: height - 6, "text-anchor": "middle" }, text));
    }
  }
  const middle = (i) => x(start[i] + step / 2);
  made.append(draw("path", { class: "now", d: `M${middle(at)} ${margin.top}V${height - margin.bottom}` }));
  for (const line of lines) {
    const has = (i) => known(line.values[i]);
    const joined = (i) => has(i) && has(i - 1) && start[i] - start[i - 1] <= longest;
    let path = "";
    start.forEach((_, i) => {
      if (has(i)) path += `${joined(i) ? "L" : "M"}${middle(i).toFixed(1)} ${y(line.values[i]).toFixed(1)}`;
    });
    made.append(draw("path", { class: `trace ${line.kind}`, d: path }));
    start.forEach((_, i) => { // a value between two gaps has no line
      const alone = has(i) && !joined(i) && !joined(i + 1);
      if (alone || (i === at && has(i))) made.append(draw("circle", { class: `dot ${line.kind}`, cx: middle(i), cy: y(line.values[i]), r: i === at ? 4 : 2 }));
    });
  }
  made.addEventListener("pointermove", (event) => {
    const box = made.getBoundingClientRect();
    const share = ((event.clientX - box.left) * (wide / box.width) - margin.left) / (wide - margin.left - margin.right);
    const time = first + share * (final - first);
    point(start.findLastIndex((t) => t <= time));
  });
  return made;
}

function ticks(low, high, most) {
  const rough = (high - low) / most;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((k) => k * unit >= rough);
  const found = [];
  for (let k = Math.floor(low / step); k <= Math.ceil(high / step); k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

function timeMarks(first, final, most) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  const step = steps.find((s) => (final - first) / s <= most) || 604800;
  const shift = new Date(first * 1000).getTimezoneOffset() * 60;
  const marks = [];
  for (let t = Math.ceil((first - shift) / step) * step + shift; t < final; t += step) {
    marks.push([t, step >= 86400 ? clock(t, { day: true }).slice(5, 10) : clock(t, { second: step < 60 })]);
  }
  return marks.length ? marks : [[first, clock(first)]];
}

function drawInterval({ difference, low, high }) {
  const wide = Math.min(width("interval"), 544);
  const [from, to] = [Math.min(low, 0), Math.max(high, 0)];
  const pad = (to - from) * 0.08 || 1;
  const x = (v) => 8 + ((v - from + pad) / (to - from + 2 * pad)) * (wide - 16);
  const made = draw("svg", { viewBox: `0 0 ${wide} 52`, height: 52, role: "img",
    "aria-label": `Policy minus incumbent ${signed(difference)}, interval ${signed(low)} to ${signed(high)}, zero is ${low <= 0 && high >= 0 ? "inside" : "outside"}.` });
  made.append(draw("path", { class: "grid", d: `M8 20H${wide - 8}` }), draw("path", { class: "zero", d: `M${x(0)} 6V34` }),
    draw("path", { class: "bar policy", d: `M${x(low)} 20H${x(high)}` }),
    draw("circle", { class: "dot policy", cx: x(difference), cy: 20, r: 6 }));
  const place = Math.min(Math.max(x(0), 60), wide - 60);
  made.append(draw("text", { x: place, y: 48, "text-anchor": "middle" }, "0: no difference"));
  return made;
}

function strips(series, at) {
  const channels = series.context.reduce((most, means) => Math.max(most, (means || []).length), 0);
  const values = (k) => series.context.map((means) => (means ? means[k] : null));
  redraw($("context"), [series.start, series.context, at, width("context")], () => {
    if (!channels) return [make("p", { class: "empty" }, "No context yet.")];
    const wide = window.innerWidth > 900 ? Math.floor(width("context") / 2 - 20) : width("context");
    return Array.from({ length: channels }, (_, k) => {
      const line = { name: `channel ${k}`, kind: "mean", values: values(k) };
      const there = line.values.filter(known);
      const range = there.length ? `from ${number(Math.min(...there))} to ${number(Math.max(...there))}` : "no values";
      const head = make("p", { class: "caption" }, `Channel ${k}: `, make("b", {}, number(line.values[at])), ` (${range})`);
      const body = there.length ? [drawLines(series.start, [line], at, { width: wide, height: 44, strip: true, title: describe("Context over time", [line], number) })] : [];
      return make("div", {}, head, ...body);
    });
  });
}

function renderNumbers(series) {
  if (!$("numbers").open) return;
  const columns = ["policy", "incumbent", "decisions", "fallback", "guard", "active"];
  const shares = new Set(["fallback", "guard", "active"]);
  const [head, body] = [$("numbers").querySelector("thead tr"), $("numbers").querySelector("tbody")];
  redraw(head, columns, () => ["from", ...columns, "context"].map((name) => make("th", { scope: "col", class: name === "from" ? "l" : "r" }, name)));
  redraw(body, series, () => series.start.map((t, i) => make("tr", {},
    make("th", { scope: "row", class: "l" }, clock(t, { day: true, second: true })),
    ...columns.map((name) => cell(name === "decisions" ? count(series[name][i]) : shares.has(name) ? percent(series[name][i]) : number(series[name][i]))),
    cell((series.context[i] || []).map(number).join(", ")))).reverse());
}

function point(index) {
  const { start } = page.status.series;
  const last = start.length - 1;
  page.cursor = index >= last ? null : start[Math.max(0, index)];
  renderCharts();
}

// ---- Rollback

function ask(version) {
  page.asked = version;
  $("ask-title").textContent = `Roll back to version ${count(version)}?`;
  $("why").value = "";
  show($("ask-problem"), "");
  $("ask-access").hidden = true;
  $("ask").showModal();
  $("why").focus();
}

async function rollBack(event) {
  event.preventDefault();
  const why = $("why").value.trim();
  if (!why) {
    show($("ask-problem"), "Give a reason: the log keeps it with the rollback.");
    $("why").focus();
    return;
  }
  if ($("ask-token").value) page.token = $("ask-token").value;
  $("ask-token").value = "";
  $("ask-do").disabled = true;
  try {
    const found = await call("v1/rollback", { version: page.asked, why });
    $("ask").close();
    say(`Version ${count(page.asked)} is in use again, as version ${count(found.policy_version)}.`);
    poll();
  } catch (error) {
    const denied = error instanceof Refused && error.code === 401;
    $("ask-access").hidden = !denied;
    const what = error instanceof Refused ? "The rollback was not made." : "It is not known whether the rollback was made. Look at the versions first.";
    show($("ask-problem"), `${what} ${error.message}`);
    if (denied) $("ask-token").focus();
  } finally {
    $("ask-do").disabled = false;
  }
}

// ---- Start

$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  page.token = $("token").value;
  $("token").value = "";
  poll();
});
$("cursor").addEventListener("input", () => point(Number($("cursor").value)));
$("numbers").addEventListener("toggle", () => page.status && renderNumbers(page.status.series));
$("ask-form").addEventListener("submit", rollBack);
$("ask-cancel").addEventListener("click", () => $("ask").close());
window.addEventListener("resize", () => page.status && render());
setInterval(tick, 1000);
poll();
