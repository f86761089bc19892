"""Training data: passages, the questions made from them, prepared folders and batches."""
