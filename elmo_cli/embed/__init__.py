"""From text files to one embeddings file."""
