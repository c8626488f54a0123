"use strict";
// Boxes and switches of a section move together, and a chart tells its values under the pointer.
// Hiding, showing and changing the scale are left to the style, which needs no script.
(() => {
  const shown = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, useGrouping: false });
  const words = (v) => {
    if (v === null) return "–";
    if (v === "inf") return "∞";
    if (v === "-inf") return "−∞";
    const size = Math.abs(v);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return v.toExponential(3).replace("-", "−");
    return shown.format(v).replace("-", "−");
  };
  const count = (v) => (typeof v === "number" && v >= 1000 && Number.isInteger(v)
    ? v.toLocaleString("en").replaceAll(",", "\u202f") : words(v));

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
    });
  }

  const make = (name, attributes, parent) => {
    const element = document.createElementNS(parent.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return parent.appendChild(element);
  };

  for (const plot of document.querySelectorAll(".plot")) {
    const data = JSON.parse(plot.querySelector("script").textContent);
    const svg = plot.querySelector("svg"), pointer = svg.querySelector(".pointer");
    const card = plot.closest(".card"), width = svg.viewBox.baseVal.width;
    const tip = make("div", { class: "tip", role: "status", hidden: "" }, plot);
    let place = -1;

    const hide = () => { place = -1; tip.hidden = true; pointer.replaceChildren(); };
    const visible = (each) => card.querySelector(`.t${each.number}`)?.checked !== false;
    const show = (index) => {
      if (index === place) return;
      place = index;
      pointer.replaceChildren();
      tip.replaceChildren();
      const log = data.scales.log && card.querySelector(".scale-log")?.checked;
      const [start, slope] = data.scales[log ? "log" : "lin"], x = data.px[index];
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
      tip.style.top = `${(data.top / width) * room}px`;
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
    plot.addEventListener("pointerleave", hide);
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
    card.addEventListener("change", hide);
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
