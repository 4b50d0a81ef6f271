"""EnglishTokenizer: hard sentences, and that no character is lost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_cli.text.tokenizer import EnglishTokenizer

TOKENIZER = EnglishTokenizer()

TITLES = (
    "Mr Mrs Ms Messrs Mme Mlle Dr Drs Prof Rev Hon Gen Col Maj Capt Lt Sgt Cpl Gov Sen Rep Supt"
)
BEFORE_NUMBERS = (
    "no No nos Nos art Art arts Arts fig Fig figs Figs sec Sec secs Secs Chap chap para Para paras "
    "Paras p pp vol Vol vols Vols eq Eq eqs Eqs"
)
WITH_STOPS = (
    "Ph.D. M.Sc. B.Sc. etc. vs. approx. Jr. Sr. Esq. Inc. Ltd. Co. Corp. Bros. St. Ave. Blvd. Jan. "
    "Feb. Aug. Sept. Oct. Nov. Dec."
)

# Text -> its sentences, tokens separated by one space.
HARD = {
    "I can't do that.": ["I ca n't do that ."],
    "She'll say they're John's.": ["She 'll say they 're John 's ."],
    "I cannot, but I'm gonna.": ["I can not , but I 'm gon na ."],
    'It isn’t Anna’s.': ['It is n’t Anna ’s .'],
    "The dogs' tails wagged.": ["The dogs ' tails wagged ."], "Get 'em now.": ["Get 'em now ."],
    'Mr. Brown met Dr. Green.': ['Mr. Brown met Dr. Green .'],
    'Mrs. Field saw Gen. Grant. He slept.': ['Mrs. Field saw Gen. Grant .', 'He slept .'],
    'John F. Kennedy and J. R. R. Tolkien met.': ['John F. Kennedy and J. R. R. Tolkien met .'],
    "St. John's is in St. Louis.": ["St. John 's is in St. Louis ."],
    'He lives in the U.S. It rains.': ['He lives in the U.S.', 'It rains .'],
    'The U.S. Senate met.': ['The U.S. Senate met .'],
    'He met I.B.M. on Monday.': ['He met I.B.M. on Monday .'],
    'He works for I.B.M. They pay.': ['He works for I.B.M.', 'They pay .'],
    'The U.S. troops left the U.K. in May. It rained.':
        ['The U.S. troops left the U.K. in May .', 'It rained .'],
    'The (U.S.S.R.) and "N.A.T.O. forces" met.': ['The ( U.S.S.R. ) and " N.A.T.O. forces " met .'],
    'Is it in the U.S.?': ['Is it in the U.S. ?'],
    'Use tools, e.g. a saw, i.e. cut it.': ['Use tools , e.g. a saw , i.e. cut it .'],
    'It ends at 5 p.m. Then we go.': ['It ends at 5 p.m.', 'Then we go .'],
    'Pens, paper, etc. are here.': ['Pens , paper , etc. are here .'],
    'He works for Apple Inc.': ['He works for Apple Inc.'],
    'Smith et al. 2010 agree.': ['Smith et al. 2010 agree .'],
    'See Fig. 3 and No. 5.': ['See Fig. 3 and No. 5 .'], "No. I won't.": ['No .', "I wo n't ."],
    'He has a Ph.D. in law.': ['He has a Ph.D. in law .'],
    'It is vitamin C.': ['It is vitamin C .'],
    '"I am here." he said.': ['" I am here . " he said .'],
    '"Listen!" cried Billy.': ['" Listen ! " cried Billy .'],
    'He said "no." Then he left.': ['He said " no . "', 'Then he left .'],
    'He said “no.” Then he left.': ['He said “ no . ”', 'Then he left .'],
    "'Yes,' she said.": ["' Yes , ' she said ."],
    '(He left.) Then (it rained).': ['( He left . )', 'Then ( it rained ) .'],
    'See [1] or {2}.': ['See [ 1 ] or { 2 } .'], 'Wait... what?': ['Wait ... what ?'],
    'Then it rained… maybe.': ['Then it rained … maybe .'],
    'So . . . it goes.': ['So . . . it goes .'],
    'It is over—finally -- done.': ['It is over — finally -- done .'],
    'What?! Yes!': ['What ? !', 'Yes !'],
    'A well-known state-of-the-art trick.': ['A well-known state-of-the-art trick .'],
    'It costs $3.88, or 50% of 10,000.': ['It costs $ 3.88 , or 50 % of 10,000 .'],
    'At 7:30 on 3/4/1999.': ['At 7:30 on 3/4/1999 .'], 'AT&T and R&D.': ['AT&T and R&D .'],
    'See https://a.org/b?c=d, or www.x.com.': ['See https://a.org/b?c=d , or www.x.com .'],
    'See http://a.org/b, or ftp://c.org/d.': ['See http://a.org/b , or ftp://c.org/d .'],
    'Mail me@x.org today.': ['Mail me@x.org today .'],
    'Zoë visited São Paulo.': ['Zoë visited São Paulo .'],
    '我 爱 你。': ['我 爱 你。'], '.': ['.'], '': [], ' \t ': [],
}  # fmt: skip


@pytest.mark.parametrize("text", HARD)
def test_hard_sentences(text: str) -> None:
    """The bundled model knows the tokens of this table."""
    assert [" ".join(sentence) for sentence in TOKENIZER.sentences(text)] == HARD[text]


@pytest.mark.parametrize(
    "title",
    TITLES.split(),
)
def test_a_title_belongs_to_the_name_after_it(title: str) -> None:
    assert TOKENIZER.sentences(f"They met {title}. Brown.") == [
        ["They", "met", f"{title}.", "Brown", "."]
    ]
    assert TOKENIZER.sentences(f"They met the {title}.")[0][-1] == f"{title}."


@pytest.mark.parametrize(
    "word",
    BEFORE_NUMBERS.split(),
)
def test_an_abbreviation_belongs_to_the_number_after_it(word: str) -> None:
    for number in ("12", "(3", "IV", "V"):
        assert len(TOKENIZER.sentences(f"They read {word}. {number} of it.")) == 1


@pytest.mark.parametrize("word", ["e.g.", "i.e.", "viz.", "cf.", "vs.", "approx."])
def test_an_abbreviation_is_never_the_last_word(word: str) -> None:
    assert len(TOKENIZER.sentences(f"They met {word} The end.")) == 1


@pytest.mark.parametrize(
    "word",
    WITH_STOPS.split(),
)
def test_an_abbreviation_keeps_its_full_stop_at_the_end(word: str) -> None:
    assert TOKENIZER.sentences(f"They met {word}") == [["They", "met", word]]


@given(st.text(st.sampled_from("ab AB .,!?'\"`’“”()[]…-—1$&@:/\n\u00a0\u2028é"), max_size=60))
@settings(deadline=None, max_examples=200)
def test_tokens_are_the_text_without_white_space(text: str) -> None:
    """Otherwise a tokenizer could drop, double or rewrite characters, as treebank quotes are."""
    sentences = TOKENIZER.sentences(text)
    assert "".join("".join(sentence) for sentence in sentences) == "".join(text.split())
    assert all(token.split() == [token] for sentence in sentences for token in sentence)
    assert all(sentences)


def test_a_long_paragraph_has_no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a line of a megabyte fails after the five seconds that nltk gives its patterns."""
    redos = pytest.importorskip("nltk.redos", reason="nltk before 3.10 has no such limit")
    monkeypatch.setattr(redos, "DEFAULT_TIMEOUT", 0.05)  # of which each sentence has its own
    sentences = EnglishTokenizer().sentences("They left . " * 2_000)
    assert sentences == [["They", "left", "."]] * 2_000
    monkeypatch.setattr(redos, "DEFAULT_TIMEOUT", 1e-4)
    assert EnglishTokenizer().sentences("they left, " * 5_000) == [["they", "left", ","] * 5_000]


def test_time_grows_linearly() -> None:
    """`. . .` of 8,000 characters took 1.5 s, and 10 MB without whitespace took for ever."""
    start = time.process_time()
    ((*tokens,),) = EnglishTokenizer().sentences(". " * 4_000)
    huge = "a" * 10_000_000
    sentences = EnglishTokenizer().sentences(f"It is . {huge} It was.")
    assert time.process_time() - start < 2.5
    assert tokens == ["."] * 4_000
    assert sentences == [["It", "is", "."], [huge], ["It", "was", "."]]
