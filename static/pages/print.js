/* A conversation as a document: the print dialog opens when everything is there. */
addEventListener("load", () => print());
