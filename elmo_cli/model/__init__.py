"""The paper, section 3: the biLM in torch, written to be read."""
