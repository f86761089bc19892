// The corpus that somebody works with, the same on all pages of this tab.

const STORED = "precog-corpus";

export const chosen = {
  get: () => sessionStorage.getItem(STORED),
  set: (name) => sessionStorage.setItem(STORED, name),
};
