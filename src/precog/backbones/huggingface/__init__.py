"""Models of the transformers library, read from a folder on disk: nothing is downloaded, no code of a folder is run."""
