# Two commands for newcomers: make demo, make test.

CARGO ?= cargo

.PHONY: demo test lint bench crash storm long advisories dist package-test help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

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

crash: ## thousands of kills and power cuts of the release build: CYCLES=1000 make crash
	@scripts/need test
	$(CARGO) build --locked --release --package entrepot
	ENTREPOT_PROGRAM=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/entrepot \
	ENTREPOT_CRASH_CYCLES=$${CYCLES:-1000} $(CARGO) test --locked --package entrepot --test e2e -- at_random_moments --nocapture

storm: ## two nodes killed at random under routes of every step word: MINUTES=30 make storm
	@scripts/need test
	$(CARGO) build --locked --release --package entrepot
	ENTREPOT_PROGRAM=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/entrepot \
	ENTREPOT_STORM_MINUTES=$${MINUTES:-30} $(CARGO) test --locked --package entrepot --test e2e -- storm_of_kills --nocapture

long: ## tests that `make test` runs short, at their full length: TESTS="hooks scan" make long
	@scripts/need test
	$(CARGO) build --locked --release --package entrepot
	@scripts/long

dist: ## Debian package, archive, container context, SBOM and checksums, in target/dist
	@$(CARGO) xtask dist

package-test: ## installs, upgrades and removes the package in a Debian root of its own (root, network)
	@scripts/test-package $(PROGRAM)

advisories: ## known weaknesses of the crates that we use, from the RustSec database (needs the network)
	@scripts/advisories
