"""PRECOG: store what a state-space model has read, and never read the text again."""

__version__ = "0.1.0"
