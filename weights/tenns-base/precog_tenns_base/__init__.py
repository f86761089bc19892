"""Weights of TENNs-LLM base; the files beside this one are found through the entry point group ``precog.models``."""
