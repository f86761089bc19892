"""States that are studied: read, then trained alone, weights frozen, on questions made from the text they have read."""
