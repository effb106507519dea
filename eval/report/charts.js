// The charts. They read their colors from the style sheet, so they follow the reader's light or dark scheme.

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/** Recall along the bottom, with thin lines at the targets. */
function recallAxis(low, high, targets) {
  const ticks = recallTicks(low, high);
  return {
    scale: "x", stroke: css("--quiet"), font: FONT, label: "recall (each step to the right leaves fewer misses)", labelFont: FONT, labelSize: 22, size: 34, gap: 6,
    splits: () => ticks.map((tick) => tick.x),
    values: (u) => {
      // Keep labels readable: those that would touch are left out, targets last.
      let last = -Infinity;
      const shown = new Set();
      for (const wanted of [true, false]) {
        for (const tick of ticks) {
          if (targets.includes(tick.recall) !== wanted) continue;
          const at = u.valToPos(tick.x, "x");
          if ([...shown].every((other) => Math.abs(u.valToPos(other.x, "x") - at) > 44)) shown.add(tick);
        }
      }
      return ticks.map((tick) => (shown.has(tick) ? String(tick.recall) : ""));
    },
    grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 5 },
  };
}

function drawTargets(u, targets, resolution) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = css("--target");
  ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.lineWidth = devicePixelRatio;
  for (const target of targets) {
    const x = Math.round(u.valToPos(missScale(target, resolution), "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** The bottom axis for drawCurves: recall. */
function recallAcross(targets, resolution) {
  return {
    of: (point) => missScale(point.recall, resolution), axis: (low, high) => recallAxis(low, high, targets), draw: (u) => drawTargets(u, targets, resolution),
  };
}

/** A bottom axis for any positive figure `value(point)`, on a logarithmic scale with labels at `ticks(low, high)`. */
function logAcross({ value, label, ticks = logTicks, format = formatFigure, draw = () => {} }) {
  const axis = (low, high) => ({
    scale: "x", stroke: css("--quiet"), font: FONT, label, labelFont: FONT, labelSize: 22, size: 34, gap: 6, splits: () => ticks(10 ** low, 10 ** high).map(Math.log10),
    values: (u, splits) => splits.map((x, i) => (i > 0 && u.valToPos(x, "x") - u.valToPos(splits[i - 1], "x") < 34 ? "" : format(10 ** x))),
    grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 5 },
  });
  return { of: (point) => Math.log10(value(point)), axis, draw };
}

/** Names at the ends of curves, in their colors, moved apart where they would overlap. `ends`: {name, color, x, y} in scale values. */
function drawNames(u, ends) {
  const { ctx, bbox } = u, line = 15 * devicePixelRatio;
  const placed = ends.map((end) => ({ ...end, px: u.valToPos(end.x, "x", true), py: u.valToPos(end.y, "y", true) })).sort((a, b) => a.py - b.py);
  for (let i = 1; i < placed.length; ++i) placed[i].py = Math.max(placed[i].py, placed[i - 1].py + line);
  const excess = placed.length ? Math.max(0, placed[placed.length - 1].py - (bbox.top + bbox.height)) : 0;
  ctx.save();
  ctx.font = `600 ${13 * devicePixelRatio}px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const end of placed) {
    ctx.fillStyle = end.color;
    ctx.fillText(end.name, end.px + 9 * devicePixelRatio, end.py - excess);
  }
  ctx.restore();
}

function nameWidth(names) {
  const ctx = document.createElement("canvas").getContext("2d");
  ctx.font = "600 13px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
  return Math.max(0, ...names.map((name) => ctx.measureText(name).width)) + 14;
}

/** Places a box next to a position of the plot, inside the plot. */
function placeTip(tip, u, left, top) {
  const width = u.over.clientWidth, height = u.over.clientHeight;
  tip.hidden = false;
  tip.style.left = (left + 16 + tip.offsetWidth > width + 90 ? Math.max(0, left - 16 - tip.offsetWidth) : left + 16) + "px";
  tip.style.top = Math.max(0, Math.min(top + 12, height - tip.offsetHeight)) + "px";
}

/**
 * Draws curves and dots. `curves`: [{name, label, color, dash, front: [point], others: [point]}]. A line joins `front`, except in a
 * `scattered` curve. `size`: of its dots. `names`: [{name, point}] next to points (its label at the end of the front). `across`: the bottom
 * axis. `value`: the vertical figure, on a logarithmic scale. `hover(point, curve)`: lines of text for the box. `spoken` receives them when
 * arrow keys move along a front and between curves.
 */
function drawCurves(host, { curves, value, unit, across, hover, spoken }) {
  host.replaceChildren();
  const all = curves.flatMap((curve) => [...curve.front, ...curve.others]);
  if (all.length === 0) {
    element("p", "quiet", host).textContent = "Nothing is selected.";
    return null;
  }
  const xOf = across.of;
  const xs = all.map(xOf), ys = all.map(value);
  const xLow = Math.min(...xs), xHigh = Math.max(...xs), pad = Math.max(0.03 * (xHigh - xLow), 0.02);
  const yLow = Math.min(...ys) / 1.25, yHigh = Math.max(...ys) * 1.25;
  const tables = [], series = [{}];
  for (const curve of curves) {
    for (const [points, drawn] of [[curve.front, !curve.scattered], [curve.others, false]]) {
      const sorted = points.map((point) => [xOf(point), value(point)]).sort((a, b) => a[0] - b[0]);
      sorted.forEach((pair, i) => { if (i > 0 && pair[0] <= sorted[i - 1][0]) pair[0] = sorted[i - 1][0] + 1e-9; });
      tables.push([sorted.map((pair) => pair[0]), sorted.map((pair) => pair[1])]);
      series.push({
        label: curve.name, scale: "y", spanGaps: true, stroke: curve.color, width: drawn ? 2 : 0, dash: curve.dash ? [6, 5] : undefined,
        paths: drawn ? undefined : () => null,
        points: { show: true, size: curve.size ?? (drawn ? 7 : 6), width: drawn ? 2 : 0, stroke: curve.color, fill: drawn ? css("--paper") : curve.color + (curve.scattered ? "" : "80") },
      });
    }
  }
  const ends = curves.flatMap((curve) => {
    const names = curve.names ?? (curve.front.length > 0 ? [{ name: curve.label ?? curve.name, point: curve.front[curve.front.length - 1] }] : []);
    return names.map(({ name, point }) => ({ name, color: curve.color, x: xOf(point), y: value(point) }));
  });
  const plot = new uPlot({
    width: host.clientWidth, height: Math.round(Math.max(320, Math.min(520, host.clientWidth * 0.55))),
    padding: [10, nameWidth(ends.map((end) => end.name)), 0, 0], legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { time: false, range: [xLow - pad, xHigh + pad] }, y: { distr: 3, range: [yLow, yHigh] } },
    axes: [across.axis(xLow - pad, xHigh + pad), {
      scale: "y", stroke: css("--quiet"), font: FONT, label: unit, labelFont: FONT, labelSize: 22, size: 58, splits: () => logTicks(yLow, yHigh),
      values: (u, splits) => splits.map((y) => (y === null ? "" : formatFigure(y))), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 5 },
    }],
    series,
    hooks: { drawAxes: [across.draw], draw: [(u) => drawNames(u, ends)], setCursor: [(u) => onCursor(u)] },
  }, uPlot.join(tables), host);

  const ring = element("div", "ring", plot.over), tip = element("div", "tip", plot.over);
  ring.hidden = tip.hidden = true;
  function select(point, curve) {
    ring.hidden = tip.hidden = !point;
    if (!point) return;
    const left = plot.valToPos(xOf(point), "x"), top = plot.valToPos(value(point), "y");
    ring.style.left = left + "px";
    ring.style.top = top + "px";
    ring.style.borderColor = curve.color;
    tip.replaceChildren();
    hover(point, curve).forEach((line, i) => { element(i === 0 ? "b" : "div", line.quiet ? "quiet" : "", tip).textContent = line.text; });
    placeTip(tip, plot, left, top);
  }
  function onCursor(u) {
    const { left, top } = u.cursor;
    let best = null;
    if (left >= 0) {
      for (const curve of curves) {
        for (const point of [...curve.front, ...curve.others]) {
          const distance = Math.hypot(u.valToPos(xOf(point), "x") - left, u.valToPos(value(point), "y") - top);
          if (distance < 40 && (!best || distance <= best.distance)) best = { distance, point, curve };
        }
      }
    }
    select(best && best.point, best && best.curve);
  }
  const walked = curves.filter((curve) => curve.front.length > 0);
  let reached = null;
  host.onkeydown = (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape") select(null, null);
    if (!step || walked.length === 0) return;
    event.preventDefault();
    const c = reached ? (reached.c + step[1] + walked.length) % walked.length : 0;
    const i = reached ? Math.min(walked[c].front.length - 1, Math.max(0, reached.i + step[0])) : 0;
    reached = { c, i };
    select(walked[c].front[i], walked[c]);
    spoken.textContent = hover(walked[c].front[i], walked[c]).map((line) => line.text).join(", ");
  };
  return plot;
}

/** Speed of each curve relative to the reference, along the recalls that both reach. */
function drawRatios(host, { curves, reference, targets, resolution }) {
  host.replaceChildren();
  const fronts = curves.filter((curve) => curve.front.length > 1);
  const base = fronts.find((curve) => curve.name === reference);
  if (!base) return null;
  const ends = (curve) => [missScale(curve.front[0].recall, resolution), missScale(curve.front[curve.front.length - 1].recall, resolution)];
  const [low, high] = ends(base);
  const xs = Array.from({ length: 161 }, (_, i) => low + ((high - low) * i) / 160);
  const ratioAt = (curve, x) => {
    const own = qpsAt(curve.front, x, resolution), other = qpsAt(base.front, x, resolution);
    return own === null || other === null ? null : own / other;
  };
  const data = [xs, ...fronts.map((curve) => xs.map((x) => ratioAt(curve, x)))];
  const highest = Math.max(1, ...data.slice(1).flat().filter((y) => y !== null));
  const names = fronts.map((curve, i) => {
    const at = data[i + 1].findLastIndex((y) => y !== null);
    return at < 0 ? null : { name: curve.label ?? curve.name, color: curve.color, x: xs[at], y: data[i + 1][at] };
  }).filter(Boolean);
  const plot = new uPlot({
    width: host.clientWidth, height: 280, padding: [10, nameWidth(names.map((end) => end.name)), 0, 0], legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 } },
    scales: { x: { time: false, range: [low, high] }, y: { range: [0, highest * 1.1] } },
    axes: [recallAxis(low, high, targets), {
      scale: "y", stroke: css("--quiet"), font: FONT, size: 58, values: (u, splits) => splits.map((y) => y + "×"),
      grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 5 },
    }],
    series: [{}, ...fronts.map((curve) => ({
      label: curve.name, stroke: curve.color, width: 2, dash: curve.dash ? [6, 5] : undefined, points: { show: false },
    }))],
    hooks: { drawAxes: [(u) => drawTargets(u, targets, resolution)], draw: [(u) => drawNames(u, names)], setCursor: [(u) => onCursor(u)] },
  }, data, host);
  const tip = element("div", "tip", plot.over);
  tip.hidden = true;
  function onCursor(u) {
    const i = u.cursor.left < 0 ? null : u.cursor.idx;
    tip.hidden = i === null || i === undefined;
    if (tip.hidden) return;
    tip.replaceChildren();
    element("b", "", tip).textContent = `recall ${formatRecall(1 - 10 ** -xs[i])}`;
    fronts.map((curve, c) => ({ curve, y: data[c + 1][i] })).filter((row) => row.y !== null).sort((a, b) => b.y - a.y).forEach((row) => {
      const line = element("div", "", tip);
      element("span", "dot", line).style.setProperty("--swatch", row.curve.color);
      line.append(`${row.curve.name} ${formatRatio(row.y)}`);
    });
    placeTip(tip, u, u.cursor.left, u.cursor.top);
  }
  return plot;
}

/** A bar below the figures of a cell, whose length says how much of `most` they are. */
function drawBar(cell, value, most, name) {
  paint(element("span", "bar", cell), name).style.width = `${Math.max(2, (100 * value) / most)}%`;
}

/** QPS at a recall, with a bar in the color of `name`, scaled to `most`, the longest of all rows. */
function speedCell(row, at, most, name) {
  const speed = element("td", "", row);
  if (at.qps === null) {
    text(speed, "span", "not reached", "quiet");
  } else {
    text(speed, "b", formatFigure(at.qps)).dataset.qps = at.qps;
    if (at.at_recall > at.recall + 1e-12) text(speed, "span", "*");
    text(speed, "span", spread(formatFigure(at.qps_mad)), "quiet");
    drawBar(speed, at.qps, most, name);
  }
}
