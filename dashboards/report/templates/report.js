// SPDX-License-Identifier: Apache-2.0
// Draws the page's figures and keeps their colours those of the page: light, dark, or paper.
"use strict";

const PAPER = { ink: "#1a1d21", grid: "#d5d9de", paper: "#ffffff" };

function pageColours() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return { ink: colour("--ink"), grid: colour("--grid"), paper: colour("--paper") };
}

// What of a layout depends on the page's colours, as paths for Plotly.relayout.
function colourChanges(layout, colours) {
  const changes = {
    "font.color": colours.ink,
    "hoverlabel.bgcolor": colours.paper,
    "hoverlabel.font.color": colours.ink,
  };
  for (const axis of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
    changes[`${axis}.gridcolor`] = colours.grid;
    changes[`${axis}.linecolor`] = colours.grid;
    changes[`${axis}.zerolinecolor`] = colours.ink;
  }
  (layout.annotations || []).forEach((_, index) => {
    changes[`annotations[${index}].font.color`] = colours.ink;
  });
  return changes;
}

const figures = Array.from(document.querySelectorAll("[data-figure]"));

function recolour(colours) {
  return Promise.all(figures.map((figure) => Plotly.relayout(figure, colourChanges(figure.layout, colours))));
}

async function draw() {
  for (const figure of figures) {
    const plot = JSON.parse(document.getElementById(figure.dataset.figure).textContent);
    await Plotly.newPlot(figure, plot.data, plot.layout, { displayModeBar: false, responsive: true });
  }
  await recolour(pageColours());
  document.documentElement.dataset.drawn = String(figures.length);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => recolour(pageColours()));
// A figure that is drawn inside a fold has no width until the fold opens.
document.addEventListener("toggle", (event) => {
  for (const figure of event.target.querySelectorAll("[data-figure]")) Plotly.Plots.resize(figure);
}, true);
addEventListener("beforeprint", () => recolour(PAPER));
addEventListener("afterprint", () => recolour(pageColours()));
draw();
