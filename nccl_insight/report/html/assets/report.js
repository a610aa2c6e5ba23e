(function () {
  "use strict";
  var root = document.documentElement;
  var live = document.getElementById("live"), figures = {}, drawn = {};
  function say(text) { if (live) { live.textContent = ""; setTimeout(function () { live.textContent = text; }, 30); } }
  function dark() {
    var set = root.getAttribute("data-theme");
    return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function data(id) { var e = document.getElementById(id); return e ? JSON.parse(e.textContent) : null; }

  /* theme */
  var toggle = document.getElementById("theme");
  function label() { if (toggle) toggle.setAttribute("aria-pressed", dark() ? "true" : "false"); }
  if (toggle) toggle.addEventListener("click", function () {
    var next = dark() ? "light" : "dark";
    root.setAttribute("data-theme", next);
    try { localStorage.setItem("nccl-insight-theme", next); } catch (e) { /* storage may be refused on file:// */ }
    label(); retheme();
  });
  label();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { label(); retheme(); });

  /* copy as markdown */
  var texts = data("data-markdown") || {};
  function copy(text) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text).catch(function () { return old(text); });
    return old(text);
  }
  function old(text) {
    var area = document.createElement("textarea");
    area.value = text; area.className = "live"; area.setAttribute("aria-hidden", "true");
    document.body.appendChild(area); area.select();
    var done = false;
    try { done = document.execCommand("copy"); } catch (e) { done = false; }
    document.body.removeChild(area);
    return done ? Promise.resolve() : Promise.reject(new Error("copy was refused"));
  }
  document.addEventListener("click", function (event) {
    var button = event.target.closest ? event.target.closest("button[data-copy]") : null;
    if (!button) return;
    var span = button.querySelector("span"), before = span.textContent;
    copy(texts[button.getAttribute("data-copy")] || "").then(
      function () { span.textContent = "Copied"; say("Copied as markdown"); },
      function () { span.textContent = "Copy refused"; say("The browser refused to copy"); }
    ).then(function () { setTimeout(function () { span.textContent = before; }, 1600); });
  });

  /* copy a command */
  document.addEventListener("click", function (event) {
    var button = event.target.closest ? event.target.closest("button[data-copy-code]") : null;
    if (!button) return;
    var span = button.querySelector("span"), code = button.parentElement.querySelector("code");
    copy(code ? code.textContent : "").then(
      function () { span.textContent = "Copied"; say("Command copied"); },
      function () { span.textContent = "Copy refused"; say("The browser refused to copy"); }
    ).then(function () { setTimeout(function () { span.textContent = "Copy"; }, 1600); });
  });

  /* ranks and hosts of a finding, marked in every figure */
  var held = null;
  function list(card, name) { var v = card && card.getAttribute(name); return v ? v.split(" ") : []; }
  function mark(ranks, hosts) {
    var any = ranks.length || hosts.length, r = {}, h = {};
    ranks.forEach(function (x) { r[x] = true; }); hosts.forEach(function (x) { h[x] = true; });
    document.querySelectorAll("svg.draw [data-r],svg.draw [data-h]").forEach(function (e) {
      var of = (e.getAttribute("data-r") || "").split(" ");
      var hit = any && (of.some(function (x) { return r[x]; }) || h[e.getAttribute("data-h")]);
      e.classList.toggle("lit", !!hit);
    });
    document.querySelectorAll("svg.draw").forEach(function (s) { s.classList.toggle("some", any && !!s.querySelector(".lit")); });
    document.querySelectorAll(".plot[data-drawn]").forEach(function (box) { bands(box, box.id.slice(5), ranks); });
  }
  function bands(box, id, ranks) {
    var layout = box._fullLayout;
    if (!layout || !window.Plotly) return;
    var shapes = ((figures[id].layout || {}).shapes || []).slice(), c = getComputedStyle(root).getPropertyValue("--error").trim();
    ["x", "y"].forEach(function (a) {
      var axis = layout[a + "axis"];
      if (!axis) return;
      var title = ((figures[id].layout[a + "axis"] || {}).title || {}).text;
      ranks.forEach(function (rank) {
        var at = axis.type === "category" ? (axis._categories || []).indexOf("rank " + rank) : (title === "rank" ? Number(rank) : -1);
        if (at < 0) return;
        var s = { type: "rect", layer: "below", line: { width: 0 }, fillcolor: c, opacity: 0.14 };
        if (a === "x") { s.xref = "x"; s.x0 = at - 0.5; s.x1 = at + 0.5; s.yref = "paper"; s.y0 = 0; s.y1 = 1; }
        else { s.yref = "y"; s.y0 = at - 0.5; s.y1 = at + 0.5; s.xref = "paper"; s.x0 = 0; s.x1 = 1; }
        shapes.push(s);
      });
    });
    Plotly.relayout(box, { shapes: shapes });
  }
  function cardOf(anchor) { return document.getElementById(anchor); }
  document.addEventListener("click", function (event) {
    var button = event.target.closest ? event.target.closest("button[data-mark]") : null;
    if (!button) return;
    var anchor = button.getAttribute("data-mark");
    held = held === anchor ? null : anchor;
    document.querySelectorAll("button[data-mark]").forEach(function (b) {
      b.setAttribute("aria-pressed", b.getAttribute("data-mark") === held ? "true" : "false");
    });
    var card = held && cardOf(held);
    mark(list(card, "data-ranks"), list(card, "data-hosts"));
    say(held ? "Ranks " + list(card, "data-ranks").join(", ") + " are marked in the figures" : "Marks removed");
  });

  /* filter of the findings */
  var fields = ["severity", "rank", "host", "words"].map(function (n) { return document.getElementById("f-" + n); });
  function filter() {
    var v = fields.map(function (f) { return f ? f.value.trim().toLowerCase() : ""; }), shown = 0, all = 0;
    document.querySelectorAll("article.finding").forEach(function (card) {
      var ok = (!v[0] || card.getAttribute("data-severity") === v[0]) &&
        (!v[1] || list(card, "data-ranks").indexOf(v[1].replace(/^r(ank)?\s*/, "")) >= 0) &&
        (!v[2] || (card.getAttribute("data-hosts") || "").toLowerCase().indexOf(v[2]) >= 0) &&
        (!v[3] || card.textContent.toLowerCase().indexOf(v[3]) >= 0);
      card.hidden = !ok; all++; if (ok) shown++;
    });
    var out = document.getElementById("f-count");
    if (out) out.textContent = v.join("") ? shown + " of " + all + " shown" : "";
    if (v[1] && /^\d+$/.test(v[1])) mark([v[1]], []); else if (!held) mark([], []);
  }
  fields.forEach(function (f) { if (f) f.addEventListener("input", filter); });

  /* what the tiles of the nodes are colored by */
  document.addEventListener("change", function (event) {
    var s = event.target;
    if (!s.getAttribute || s.getAttribute("data-figure") !== "cluster") return;
    var n = Number(s.value), fig = s.closest("figure");
    fig.querySelectorAll("[data-c]").forEach(function (e) {
      var css = e.getAttribute("data-c").split(" "), lit = e.classList.contains("lit");
      e.setAttribute("class", "tile " + css[n] + (lit ? " lit" : ""));
    });
    fig.querySelectorAll("[data-l]").forEach(function (g) {
      if (Number(g.getAttribute("data-l")) === n) g.removeAttribute("display"); else g.setAttribute("display", "none");
    });
    say("Nodes are colored " + s.options[s.selectedIndex].text);
  });

  /* a link to something inside a closed <details> opens it */
  function reveal() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    if (target) target.scrollIntoView();
  }
  addEventListener("hashchange", reveal); reveal();

  /* figures, drawn when they come near the screen */
  figures = data("data-figures") || {};
  function ink() {
    var style = getComputedStyle(root);
    function v(name) { return style.getPropertyValue(name).trim(); }
    return { text: v("--text"), muted: v("--muted"), line: v("--line"), panel: v("--panel"), strong: v("--line-strong") };
  }
  function paint(layout) {
    var c = ink(), out = JSON.parse(JSON.stringify(layout));
    out.paper_bgcolor = "rgba(0,0,0,0)"; out.plot_bgcolor = "rgba(0,0,0,0)";
    out.modebar = { bgcolor: "rgba(0,0,0,0)", color: c.muted, activecolor: c.text };
    out.font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: c.text };
    out.hoverlabel = { bgcolor: c.panel, bordercolor: c.strong, font: { color: c.text, size: 13 }, align: "left" };
    Object.keys(out).forEach(function (key) {
      if (!/^[xy]axis\d*$/.test(key)) return;
      out[key] = Object.assign({ gridcolor: c.line, linecolor: c.strong, zerolinecolor: c.line, tickcolor: c.strong }, out[key]);
      if (out[key].title) out[key].title.font = { size: 13, color: c.muted };
    });
    (out.shapes || []).forEach(function (s) { if (s.name === "box") { s.line.color = s.line.color || c.strong; s.fillcolor = s.fillcolor || c.panel; } });
    (out.annotations || []).forEach(function (a) { a.font = Object.assign({ color: c.muted, size: 12 }, a.font || {}); });
    return out;
  }
  function narrow(layout, width) {
    if (width < 560) {
      layout.margin = Object.assign({}, layout.margin, { l: Math.min(44, (layout.margin || {}).l), r: 10 });
      /* labels of sizes side by side, and what a line is without its source: the sentence above has it */
      var axis = layout.xaxis || {}, most = Math.max(2, Math.floor((width - 54) / 62));
      if (axis.tickvals) {
        var step = Math.ceil(axis.tickvals.length / most), kept = function (_, i) { return i % step === 0; };
        axis.ticktext = (axis.ticktext || axis.tickvals).filter(kept); axis.tickvals = axis.tickvals.filter(kept);
      } else if (axis.nticks) axis.nticks = Math.min(axis.nticks, most);
      (layout.annotations || []).forEach(function (a) { if (a.text && a.text.length * 6.5 > width - 54) a.text = a.text.split(":")[0]; });
    }
    return layout;
  }
  /* the chart library, unpacked when the first chart comes into view; until then, and without it, its picture stays */
  var loaded = window.Plotly ? Promise.resolve() : null;
  function library() {
    if (loaded) return loaded;
    var packed = document.getElementById("chart-library");
    loaded = packed && window.DecompressionStream ? Promise.resolve().then(function () {
      var bytes = Uint8Array.from(atob(packed.textContent), function (c) { return c.charCodeAt(0); });
      return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    }).then(function (code) {
      var script = document.createElement("script");
      script.textContent = code; document.head.appendChild(script);
      if (!window.Plotly) throw new Error("the chart library was refused");
    }) : Promise.reject(new Error("no chart library"));
    return loaded;
  }
  function draw(box) {
    var id = box.id.slice(5), figure = figures[id];
    if (!figure) return Promise.resolve();
    drawn[id] = drawn[id] || library().then(function () {
      box.closest("figure").classList.add("drawn");
      return Plotly.newPlot(box, figure.data, narrow(paint(figure.layout), box.clientWidth), {
        responsive: true, displaylogo: false, displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false, scrollZoom: false,
        modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
        toImageButtonOptions: { filename: "nccl-insight-" + id, scale: 2 }
      });
    }).then(function () { box.setAttribute("data-drawn", "1"); }, function () { delete figures[id]; });
    return drawn[id];
  }
  function retheme() {
    document.querySelectorAll(".plot[data-drawn]").forEach(function (box) {
      var id = box.id.slice(5), visible = (box.data || []).map(function (t) { return t.visible; });
      Plotly.react(box, figures[id].data.map(function (t, i) { return visible[i] === undefined ? t : Object.assign({}, t, { visible: visible[i] }); }),
        narrow(paint(figures[id].layout), box.clientWidth));
    });
  }
  var boxes = Array.prototype.slice.call(document.querySelectorAll(".plot"));
  if ("IntersectionObserver" in window) {
    var watch = new IntersectionObserver(function (entries) {
      entries.forEach(function (e) { if (e.isIntersecting) { watch.unobserve(e.target); draw(e.target.nextElementSibling); } });
    }, { rootMargin: "200px" });
    boxes.forEach(function (b) { watch.observe(b.previousElementSibling); });
  }
  document.addEventListener("change", function (event) {
    var select = event.target;
    if (!select.hasAttribute || !select.hasAttribute("data-figure")) return;
    var id = select.getAttribute("data-figure"), box = document.getElementById("plot-" + id);
    if (!box) return;
    draw(box).then(function () {
      if (!figures[id]) return;
      var masks = figures[id].masks, chosen = Number(select.value);
      Plotly.restyle(box, { visible: figures[id].data.map(function (_, i) { return masks[i] === -1 || masks[i] === chosen; }) });
    });
    say("Figure shows " + select.options[select.selectedIndex].text);
  });

  /* paper: light, the evidence open, charts as pictures; their tables, the reasons and the rest stay folded */
  var theme;
  addEventListener("beforeprint", function () {
    document.querySelectorAll(".finding details").forEach(function (d) { if (!d.open) { d.open = true; d.setAttribute("data-print", ""); } });
    theme = root.getAttribute("data-theme"); root.setAttribute("data-theme", "light");
  });
  addEventListener("afterprint", function () {
    document.querySelectorAll("details[data-print]").forEach(function (d) { d.open = false; d.removeAttribute("data-print"); });
    if (theme) root.setAttribute("data-theme", theme); else root.removeAttribute("data-theme");
  });
})();
