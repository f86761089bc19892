"""Files ▸ documents ▸ chunks ▸ token ids."""
