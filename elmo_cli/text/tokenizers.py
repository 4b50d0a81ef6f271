"""From a line or a paragraph of text to tokens.

Two ways: `whitespace` changes nothing, as the originals do; `EnglishTokenizer` takes running text apart
into sentences and tokens the way the bundled model's training text was.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from importlib.resources import files
from itertools import pairwise
from typing import Any

_ORTHO_LOWER = (1 << 4) | (1 << 5) | (1 << 6)
_ORTHO_UPPER_INSIDE = 1 << 2

# Titles and the like: what follows has a capital and still belongs to the same sentence.
_NEVER_LAST = frozenset(
    """mr mrs ms messrs mme mlle dr drs prof rev hon fr st ste gen col maj capt cpt lt sgt cpl pvt cmdr
    adm brig gov sen rep reps sens amb supt mt ft e.g i.e eg viz cf vs v ca approx fig figs eq eqs tab
    vol vols no nos art arts sec secs ch chap para paras p pp ed eds trans var subsp spp al""".split()
)
# These are words too: they only go on before what they usually stand before.
_BEFORE_NUMBER = frozenset(
    """no nos art arts fig figs sec secs ch chap para paras p pp vol vols eq eqs tab v al ed eds trans
    var mt ft st hon gen fr rep sen""".split()
)
_WITH_STOP = frozenset(
    """mr mrs ms messrs dr prof rev hon st gen col maj capt lt sgt gov sen rep jr sr esq inc ltd co corp
    bros llc plc dept univ assn est etc e.g i.e viz cf vs approx al jan feb mar apr jun jul aug sept sep
    oct nov dec mt ft ave blvd rd fig figs eq no nos vol pp ed eds mme mlle""".split()
)
_STOP_STAYS_AT_THE_END = frozenset("etc jr sr inc ltd corp esq bros al".split())
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]|Ph\.D|M\.Sc|B\.Sc|LL\.[BDM]", re.IGNORECASE)
_WORD_BEFORE_STOP = re.compile(r"([^\s\"'“”‘’()\[\]{}<>]+)\.$")
_CLOSED_BY_QUOTE = re.compile(r"[.?!…][\"'”’)\]]+$")
_ELLIPSIS_END = re.compile(r"(?:\.\.+|…)[\"'”’)\]]*$")
_STARTS_LOWER = re.compile(r"[—–-]*\s*[a-z]+\b")
_STARTS_NUMBER = re.compile(r"[(\[]?(?:\d|[IVXLC]+\b)")
_CLOSERS = frozenset("\"'”’»)]}>")
