// Builds the chart library of the report: plotly.js with the traces that the figures draw (scatter, bar, box,
// heatmap) and nothing of its maps, calendars and other traces.
//
//   npm install --ignore-scripts plotly.js@4.1.1 esbuild@0.25.12 esbuild-plugin-environment@0.5.0
//   node chart_library.cjs nccl_insight/report/html/assets/plotly-charts.min.js
//
// The test of the library names the version and the hash of what was built and looked at.
"use strict";

const esbuild = require("esbuild");
const { environmentPlugin } = require("esbuild-plugin-environment");
const { version } = require("plotly.js/package.json");

const entry = `
const Plotly = require("plotly.js/lib/core");
Plotly.register([require("plotly.js/lib/bar"), require("plotly.js/lib/box"), require("plotly.js/lib/heatmap")]);
module.exports = Plotly;
`;

esbuild.build({
  stdin: { contents: entry, resolveDir: process.cwd() },
  outfile: process.argv[2],
  banner: {
    js: `/**
* plotly.js (scatter, bar, box, heatmap - minified) v${version}
* Copyright 2012-2026, Plotly, Inc.
* All rights reserved.
* Licensed under the MIT license
*/`,
  },
  format: "iife",
  globalName: "Plotly",
  bundle: true,
  minify: true,
  target: "es2016",
  charset: "ascii",
  legalComments: "none",
  define: { global: "window", "define.amd": "false" },
  loader: { ".css": "empty", ".glsl": "empty" }, // only maps need them
  plugins: [environmentPlugin({ NODE_DEBUG: false })],
  logLevel: "info",
});
