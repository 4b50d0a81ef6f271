"""The work of `elmo embed` on Ray Data; the only room that imports ray."""
