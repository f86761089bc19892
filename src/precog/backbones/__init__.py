"""Models that turn tokens into states, one family per folder, all behind one protocol.

`registry` opens a model, `protocol` says what it can do. Nothing is imported here: a training machine needs the
networks alone, without tokenizer or files.
"""
