"""PRECOG in other people's programs: one file for each, over the corpus and the memory of this machine."""
