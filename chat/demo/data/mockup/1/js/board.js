const tasks = [["Anna", "Invoices"], ["Boris", "Release notes"]];
const list = document.getElementById("tasks");
list.replaceChildren();
for (const [person, task] of tasks) {
  const item = document.createElement("li");
  item.textContent = `${person}: ${task}`;
  list.append(item);
}
