"use strict";
// Draws the figures from the JSON beside them; nothing is loaded from anywhere.
(function () {
  const plots = Array.from(document.querySelectorAll(".plot"));
  const options = {
    displaylogo: false,
    modeBarButtons: [["toImage", "zoom2d", "resetScale2d"]],
  };

  // On a phone the legend moves below the figure, which grows by as much.
  function fitted(layout, width) {
    if (width >= 640) return layout;
    const narrow = Object.assign({}, layout, { font: Object.assign({}, layout.font, { size: 12 }) });
    const ticks = layout.xaxis && layout.xaxis.ticktext;
    if (ticks) { // labels of two lines would overlap when they turn
      narrow.xaxis = Object.assign({}, layout.xaxis, { ticktext: ticks.map((text) => text.replace("<br>", " · ")) });
    }
    narrow.margin = Object.assign({}, layout.margin, { l: 48, r: 10 });
    if (!(layout.legend && layout.legend.orientation === "h")) {
      narrow.legend = Object.assign({}, layout.legend, {
        orientation: "h", x: 0, xanchor: "left", y: 0, yref: "container", yanchor: "bottom",
      });
    }
    return narrow;
  }

  function makeRoom(plot) {
    const legend = plot.querySelector(".legend");
    if (!legend) return undefined;
    const rows = Math.ceil(legend.getBoundingClientRect().height);
    const above = plot.layout.legend.y === 1;
    const height = above ? plot.layout.height + rows - 28 : 350 + rows;
    plot.style.height = height + "px";
    return Plotly.relayout(plot, above ? { height, "margin.t": rows + 16 } : { height, "margin.b": 60 + rows });
  }

  function draw(plot) {
    const figure = JSON.parse(plot.parentElement.querySelector("script").textContent);
    const width = plot.clientWidth;
    const narrow = width < 640;
    plot.dataset.narrow = String(narrow);
    plot.style.height = figure.layout.height + "px"; // Plotly forgets the layout's height when the window changes
    return Plotly.react(plot, figure.data, fitted(figure.layout, width), options)
      .then(() => (narrow ? makeRoom(plot) : undefined))
      .then(() => {
        if (!plot.dataset.drawn) plot.on("plotly_afterplot", () => scalable(plot));
        plot.dataset.drawn = "true";
        scalable(plot);
      });
  }

  // With a viewBox the print style sheet can scale what the screen laid out.
  function scalable(plot) {
    for (const svg of plot.querySelectorAll("svg.main-svg")) {
      svg.setAttribute("viewBox", "0 0 " + svg.getAttribute("width") + " " + svg.getAttribute("height"));
    }
  }

  plots.forEach(draw);

  // Paper is not a window: there the style sheet scales the figures, and Plotly must not lay them out again.
  window.addEventListener("resize", () => {
    if (window.matchMedia("print").matches) return;
    for (const plot of plots) {
      const flipped = String(plot.clientWidth < 640) !== plot.dataset.narrow;
      if (flipped) draw(plot);
      else if (plot.dataset.drawn) Plotly.Plots.resize(plot);
    }
  });

  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) {
      details.open = true;
      details.dataset.wasClosed = "true";
    }
  });
  window.addEventListener("afterprint", () => {
    for (const details of document.querySelectorAll("details[data-was-closed]")) {
      details.open = false;
      delete details.dataset.wasClosed;
    }
  });
})();
