# One word per task. Without just, run the line below a task by hand.
python := ".venv/bin/python"

# list the tasks
default:
    @just --list

# a virtual environment with everything a contributor needs
setup:
    python3 -m venv .venv
    .venv/bin/pip install --quiet -e '.[dev]'

# all tests, or those given: just test tests/language
test *args:
    {{python}} -m pytest {{args}}

# columns of messages into tables/columns.txt, and docs/tables.md made of that
columns:
    {{python}} tools/columns.py

# what CI checks beside the tests
check:
    .venv/bin/ruff check nccl_insight tests benchmarks tools
    .venv/bin/ruff format --check nccl_insight tests
    .venv/bin/mypy
    .venv/bin/lint-imports
    .venv/bin/nccl-insight grammar lint

# lines and branches of checks and engine that the tests reach; fails below the floor in pyproject.toml
coverage:
    .venv/bin/pip install --quiet 'coverage>=7.4,<8'
    {{python}} -m coverage run -m pytest
    {{python}} -m coverage report --skip-covered

# which changes to checks their examples would not notice: just mutants NI211 NI513
mutants *args:
    {{python}} tools/mutants.py {{args}}

# inputs changed with their structure in mind: just fuzz --seconds 3600 --seed 7 --only log
fuzz *args:
    {{python}} -m tests.fuzz {{args}}

# apply the formatter and the safe fixes
fix:
    .venv/bin/ruff check --fix nccl_insight tests benchmarks
    .venv/bin/ruff format nccl_insight tests

# speed on this machine
bench *args:
    {{python}} benchmarks/bench_logs.py {{args}}

# everything, as the forge runs it
ci:
    bash .ci/run

# one file with everything, for machines without network
onefile target="nccl-insight.pyz":
    {{python}} tools/onefile.py {{target}}

# the bill of materials of this environment (CycloneDX)
sbom:
    {{python}} tools/sbom.py

# smoke test with the lowest allowed dependencies, in an environment of its own
lowest:
    rm -rf .venv-lowest && python3 -m venv .venv-lowest
    .venv-lowest/bin/pip install --quiet -c tools/lowest.txt .
    .venv-lowest/bin/nccl-insight analyze fixtures/runs/healthy-16rank-ib/run.log -o json=/dev/null
    .venv-lowest/bin/nccl-insight manual >/dev/null
