"""PRECOG: documents are read once into stored states, and questions are answered from them."""
