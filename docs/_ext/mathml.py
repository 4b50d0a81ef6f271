"""Write formulas as MathML, which browsers draw without a script; docutils has the converter."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def _write_inline(translator: Any, formula: nodes.math) -> None:
    translator.body.append(tex2mathml(formula.astext()))
    raise nodes.SkipNode


def _write_block(translator: Any, formula: nodes.math_block) -> None:
    markup = tex2mathml(formula.astext(), as_block=True)
    translator.body.append(f'<div class="math">{markup}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (_write_inline, None), (_write_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
