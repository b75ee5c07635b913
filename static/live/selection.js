/* A selection that survives a change of the page: its ends are noted before, and set again behind it. */

export function selectedPlaces() {
  const { isCollapsed, anchorNode, anchorOffset, focusNode, focusOffset } = document.getSelection();
  return isCollapsed ? [] : [anchorNode, anchorOffset, focusNode, focusOffset];
}

/* `find`: where the place of a node that is gone is now, as node and offset. */
export function selectPlaces([anchor, from, focus, to], find = (...place) => place) {
  const selection = document.getSelection();
  // What is still as it was is left alone: a selection under somebody's pointer ends when it is set.
  if (!anchor || (anchor === selection.anchorNode && focus === selection.focusNode)) return;
  selection.setBaseAndExtent(...find(anchor, from), ...find(focus, to));
}

export function isSelectionVisible() {
  const { top, bottom } = document.getSelection().getRangeAt(0).getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}
