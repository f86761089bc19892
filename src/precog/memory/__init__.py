"""Conversations that last: utterances ▸ chunks with headers ▸ deposits in a user's memory."""
