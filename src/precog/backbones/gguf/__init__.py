"""llama.cpp as a runtime: recurrent models in GGUF files."""
