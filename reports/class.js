// Writes names, lists and the table from the JSON in the page, as far as they are looked at. Text only, never markup.
document.getElementById("noscript").remove();
const data = JSON.parse(document.getElementById("data").textContent);
const { names, folders, exercises, words } = data;
const everyone = names.map((_, student) => student);
const number = new Intl.NumberFormat(data.lang === "en" ? "en" : "zh-CN");
const collator = new Intl.Collator(data.lang === "en" ? "en" : "zh-Hans-CN", { numeric: true });
const fill = (template, ...values) => template.replace(/%s/g, () => values.shift());
const make = (tag, className, ...children) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
};
const wellFormed = (text) => (text.toWellFormed ? text.toWellFormed() : text);
const reportOf = (student, exercise) =>
  `reports/${encodeURIComponent(wellFormed(folders[student]))}/${encodeURIComponent(exercises[exercise].slug)}.html`;

// ---- lists of names

const named = (student, exercise) => {
  const name = make("bdi", "", names[student]);
  if (exercises[exercise].scores[student] === null) return name;
  const link = make("a", "", name);
  link.href = reportOf(student, exercise);
  return link;
};
const writeList = (place) => {
  if (place.childElementCount) return;
  const list = data.lists[place.dataset.list];
  for (const [exercise, students] of list) {
    const written = students.map((student) => make("span", "", named(student, exercise)));
    if (!("labelled" in place.dataset)) place.append(...written);
    else place.append(make("span", "in", make("code", "id", exercises[exercise].id), ...written));
  }
};
for (const place of document.querySelectorAll("[data-list]")) {
  const fold = place.closest("details");
  if (!fold) writeList(place);
  else fold.addEventListener("toggle", () => {
    if (fold.open) for (const inside of fold.querySelectorAll("[data-list]")) {
      if (inside.closest("details").open) writeList(inside);
    }
  });
}
for (const place of document.querySelectorAll("[data-student]")) {
  place.append(named(+place.dataset.student, +place.dataset.in));
}

// ---- the table

const ROWS = 80;
const box = document.querySelector(".box");
const body = box.querySelector("tbody");
const form = document.querySelector(".filters");
const whole = exercises.reduce((sum, exercise) => sum + exercise.max, 0) || 1;
const totals = everyone.map(
  (student) => exercises.reduce((sum, exercise) => sum + (exercise.shares[student] ?? 0) * exercise.max, 0) / whole,
);
const seconds = everyone.map((student) => exercises.reduce((sum, exercise) => sum + (exercise.seconds[student] ?? 0), 0));
const folded = names.map((name) => name.normalize("NFKC").toLowerCase());
const alike = new Set(data.alike);
const ofVerdict = (student, test) => exercises.some((exercise) => test(exercise, student));
const kinds = {
  all: () => true,
  absent: (student) => ofVerdict(student, (exercise) => exercise.verdicts[student] === "-"),
  nothing: (student) => exercises.every((exercise) => exercise.scores[student] === null),
  unfinished: (student) => ofVerdict(student, (exercise) => (exercise.shares[student] ?? 1) < 1),
  eye: (student) => ofVerdict(student, (exercise) => student in exercise.eye),
  alike: (student) => alike.has(student),
};
const place = new Map();
everyone.toSorted((one, other) => collator.compare(names[one], names[other])).forEach((student, at) => place.set(student, at));
const columns = [
  { key: (student) => place.get(student), label: words.student, up: true },
  { key: (student) => totals[student], label: words.total },
  ...exercises.map((exercise) => ({
    key: (student) => exercise.scores[student] ?? -1, label: exercise.id, title: exercise.title,
  })),
  { key: (student) => seconds[student], label: words.seconds },
];
let order = { column: 0, up: true };
let failing = null; // [exercise, property] whose failures alone are shown
let rows = everyone; // students that are shown, in order
let written = 0; // of them, already in the table

const cell = (student, at) => {
  const exercise = exercises[at];
  const score = exercise.scores[student];
  if (score === null) {
    const absent = exercise.verdicts[student] === "-";
    return make("td", "none", ...(absent ? ["–", make("span", "unseen", words.absent)] : []));
  }
  const told = exercise.eye[student];
  const share = exercise.shares[student];
  const link = make("a", "", ...(told ? [make("span", "eye", "!")] : []), String(score));
  const reasons = told ? told.map((reason) => data.reasons[reason]) : [data.verdicts[exercise.verdicts[student]]];
  link.title = `${exercise.id}: ${fill(words.reported, score, exercise.max, reasons.join(", "))}`;
  link.href = reportOf(student, at);
  const heat = share >= 1 ? "full" : `s${Math.min(4, 1 + Math.floor((1 - share) * 4))}`;
  return make("td", heat, link);
};
const row = (student, at) => {
  const name = make("th", "", make("bdi", "", names[student]));
  name.scope = "row";
  name.title = names[student];
  const total = make("td", "total", fill(words.percent, Math.round(100 * totals[student])));
  const line = make("tr", "", name, total, ...exercises.map((_, exercise) => cell(student, exercise)));
  line.append(make("td", "none", seconds[student] ? seconds[student].toFixed(1) : ""));
  line.setAttribute("aria-rowindex", at + 2);
  return line;
};
const write = (count) => {
  const upTo = Math.min(rows.length, written + count);
  const lines = document.createDocumentFragment();
  for (; written < upTo; written++) lines.append(row(rows[written], written));
  body.append(lines);
};
const writeNear = () => {
  while (written < rows.length && box.scrollTop + 3 * box.clientHeight > box.scrollHeight) write(ROWS);
};
const show = () => {
  const wanted = form.elements.name.value.normalize("NFKC").toLowerCase().trim();
  const kind = kinds[form.elements.kind.value];
  const outcomes = failing && exercises[failing[0]].properties[failing[1]].outcomes;
  const { key } = columns[order.column];
  const turn = order.up ? 1 : -1;
  rows = everyone
    .filter((student) => folded[student].includes(wanted) && kind(student) && (!outcomes || outcomes[student] === "0"))
    .sort((one, other) => turn * (key(one) - key(other)) || place.get(one) - place.get(other));
  written = 0;
  box.scrollTop = 0;
  body.replaceChildren();
  write(ROWS);
  if (!rows.length) {
    const empty = make("td", "empty", words.none);
    empty.colSpan = columns.length;
    body.append(make("tr", "", empty));
  }
  box.querySelector("table").setAttribute("aria-rowcount", rows.length + 1);
  const all = rows.length === everyone.length;
  form.querySelector("output").value = all
    ? fill(words.shown_all, number.format(rows.length))
    : fill(words.shown, number.format(rows.length), number.format(everyone.length));
  const chip = form.querySelector(".chip");
  chip.hidden = !failing;
  if (failing) {
    const [exercise, property] = failing;
    const what = `${exercises[exercise].id} · ${exercises[exercise].properties[property].says}`;
    const remove = make("button", "", words.remove);
    remove.type = "button";
    remove.addEventListener("click", () => { failing = null; show(); form.elements.name.focus(); });
    chip.replaceChildren(fill(words.failing, what), remove);
  }
};
const heads = columns.map(({ label, title, up }, column) => {
  const button = make("button", "", label);
  button.type = "button";
  const head = make("th", "", button);
  head.scope = "col";
  if (title) head.title = title;
  button.addEventListener("click", () => {
    order = { column, up: order.column === column ? !order.up : Boolean(up) };
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order.up ? "ascending" : "descending");
    show();
  });
  return head;
});
heads[0].setAttribute("aria-sort", "ascending");
box.querySelector("thead tr").append(...heads);
form.hidden = false;
form.addEventListener("submit", (event) => event.preventDefault());
form.elements.name.addEventListener("input", show);
form.elements.kind.addEventListener("change", show);
form.elements.print.addEventListener("click", () => print());
box.addEventListener("scroll", writeNear, { passive: true });
for (const button of document.querySelectorAll("[data-property]")) {
  button.addEventListener("click", () => {
    failing = [+button.dataset.exercise, +button.dataset.property];
    show();
    document.getElementById("students").scrollIntoView();
    box.focus({ preventScroll: true });
  });
}
show();

// ---- paper, and links into a folded part

addEventListener("beforeprint", () => {
  write(rows.length);
  for (const part of document.querySelectorAll(".exercise")) part.open = true;
});
const openTarget = () => {
  const part = document.getElementById(location.hash.slice(1));
  if (part && part.tagName === "DETAILS") part.open = true;
};
addEventListener("hashchange", openTarget);
openTarget();
