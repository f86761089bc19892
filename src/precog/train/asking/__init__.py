"""Questions that a model writes itself about prepared chunks: learning to ask, asking, judging, blending."""
