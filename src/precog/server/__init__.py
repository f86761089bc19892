"""HTTP API over corpora and memories; the only room that imports a web framework."""
