"""The function of `model/`, computed faster."""
