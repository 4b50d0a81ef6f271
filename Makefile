# `make help` lists what can be done.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
# What is installed: the package alone, and then with the test tools.
PACKAGE_STAMP := $(VENV)/.package-installed
STAMP := $(VENV)/.installed
# Python compiles what is imported, a small part of what is installed.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# uv needs a third of pip's time; pip takes its place where uv cannot be had or does not find a package.
UV_INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt
PACKAGE = '.$(if $(EXTRAS),[$(EXTRAS)])'
INSTALL = $(UV_INSTALL) -e $(PACKAGE) || $(PIP_INSTALL) -e $(PACKAGE)

.DEFAULT_GOAL := help
.PHONY: help install demo docs pictures test test-all test-browser test-interop test-ray coverage bench bench-plain bench-cluster bench-train bench-paired paper fuzz check format texts pretrain card dist clean

help:  ## list the targets
	@awk -F ':.*##' '/^[a-z-]+:.*##/ {printf "%-14s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP)  ## make .venv and install the package into it, editable, with the test tools

$(PACKAGE_STAMP): setup.cfg pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) torch  # pip's own settings say where a build of it without CUDA is
	$(PIP_INSTALL) uv || true
	$(INSTALL)
	touch $(PACKAGE_STAMP)

$(STAMP): EXTRAS = test
$(STAMP): $(PACKAGE_STAMP)
	$(INSTALL)
	touch $(STAMP)

demo: $(PACKAGE_STAMP)  ## embed the sample corpus with the bundled model and show the file
	$(BIN)/elmo embed docs/sample.txt -o demo.hdf5 --overwrite
	$(BIN)/elmo inspect demo.hdf5

DOCS_STAMP := $(VENV)/.docs-installed
$(DOCS_STAMP): EXTRAS = docs
$(DOCS_STAMP): $(STAMP)
	$(INSTALL)
	touch $(DOCS_STAMP)

docs: $(DOCS_STAMP)  ## write the pages of the commands, and build the site: build/site/index.html
	$(BIN)/python docs/_ext/command_pages.py
	rm -rf build/site
	$(BIN)/python -m sphinx -q -W --keep-going -d build/site-cache docs build/site

pictures: install  ## draw the picture of the README from the bundled model: docs/pictures/play-light.svg and -dark.svg
	$(BIN)/python docs/pictures/play.py

# Temporary files in memory where the system has such a folder: the suite waits for many fsyncs.
IN_MEMORY := $(if $(wildcard /dev/shm/.),TMPDIR=/dev/shm)
# Otherwise each of the processes that tests start would compile the package again.
export PYTHONDONTWRITEBYTECODE :=
# A fork copies the table of all pages, which are fewer if they are large: a third of the time of the system.
LARGE_PAGES := GLIBC_TUNABLES=glibc.malloc.hugetlb=1
# Files in the order of their names, which ends with fast ones: no process waits for the other.
TWO_PROCESSES := -n 2 --dist loadfile --no-loadscope-reorder
QUICK := $(TWO_PROCESSES) -m 'not slow and not ray and not browser and not interop'
test: install  ## the quick suite, in two processes
	$(IN_MEMORY) $(LARGE_PAGES) $(BIN)/python -m pytest $(QUICK)

# Coverage takes time itself, and cannot write its data where the size of files is limited.
NOT_COVERED := --deselect tests/house/test_doors.py::test_command_imports_nothing_heavy \
	--deselect tests/store/test_store_kill.py::test_file_size_limit_ends_the_process_cleanly
coverage: install  ## the quick suite with coverage, processes included; fails under 90 % of the lines of elmo_cli
	rm -f .coverage .coverage.*
	$(IN_MEMORY) $(BIN)/python -m coverage run -m pytest $(QUICK) $(NOT_COVERED)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

test-all: install  ## the whole suite, with what takes longer [REFERENCE=folder of the originals' outputs]
	$(if $(REFERENCE),ELMO_REFERENCE=$(abspath $(REFERENCE))) \
		$(IN_MEMORY) $(LARGE_PAGES) $(BIN)/python -m pytest $(TWO_PROCESSES) -m 'not ray and not interop'

# Without Chromium, the site is built and its links are checked.
test-browser: $(DOCS_STAMP)  ## open every page of the site, and that of `elmo plot senses`, in Chromium
	$(IN_MEMORY) $(BIN)/python -m pytest -m browser -rs tests/plot tests/site

test-interop: EXTRAS = test,test-interop
test-interop: install  ## run the programs that read the files of elmo or call it; installs them
	$(INSTALL)
	$(PIP_INSTALL) --no-deps neurox==1.0.9  # its loader needs nothing else; all of it would need transformers
	$(IN_MEMORY) $(LARGE_PAGES) $(BIN)/python -m pytest -n 2 --dist loadfile -m interop tests/interop tests/house/test_examples_of_help.py

test-ray: EXTRAS = ray,test
test-ray: install  ## the tests of a cluster on this machine; installs Ray
	$(INSTALL)
	$(BIN)/python -m pytest -m ray

TEXT ?= docs/sample.txt
SPEED := $(BIN)/python -m benchmarks.speed
CARD := $(BIN)/python -m benchmarks.model_card
bench: install  ## time `elmo embed` on TEXT=a tokenized text, with random weights of the published sizes [DEVICE=cuda]
	$(SPEED).embed --size small --size original --precision bf16 $(if $(DEVICE),--device $(DEVICE),--precision int8) $(TEXT)
	$(SPEED).writing

bench-plain: install  ## time `elmo embed` and a plain PyTorch loop in turns on TEXT=a tokenized text
	$(SPEED).plain_loop --text $(TEXT) $(ARGS)

bench-cluster: EXTRAS = ray,test
bench-cluster: install  ## time `elmo embed --ray` beside one process on TEXT=…; installs Ray
	$(INSTALL)
	$(SPEED).cluster $(TEXT) $(ARGS)

bench-train: install  ## time `elmo pretrain` on TEXT=a tokenized text, with random weights of the published sizes
	$(SPEED).training --size small --size original $(TEXT) $(ARGS)

OLD ?= HEAD
NEW ?= .
bench-paired: install  ## time a command of two checkouts in turns: OLD=HEAD NEW=. TEXT=… [ARGS="--command pretrain --pairs 15"]
	$(BIN)/python benchmarks/speed/paired.py $(OLD) $(NEW) --text $(TEXT) $(ARGS)

fuzz: DAMAGES = 500
fuzz: install  ## read DAMAGES=500 damaged files of each kind [ARGS="-k 'options or merge'"]
	ELMO_DAMAGES=$(DAMAGES) $(BIN)/python -m pytest -q tests/fuzz/test_fuzz_readers.py $(ARGS)

PYTHON_FILES := elmo_cli tests benchmarks docs/conf.py docs/_ext docs/pictures examples
check: install  ## format, lint, types, pages of the commands
	$(BIN)/ruff format --check $(PYTHON_FILES)
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/python docs/_ext/command_pages.py --check
	$(BIN)/mypy

format: install  ## format the Python files and repair what ruff can
	$(BIN)/ruff format $(PYTHON_FILES)
	$(BIN)/ruff check --fix $(PYTHON_FILES)

PARTS ?= table1 table2 table3 table7 figure1
JOBS ?= 2
DEVICE ?= cpu
paper: install  ## reproduce tables and figures of the paper: DATA=folder WORK=folder [PARTS="table1 …"] [JOBS=2] [DEVICE=cpu]
	$(BIN)/python -m benchmarks.paper.run --data $(DATA) --work $(WORK) --jobs $(JOBS) --device $(DEVICE) $(PARTS)
	$(BIN)/python -m benchmarks.paper.report --pictures $(WORK)/pictures

OUT ?= elmo-en-next
TEXTS ?= $(OUT)-texts
texts: install  ## write tokenized copies of the texts of the bundled model, with both spellings of quotes: DATA=folder [TEXTS=elmo-en-next-texts]
	$(CARD).treebank_text $(DATA) -o $(TEXTS)

SECONDS ?= 3600
SEED ?= 19
pretrain: install  ## write the texts and continue training the bundled model: DATA=folder [SECONDS=3600] [OUT=elmo-en-next] [SEED=19]
	$(if $(wildcard $(OUT)/checkpoint.pt),,$(CARD).treebank_text $(DATA) -o $(TEXTS))
	$(BIN)/elmo pretrain -o $(OUT) --data-dir $(TEXTS) --max-seconds $(SECONDS) \
		$(if $(wildcard $(OUT)/checkpoint.pt),--resume,--recipe weights/elmo-en/recipe.json --seed $(SEED))

card: install  ## measure a model for its card: DATA=folder WORK=folder [MODEL=elmo-en] [TRAIN="elmo-en-next-texts/train/*.txt", for the 5-gram]
	$(CARD).perplexity --data $(DATA) --work $(WORK) $(if $(MODEL),-m $(MODEL)) $(if $(TRAIN),--train $(TRAIN))
	$(CARD).pos --data $(DATA) --work $(WORK) $(if $(MODEL),-m $(MODEL))
	$(CARD).word_senses --data $(DATA) --work $(WORK) $(if $(MODEL),-m $(MODEL))
	$(CARD).neighbors --data $(DATA) --work $(WORK) $(if $(MODEL),-m $(MODEL))
	$(CARD).minimal_pairs $(DATA)/tasks/blimp/pairs.jsonl.xz $(DATA)/tasks/blimp/published.jsonl $(if $(MODEL),-m $(MODEL))

dist: install  ## build the wheel, the bundled model inside
	rm -rf build
	$(BIN)/python -m build --wheel

clean:  ## remove what was made, but not .venv
	rm -rf build dist *.egg-info demo.hdf5 .pytest_cache .mypy_cache .ruff_cache .coverage .coverage.*
