"use strict";
// What the page's style cannot do by itself. Boxes and switches of a section move together, a panel
// is fitted to the lines that are left in it, and a chart tells its values under the pointer.
// Hiding, showing and changing the scale need no script.
(() => {
  const raised = (power) => [...String(power)]
    .map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("");
  const words = (v) => {
    if (v === null) return "–";
    if (v === "inf") return "∞";
    if (v === "-inf") return "−∞";
    const size = Math.abs(v);
    let text = String(Number(v.toPrecision(4)));
    if (size !== 0 && (size < 1e-3 || size >= 1e5)) {
      const [digits, power] = v.toExponential().split("e");
      const first = String(Number(Number(digits).toPrecision(4)));
      text = `${first === "1" ? "" : `${first}×`}10${raised(Number(power))}`;
    }
    return text.replace("-", "−");
  };
  const count = (v) => (typeof v === "number" && v >= 1000 && Number.isInteger(v)
    ? v.toLocaleString("en").replaceAll(",", "\u202f") : words(v));
  const make = (name, attributes, parent) => {
    const element = document.createElementNS(parent.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return parent.appendChild(element);
  };

  // Round numbers between two ends; on a logarithmic scale, powers of ten and some between them.
  const round = (low, high) => {
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= 0.999 * rough);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12) + 1e-300; k += 1)
      found.push(k * step);
    return found;
  };
  const decades = (low, high) => {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first) / 7));
    for (const between of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]]) {
      const found = [];
      for (let p = Math.ceil(first / every) * every; p <= last; p += every)
        for (const m of between) if (m * 10 ** p >= low && m * 10 ** p <= high) found.push(m * 10 ** p);
      if (found.length >= 3) return found;
    }
    return round(low, high);
  };

  // The scale [start, slope] and ends of a panel with these lines; as the page was drawn.
  const fitted = (data, log, series) => {
    const lines = series
      .map((each) => each.value.filter((v) => typeof v === "number" && (!log || v > 0)))
      .filter((values) => values.length);
    if (!lines.length) return null;
    let low = Math.min(...lines.map((values) => Math.min(...values)));
    let high = Math.max(...lines.map((values) => Math.max(...values)));
    const heights = lines.map((values) => (data.marks ? Math.min : Math.max)(...values));
    const usual = heights.sort((a, b) => a - b)[Math.floor((heights.length - 1) / 2)];
    if (usual > 0) high = Math.min(high, Math.max(data.cut[log ? "log" : "lin"] * usual, low));
    let gap;
    if (log) {
      [low, high] = [Math.log10(low), Math.log10(high)];
      gap = 0.06 * Math.max(high - low, 0.2);
    } else {
      if (low >= 0 && low < 0.6 * high) low = 0;
      gap = 0.05 * (Math.max(high - low, Math.abs(high) * 1e-3) || 1);
    }
    const from = low === 0 && !log ? low : low - gap, to = high + gap;
    const slope = (data.top - data.bottom) / (to - from);
    const ends = log ? [10 ** from, 10 ** to] : [from, to];
    return { start: data.bottom - slope * from, slope, ends };
  };

  for (const section of document.querySelectorAll("section")) {
    section.addEventListener("change", (event) => {
      const box = event.target;
      if (box.dataset.learner !== undefined) {
        for (const other of section.querySelectorAll("input[data-learner]"))
          if (other.dataset.learner === box.dataset.learner) other.checked = box.checked;
      } else if (box.type === "radio") {
        for (const other of section.querySelectorAll(`input[value="${box.value}"]`))
          other.checked = true;
      }
      for (const plot of section.querySelectorAll(".plot")) plot.dispatchEvent(new Event("fit"));
    });
  }

  for (const plot of document.querySelectorAll(".plot")) {
    const data = JSON.parse(plot.querySelector("script").textContent);
    const svg = plot.querySelector("svg"), pointer = svg.querySelector(".pointer");
    const card = plot.closest(".card"), width = svg.viewBox.baseVal.width;
    const tip = make("div", { class: "tip", role: "status", hidden: "" }, plot);
    const scales = { ...data.scales };
    let place = -1;

    const hide = () => { place = -1; tip.hidden = true; pointer.replaceChildren(); };
    const visible = (each) => card.querySelector(`.t${each.number}`)?.checked !== false;

    const fit = (name) => {
      const group = svg.querySelector(`g.${name}`), lines = group.querySelector(".lines");
      const ticks = group.querySelector(".ticks"), series = data.series.filter(visible);
      const scale = series.length < data.series.length ? fitted(data, name === "log", series) : null;
      const [start, slope] = data.scales[name];
      group.querySelector(".fitted")?.remove();
      ticks.style.display = scale ? "none" : "";
      scales[name] = scale ? [scale.start, scale.slope] : data.scales[name];
      const k = scale ? scale.slope / slope : 1, shift = scale ? scale.start - k * start : 0;
      lines.setAttribute("transform", `matrix(1 0 0 ${k} 0 ${shift})`);
      for (const mark of lines.querySelectorAll("path[transform]")) {
        const at = mark.getAttribute("transform").match(/^translate\([^)]*\)/)[0];
        mark.setAttribute("transform", `${at} scale(1 ${1 / k})`);
      }
      if (!scale) return;
      const axis = make("g", { class: "fitted" }, group), right = width - 15;
      for (const value of (name === "log" ? decades : round)(...scale.ends)) {
        const y = scale.start + scale.slope * (name === "log" ? Math.log10(value) : value);
        make("path", { d: `M${data.left} ${y}H${right}`, class: "grid" }, axis);
        const at = { x: data.left - 5, y: y + 4, "text-anchor": "end" };
        make("text", at, axis).textContent = words(value);
      }
      group.prepend(axis);
    };

    const show = (index) => {
      if (index === place) return;
      place = index;
      pointer.replaceChildren();
      tip.replaceChildren();
      const log = data.scales.log && card.querySelector(".scale-log")?.checked;
      const [start, slope] = scales[log ? "log" : "lin"], x = data.px[index];
      make("path", { d: `M${x} ${data.top}V${data.bottom}`, stroke: "#57606a",
        "stroke-dasharray": "3 3" }, pointer);
      make("b", {}, tip).textContent = `${data.label} ${count(data.x[index])}`;
      for (const each of data.series) {
        const value = each.value[index];
        if (!visible(each) || value === null) continue;
        const row = make("div", {}, tip);
        make("i", { style: `background:${each.color}` }, row);
        const interval = value === "inf" && each.low[index] === "inf" ? ""
          : ` [${words(each.low[index])}, ${words(each.high[index])}]`;
        const note = each.notes[index] && !each.notes[index].startsWith("0 of")
          ? `; ${each.notes[index]}` : "";
        row.append(`${each.name} ${words(value)}${interval}${note}`);
        if (typeof value === "number" && (!log || value > 0)) {
          const y = start + slope * (log ? Math.log10(value) : value);
          if (y >= data.top && y <= data.bottom)
            make("circle", { cx: x, cy: y, r: 3.6, fill: each.color, stroke: "#fff" }, pointer);
        }
      }
      tip.hidden = false;
      const room = plot.clientWidth, at = (x / width) * room;
      const left = at + 12 + tip.offsetWidth <= room ? at + 12 : at - 12 - tip.offsetWidth;
      tip.style.left = `${Math.max(0, Math.min(left, room - tip.offsetWidth))}px`;
      const above = room < 480 ? svg.clientHeight : (data.top / width) * room;
      tip.style.top = `${above}px`;  // where the chart is small, below it
    };
    const follow = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * width;
      let nearest = 0;
      data.px.forEach((p, n) => {
        if (Math.abs(p - x) < Math.abs(data.px[nearest] - x)) nearest = n;
      });
      show(nearest);
    };
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    plot.addEventListener("pointerleave", (event) => event.pointerType === "touch" || hide());
    addEventListener("pointerdown", (event) => plot.contains(event.target) || hide());
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", (event) => {
      const last = data.px.length - 1;
      const to = { ArrowLeft: Math.max(0, place - 1), ArrowRight: Math.min(last, place + 1),
        Home: 0, End: last }[event.key];
      if (event.key === "Escape") hide();
      if (to === undefined) return;
      event.preventDefault();
      show(to);
    });
    plot.addEventListener("fit", () => {
      hide();
      for (const name of Object.keys(data.scales)) fit(name);
    });
  }

  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details:not([open])")) {
      each.open = true;
      each.dataset.closed = "";
    }
  });
  addEventListener("afterprint", () => {
    for (const each of document.querySelectorAll("details[data-closed]")) each.open = false;
  });
})();
