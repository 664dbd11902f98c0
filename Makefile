# Two commands for newcomers: make demo, make test.

CARGO ?= cargo

.PHONY: demo test lint bench crash advisories help

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

demo: ## build, start a server in ./demo, move a file through it, tell the story
	@scripts/need demo
	$(CARGO) build --locked --package entrepot
	@$${CARGO_TARGET_DIR:-target}/debug/entrepot demo

test: ## everything, from a fresh clone, in under 25 minutes on 2 cores
	@scripts/need test
	@scripts/test

lint: ## format and clippy alone
	@ONLY=format,clippy scripts/test

bench: ## the tables of docs/performance.md, beside OpenSSH
	@scripts/need test
	$(CARGO) build --locked --release --package entrepot
	scripts/bench

crash: ## thousands of kills: CYCLES=1000 make crash
	@scripts/need test
	ENTREPOT_CRASH_CYCLES=$${CYCLES:-1000} $(CARGO) test --locked --package entrepot --test e2e -- crash --nocapture

advisories: ## known weaknesses of the crates that we use, from the RustSec database (needs the network)
	@scripts/advisories
