"""What vectors know, asked of embeddings files."""
