// How the search ranks pages: those that explain come before those that record what changed.
const PAGE_SCORES = [
  ["reference/commands/", 3],
  ["guides/", 2],
  ["contributing/", -3],
  ["changelog", -3],
];

var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    const found = PAGE_SCORES.find(([start]) => page.startsWith(start));
    return score + (found ? found[1] : 0);
  },
  // The values of Sphinx.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
