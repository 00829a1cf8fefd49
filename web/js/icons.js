// Small line drawings for buttons, as path data on a grid of 24. Every button that has one also has a name.
import { svg } from "./dom.js";

const paths = {
  menu: "M4 7h16M4 12h16M4 17h16",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 4.5v5M8 14.5v5",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M19 5l-1.4 1.4M6.4 17.6L5 19",
  dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z",
  system: "M4 5h16v11H4zM9 20h6M12 16v4",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  again: "M20 12a8 8 0 1 1-2.5-5.8M20 3v4.5h-4.5",
  branch: "M7 4v16M7 9c0 5 10 2 10 7v4M4 7l3-3 3 3M14 17l3 3 3-3",
  remove: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 24 24", width: 18, height: 18, "aria-hidden": "true", class: "drawn" },
    svg("path", { d: paths[name] }));
}
