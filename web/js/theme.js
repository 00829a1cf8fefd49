// Light, dark, or as the system says. Loaded before the page is drawn, so that it never flashes in the other.
const choices = ["system", "light", "dark"];
const kKey = "perigee.theme";

function stored() {
  try {
    return localStorage.getItem(kKey);
  } catch {
    return null; // storage is forbidden here
  }
}

export function theme() {
  const choice = document.documentElement.dataset.theme ?? "system";
  return choices.includes(choice) ? choice : "system";
}

function apply(choice) {
  if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
  else delete document.documentElement.dataset.theme;
}

export function nextTheme() {
  const choice = choices[(choices.indexOf(theme()) + 1) % choices.length];
  apply(choice);
  try {
    localStorage.setItem(kKey, choice);
  } catch {
    // It holds for this tab.
  }
  return choice;
}

apply(stored());
