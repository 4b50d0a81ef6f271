"""Fine-tuning a biLM on the text of a domain."""
