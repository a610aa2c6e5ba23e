(function () {
  "use strict";
  var root = document.documentElement;
  var live = document.getElementById("live");
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

  /* a link to something inside a closed <details> opens it */
  function reveal() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    if (target) target.scrollIntoView();
  }
  addEventListener("hashchange", reveal); reveal();

  /* figures, drawn when they come near the screen */
  var figures = data("data-figures") || {}, drawn = {};
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
    if (width < 560) layout.margin = Object.assign({}, layout.margin, { l: Math.min(44, (layout.margin || {}).l), r: 10 });
    return layout;
  }
  function slim(traces, id, width) {
    if (id !== "cluster" || width >= 560) return traces;
    return traces.map(function (t) {
      if (!t.marker) return t;
      return Object.assign({}, t, { mode: "markers", marker: Object.assign({}, t.marker, { size: t.marker.size * 0.4 }) });
    });
  }
  function draw(box) {
    var id = box.id.slice(5), figure = figures[id];
    if (!figure || drawn[id] || !window.Plotly) return;
    drawn[id] = true;
    var layout = narrow(paint(figure.layout), box.clientWidth);
    Plotly.newPlot(box, slim(figure.data, id, box.clientWidth), layout, {
      responsive: true, displaylogo: false, displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false, scrollZoom: false,
      modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
      toImageButtonOptions: { filename: "nccl-insight-" + id, scale: 2 }
    });
    box.setAttribute("data-drawn", "1");
  }
  function retheme() {
    Object.keys(drawn).forEach(function (id) {
      var box = document.getElementById("plot-" + id);
      var visible = (box.data || []).map(function (t) { return t.visible; });
      Plotly.react(box, slim(figures[id].data, id, box.clientWidth).map(function (t, i) { return visible[i] === undefined ? t : Object.assign({}, t, { visible: visible[i] }); }), narrow(paint(figures[id].layout), box.clientWidth));
    });
  }
  var boxes = Array.prototype.slice.call(document.querySelectorAll(".plot"));
  if (window.Plotly) {
    if ("IntersectionObserver" in window) {
      var watch = new IntersectionObserver(function (entries) {
        entries.forEach(function (e) { if (e.isIntersecting) { watch.unobserve(e.target); draw(e.target); } });
      }, { rootMargin: "600px" });
      boxes.forEach(function (b) { watch.observe(b); });
    } else boxes.forEach(draw);
  } else boxes.forEach(function (b) { b.style.display = "none"; });
  document.addEventListener("change", function (event) {
    var select = event.target;
    if (!select.hasAttribute || !select.hasAttribute("data-figure")) return;
    var id = select.getAttribute("data-figure"), box = document.getElementById("plot-" + id);
    draw(box);
    var masks = figures[id].masks, chosen = Number(select.value);
    Plotly.restyle(box, { visible: figures[id].data.map(function (_, i) { return masks[i] === -1 || masks[i] === chosen; }) });
    say("Figure shows " + select.options[select.selectedIndex].text);
  });

  /* paper: everything open and drawn */
  addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (d) { if (!d.open) { d.open = true; d.setAttribute("data-print", ""); } });
    boxes.forEach(draw);
  });
  addEventListener("afterprint", function () {
    document.querySelectorAll("details[data-print]").forEach(function (d) { d.open = false; d.removeAttribute("data-print"); });
  });
})();
