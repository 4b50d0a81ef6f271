"""Language modelling: the training of a biLM."""
