"use strict";
// Everything here is a convenience: the page is complete without it.

// The legend's entries become buttons that hide a lock in every chart and legend of the page.
for (const item of document.querySelectorAll(".legend li")) {
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-pressed", "true");
  button.append(...item.childNodes);
  item.append(button);
  button.addEventListener("click", () => {
    const series = item.dataset.series;
    const shown = button.getAttribute("aria-pressed") === "true";
    for (const other of document.querySelectorAll(`.legend li[data-series="${series}"] button`)) {
      other.setAttribute("aria-pressed", String(!shown));
    }
    for (const mark of document.querySelectorAll(`.chart .s${series}`)) mark.classList.toggle("off", shown);
  });
}

// One tab stop a chart; the arrow keys go from point to point.
for (const chart of document.querySelectorAll(".chart")) {
  const points = [...chart.querySelectorAll(".pt")];
  points.forEach((point, index) => point.setAttribute("tabindex", index === 0 ? "0" : "-1"));
  chart.addEventListener("keydown", (event) => {
    const visible = points.filter((point) => !point.classList.contains("off"));
    const at = visible.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: visible.length - 1 }[event.key];
    if (at < 0 || to === undefined || !visible[to]) return;
    event.preventDefault();
    visible[at].setAttribute("tabindex", "-1");
    visible[to].setAttribute("tabindex", "0");
    visible[to].focus();
  });
}

// A tooltip in place of the browser's, which shows late and never on focus. Screen readers have the label.
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);
const show = (point) => {
  const target = (point.querySelector(".mark, .cross") ?? point).getBoundingClientRect();
  tip.textContent = point.getAttribute("aria-label");
  tip.hidden = false;
  const size = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, target.left + target.width / 2 - size.width / 2), document.documentElement.clientWidth - size.width - 8);
  const above = target.top - size.height - 12;
  tip.style.left = `${left + window.scrollX}px`;
  tip.style.top = `${(above > 4 ? above : target.bottom + 12) + window.scrollY}px`;
};
const hide = () => { tip.hidden = true; };
for (const point of document.querySelectorAll(".pt")) {
  point.querySelector("title")?.remove();
  point.addEventListener("pointerenter", () => show(point));
  point.addEventListener("pointerleave", hide);
  point.addEventListener("focus", () => show(point));
  point.addEventListener("blur", hide);
}
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
window.addEventListener("resize", hide);
