"""Text to tokens, sentences and batches of character ids; numpy, no torch."""
