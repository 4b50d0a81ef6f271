"""elmo in other programs: one module per program, which is imported only when it is used."""
