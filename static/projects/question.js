/* The question before a change of who reads a project, with which its page comes: a modal dialog. */
const dialog = document.getElementById("access-question");

if (dialog) {
  dialog.close();
  dialog.showModal();
}
