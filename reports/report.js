// The copy buttons, and everything open on paper. The page reads well without this script.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    const status = button.parentElement.querySelector("[role=status]");
    status.textContent = button.dataset.done;
    setTimeout(() => { status.textContent = ""; }, 2000);
  });
}
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
const openTarget = () => {
  const part = document.getElementById(location.hash.slice(1))?.querySelector("details");
  if (part) part.open = true;
};
addEventListener("hashchange", openTarget);
openTarget();
