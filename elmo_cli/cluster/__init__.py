"""`elmo embed --ray`: the work of `embed` on a Ray cluster; the only package that imports ray."""
