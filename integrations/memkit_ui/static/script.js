// No page needs this: it saves a key here and a click there.
"use strict";
// The token stands behind # in the address: it is taken out of it, and sent in the body of a form.
const entry = document.querySelector("form[data-enter]");
if (entry && location.hash.length > 1) {
  const token = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  entry.elements.token.value = token;
  entry.submit();
}
// The slider asks for its moment once it is let go.
for (const slider of document.querySelectorAll("input[type=range][data-submits]")) {
  const told = document.getElementById(slider.dataset.tells);
  slider.addEventListener("input", () => { if (told) told.textContent = `${slider.value} of ${slider.max}`; });
  slider.addEventListener("change", () => slider.form.submit());
}
// "/" goes to the search of the page.
document.addEventListener("keydown", (event) => {
  const field = document.querySelector("input[type=search]");
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "/" && field && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    field.focus();
    field.select();
  }
});
