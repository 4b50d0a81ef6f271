"""Language modeling: the training of a biLM."""
