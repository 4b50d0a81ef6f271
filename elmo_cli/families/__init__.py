"""The families of model files, with one reader each."""
