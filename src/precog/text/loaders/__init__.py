"""One file per family of formats: an open source ▸ drafts of blocks."""
