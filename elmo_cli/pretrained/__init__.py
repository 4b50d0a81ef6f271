"""From a name, a folder or a zip to a biLM."""
