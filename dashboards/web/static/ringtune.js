// SPDX-License-Identifier: Apache-2.0
// Draws figures in the page's colours, follows a study while its jobs tune, copies settings, and adds its key to forms.
// The pages can be read without it, and forms then ask for the token. It makes no markup of its own: what is new comes from the server, as a page.

const LOOK_MS = 20000; // while a job runs: its state changes without a result, too, when it ends or falls silent
const REST_MS = 1500; // between two looks at the server, however many results come
const NEW_MS = 4000; // how long a result is called new
const AGAIN_MS = 5000; // after the service refused to be listened to
const FORM_KEY = "ringtune.form_key";
const CONFIG = { displayModeBar: false, responsive: true };

const dark = matchMedia("(prefers-color-scheme: dark)");

function pageColours() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return { ink: colour("--ink"), grid: colour("--grid"), paper: colour("--sheet") };
}

// A layout in the page's colours; the server leaves them out, because it does not know them.
function coloured(layout) {
  const { ink, grid, paper } = pageColours();
  const made = { ...layout, font: { ...layout.font, color: ink } };
  made.hoverlabel = { ...layout.hoverlabel, bgcolor: paper, font: { color: ink } };
  for (const axis of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
    made[axis] = { ...layout[axis], gridcolor: grid, linecolor: grid, zerolinecolor: ink };
  }
  if (layout.annotations) {
    made.annotations = layout.annotations.map((note) => ({ ...note, font: { ...note.font, color: ink } }));
  }
  return made;
}

async function draw(figure) {
  const plot = JSON.parse(document.getElementById(figure.dataset.figure).textContent);
  await globalThis.Plotly.react(figure, plot.data, coloured(plot.layout), CONFIG);
}

async function drawAll() {
  const figures = Array.from(document.querySelectorAll("[data-figure]"));
  for (const figure of figures) {
    await draw(figure);
  }
  document.documentElement.dataset.drawn = String(figures.length);
}

function installCopying() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = !navigator.clipboard;
  }
}

async function copy(button) {
  const words = button.firstChild;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  words.textContent = "Copied";
  setTimeout(() => { words.textContent = "Copy"; }, 2000);
}

// What somebody works in is left as it is until the next time; what they opened stays open.
function replaceRegion(old, fresh) {
  if (old.innerHTML === fresh.innerHTML || old.contains(document.activeElement)) {
    return;
  }
  const opened = new Set(Array.from(old.querySelectorAll("details[id]"), (box) => (box.open ? `+${box.id}` : box.id)));
  const scrolled = Array.from(old.querySelectorAll(".scroll"), (box) => [box.scrollLeft, box.scrollTop]);
  old.className = fresh.className;
  old.replaceChildren(...fresh.childNodes);
  old.querySelectorAll(".scroll").forEach((box, index) => {
    [box.scrollLeft, box.scrollTop] = scrolled[index] ?? [0, 0];
  });
  for (const box of old.querySelectorAll("details[id]")) {
    if (opened.has(`+${box.id}`) || opened.has(box.id)) {
      box.open = opened.has(`+${box.id}`);
    }
  }
}

function renewFigure(old, fresh) {
  const data = "script[type='application/json']";
  const [before, after] = [old.querySelector(data), fresh.querySelector(data)];
  if (before.textContent === after.textContent) {
    return;
  }
  before.textContent = after.textContent;
  old.querySelector("figcaption").textContent = fresh.querySelector("figcaption").textContent;
  old.querySelector("h3").textContent = fresh.querySelector("h3").textContent;
  replaceRegion(old.querySelector("details"), fresh.querySelector("details"));
}

function renewFigures(old, fresh) {
  const names = (room) => Array.from(room.querySelectorAll("[data-plot]"), (figure) => figure.dataset.plot);
  if (names(old).join() === names(fresh).join()) {
    old.querySelectorAll("[data-plot]").forEach((figure, index) => {
      renewFigure(figure, fresh.querySelectorAll("[data-plot]")[index]);
    });
  } else {
    old.querySelectorAll("[data-figure]").forEach((figure) => globalThis.Plotly.purge(figure));
    old.replaceChildren(...fresh.childNodes);
  }
}

async function renewPage() {
  const reply = await fetch(location.href, { headers: { accept: "text/html" } });
  if (reply.status === 429 || reply.status >= 500) {
    throw new Error("the service is busy");
  }
  if (reply.redirected || !reply.ok) {
    location.reload();
    return;
  }
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  for (const region of document.querySelectorAll("[data-live]")) {
    const found = fresh.querySelector(`[data-live="${region.dataset.live}"]`);
    if (found) {
      replaceRegion(region, found);
    }
  }
  const live = fresh.getElementById("live");
  if (live) {
    Object.assign(document.getElementById("live").dataset, { words: live.dataset.words, running: live.dataset.running });
  }
  const [old, found] = [document.querySelector("[data-live-figures]"), fresh.querySelector("[data-live-figures]")];
  if (old && found) {
    renewFigures(old, found);
  }
  installCopying();
  await drawAll();
}

// Follows one study. Hidden pages listen to nothing: places at the service are few.
class Follower {
  constructor(status) {
    this.status = status;
    this.waiting = 0;
    this.timer = null;
    this.renewed = 0;
    this.after = status.dataset.after; // what happened since the page was made is told too
    this.begin();
    document.addEventListener("visibilitychange", () => (document.hidden ? this.end() : this.resume()));
    addEventListener("pagehide", () => this.end());
  }

  begin() {
    this.source = new EventSource(`/events?after=${this.after}`);
    this.source.addEventListener("open", () => this.rest());
    this.source.addEventListener("error", () => this.lost());
    this.source.addEventListener("result", (event) => {
      this.after = event.lastEventId;
      this.take(JSON.parse(event.data));
    });
  }

  // A connection that broke is tried again by the browser, one that was refused is not.
  lost() {
    this.say("off", "Not live: the connection was lost, trying again");
    if (this.source?.readyState === EventSource.CLOSED) {
      this.end();
      setTimeout(() => this.resume(), AGAIN_MS);
    }
  }

  end() {
    clearTimeout(this.look);
    this.source?.close();
    this.source = null;
  }

  resume() {
    if (!this.source && !document.hidden) {
      this.begin();
      this.schedule();
    }
  }

  take(result) {
    if (result.study_id === this.status.dataset.study) {
      this.waiting += 1;
      this.schedule();
    }
  }

  schedule() {
    this.timer ??= setTimeout(() => this.renew(), REST_MS);
  }

  async renew() {
    const count = this.waiting;
    this.waiting = 0;
    try {
      await renewPage();
      if (count) {
        this.say("new", count === 1 ? "Live: 1 new result" : `Live: ${count} new results`);
        setTimeout(() => this.rest(), NEW_MS);
      } else {
        this.rest();
      }
      this.renewed += 1;
      document.documentElement.dataset.renewed = String(this.renewed);
    } catch {
      this.waiting += Math.max(count, 1);
      this.say("off", "Not live: the service does not answer; trying again");
    } finally {
      this.timer = null;
      if (this.waiting) {
        this.schedule();
      }
    }
  }

  // The page is live while a job runs, and says so only then.
  rest() {
    const { running, words } = this.status.dataset;
    this.say(running === "yes" ? "on" : "idle", words);
    clearTimeout(this.look);
    this.look = running === "yes" && this.source ? setTimeout(() => this.schedule(), LOOK_MS) : null;
  }

  say(state, text) {
    if (this.status.dataset.state !== state || this.status.textContent !== text) {
      this.status.dataset.state = state;
      this.status.textContent = text;
    }
  }
}

// A form needs the key of the session besides the cookie. Every port of this host can receive the cookie; the storage is
// this port's alone. The sign-in page has a new key: it holds once the sign-in has led to a page.
function addFormKey(form) {
  const field = form.elements.namedItem("form_key") ?? document.createElement("input");
  if (form.id === "sign-in") {
    sessionStorage.setItem(FORM_KEY, field.value);
    return;
  }
  Object.assign(field, { type: "hidden", name: "form_key", value: localStorage.getItem(FORM_KEY) ?? "" });
  form.append(field);
}

function keepFormKey() {
  const made = sessionStorage.getItem(FORM_KEY);
  if (made && "signedIn" in document.body.dataset) {
    localStorage.setItem(FORM_KEY, made);
    sessionStorage.removeItem(FORM_KEY);
  }
}

document.addEventListener("submit", (event) => {
  if (event.target.method === "post") {
    addFormKey(event.target);
  }
});
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (button) {
    copy(button);
  }
});
document.addEventListener("toggle", (event) => {
  for (const figure of event.target.querySelectorAll?.(":scope .js-plotly-plot") ?? []) {
    globalThis.Plotly?.Plots.resize(figure); // what is drawn where nobody sees it has no width
  }
}, true);
dark.addEventListener("change", () => drawAll());
keepFormKey();
installCopying();
if (document.querySelector("[data-figure]")) {
  await drawAll();
}
const status = document.getElementById("live");
if (status) {
  new Follower(status);
}
