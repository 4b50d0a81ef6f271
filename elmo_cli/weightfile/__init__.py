"""biLM weights in HDF5, both ways, in the form of bilm-tf and AllenNLP."""
