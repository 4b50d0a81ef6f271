"""Fine-tuning: a trained biLM continues training on the text of a domain."""
