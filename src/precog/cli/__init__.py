"""The command line: one small file per command, found through the table in `main`; the only room of typer and rich."""
