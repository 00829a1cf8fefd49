// Numbers as people read them.

export function count(value) {
  return Math.round(value).toLocaleString("en");
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    ++unit;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toPrecision(2 + (value >= 10))} ${units[unit]}`;
}

export function rate(value) {
  return value >= 100 ? count(value) : value.toFixed(1);
}

export function percent(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–";
}

export function seconds(value) {
  return value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
}
