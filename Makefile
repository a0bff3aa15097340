# Continuous integration runs these targets. Run them before you push, too. They need
# only Go; e2e also needs Node and npm. AGENTS.md explains the test tiers.

GO       ?= go
FUZZTIME ?= 1m

# The race detector needs cgo, and cgo needs a C compiler. Without one, "make test" runs
# every test and warns that the race detector is off.
RACE := $(shell set -- $$($(GO) env CC); command -v "$$1" >/dev/null 2>&1 && echo -race)

# The library, the backends, the programs and the system tests are modules, joined by go.work, so
# that users of the library load few modules.
BACKENDS := $(patsubst %/go.mod,%,$(wildcard backend/*/go.mod))
MODULES  := . $(BACKENDS) cmd proofs
ALL      := ./... $(BACKENDS:%=./%/...) ./cmd/... ./proofs/...

# Each bridge is a separate module, so that other users do not load its framework. Bridges are
# not in go.work, because go.work would give all of them the same versions.
BRIDGES := $(patsubst %/go.mod,%,$(wildcard bridge/*/go.mod))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## show what Grapnel does, without any agent
	@$(GO) run ./proofs/demo

# make build compiles the same programs as "go install ./cmd/...": it adds no flags.
# proofs/bench also builds with it.
BIN      := bin/
PROGRAMS := ./cmd/...

.PHONY: install
install: ## install grapnel and grapnel-hook where "go install" puts programs
	@dir="$$($(GO) env GOBIN)"; dir="$${dir:-$$($(GO) env GOPATH)/bin}"; \
	echo "make install: building grapnel and grapnel-hook into $$dir"; \
	$(GO) install ./cmd/grapnel ./cmd/grapnel-hook && "$$dir/grapnel" version && \
	case ":$$PATH:" in *":$$dir:"*) ;; *) echo "make install: $$dir is not in PATH: export PATH=\"\$$PATH:$$dir\"" ;; esac; \
	echo 'make install: next, run "grapnel init" and "grapnel install"'

.PHONY: pictures
pictures: ## make the pictures of the documentation again, with the output of the demo (needs tmux)
	$(GO) run ./proofs/pictures docs/images

.PHONY: screenshots
screenshots: ## make the pictures of the browser page again, with Records of a demo (needs chromium)
	$(GO) test -tags e2e -count=1 -run '^TestPictures$$' ./proofs/browser -args -pictures '$(CURDIR)/docs/images'

.PHONY: build
build: ## build grapnel and grapnel-hook into bin/
	$(GO) build -o '$(BIN)' $(PROGRAMS)

# Unit tests run under proofs/nofork, where Linux refuses to start programs. Only package
# process starts programs in its unit tests, because that is its purpose.
NOFORK := $(if $(filter linux,$(shell $(GO) env GOOS)),-exec '$(CURDIR)/bin/test/nofork -except process.test')
# SQLite is C translated to Go. We do not check its pointer arithmetic and memory accesses,
# and the checks would make it five times slower.
UNCHECKED := -gcflags='modernc.org/...=-race=false -d=checkptr=0'
# Without GORACE, every test program waits a second at its end.
UNIT      := $(if $(RACE),CGO_ENABLED=1 GORACE=atexit_sleep_ms=50 )$(GO) test $(if $(RACE),$(RACE) $(UNCHECKED)) -p 3 -count=1 -timeout 10m $(NOFORK)

# Nothing in these packages runs at the same time or is locked, so the race detector would only make
# them three times slower.
PURE = ./dialect ./packs ./cmd/internal/setup/install ./internal/policy/expr ./internal/glob ./internal/jsregexp ./internal/rawjson ./internal/policy/yaml/... ./proofs/reference/...

.PHONY: test
test: ## unit tests with the race detector; needs only Go
	@[ -d "$$($(GO) env GOMODCACHE)/modernc.org" ] || echo 'make test: the first run on a machine downloads about 180 MB of Go modules and compiles them with the race detector: about 12 minutes on two cores. Later runs take about two.'
	@$(MAKE) --no-print-directory --keep-going --jobs=2 test-unit test-pure test-bridges

# The go command keeps the results of tests whose packages and files did not change, so this
# tests what a change can break. It leaves out the race detector and the rule about processes.
.PHONY: quick
quick: ## unit tests of changed packages and of packages that use them, without the race detector
	$(GO) test $(ALL)

# Package process waits longest, so it begins first.
.PHONY: test-unit
test-unit: bin/test/nofork
	$(if $(RACE),,@echo 'make test: no C compiler, so the race detector is OFF')
	$(UNIT) ./process $$($(GO) list $(ALL) | grep -vxF "$$($(GO) list $(PURE))")

.PHONY: test-pure
test-pure: bin/test/nofork
	$(subst $(RACE) $(UNCHECKED),,$(UNIT)) $(PURE)

.PHONY: test-bridges
test-bridges: $(BRIDGES:%=test-%)

test-bridge/%: bin/test/nofork
	cd bridge/$* && GOWORK=off $(UNIT) ./...

.PHONY: bin/test/nofork
bin/test/nofork:
	$(if $(NOFORK),@CGO_ENABLED=0 $(GO) build -o $@ ./proofs/nofork)

# Reliability tests are those of proofs/crash and proofs/hostile, and those in other packages
# that have a comment such as "// chaos: clock" above them.
CHAOS       = grep -rE --include='*_test.go' '^// chaos: ' .
CHAOS_TESTS = $$($(CHAOS) -hA1 | sed -nE 's/^func (Test[A-Za-z0-9_]+)\(.*/\1/p' | sort -u | paste -sd'|' -)

# System tests are in files with the build tag system. Their packages also hold unit
# tests, which ran before, so the tests are selected by name. "make chaos" runs the reliability
# tests, "make laws" the mutants of the packs, and "make vectors" the vectors.
SYSTEM_FILES = $$(grep -rlE --include='*_test.go' --exclude-dir=bridge --exclude-dir=crash --exclude-dir=hostile '^//go:build .*\bsystem\b' .)

.PHONY: test-system
test-system: ## tests that start programs, built once into bin/test; then the packs against the corpus
	$(GO) run ./proofs/build '$(CURDIR)/bin/test'
	CGO_ENABLED=0 GRAPNEL_TEST_PROGRAMS='$(CURDIR)/bin/test' $(GO) test -tags system -count=1 -timeout 20m -parallel 4 \
		-skip "^(TestMutants|TestVectors|$(CHAOS_TESTS))$$" -run "^($$(grep -hoE '^func (Test|Example|Fuzz)[A-Za-z0-9_]+' $(SYSTEM_FILES) | grep -v TestMain | cut -c6- | sort -u | paste -sd'|' -))$$" \
		$$(dirname $(SYSTEM_FILES) | sort -u)
	GOWORK=off $(GO) -C bridge/mcp test -tags system -count=1 ./...

.PHONY: e2e
e2e: ## run real agents from npm against a model server on loopback; AGENTS=codex,gemini-cli runs only these
	GRAPNEL_E2E_AGENTS='$(AGENTS)' $(GO) test -tags e2e -count=1 -timeout 45m -v ./proofs/e2e/...

.PHONY: readers
readers: ## give Grapnel's output to the programs that read it: shells, editors, validators, Prometheus
	$(GO) test -tags e2e -count=1 -timeout 15m -v ./proofs/readers/...

.PHONY: browser
browser: ## use the page of "grapnel ui" in Chromium, like a person (needs chromium and the Debian package postgresql; installs some from npm)
	$(GO) test -tags e2e -count=1 -timeout 20m -v ./proofs/browser

.PHONY: machines
machines: ## send the Records of many machines to a real PostgreSQL and NATS (needs the Debian package postgresql)
	$(GO) test -tags e2e -count=1 -timeout 15m -v $(BACKENDS:%=./%/...) ./proofs/machines

.PHONY: corpus
corpus: ## print how many dangerous and harmless cases, and calls of recorded sessions, the packs stop
	$(GO) test ./proofs/corpus -tags system -count=1 -v -run TestCorpus

.PHONY: vectors
vectors: ## run the conformance vectors
	$(GO) run ./proofs/conformance/cmd/vectors --gaps proofs/conformance/gaps.json proofs/conformance/vectors

.PHONY: laws
laws: ## test every law with 10,000 random cases, and the tests of the packs with changed packs
	$(GO) test -count=1 -timeout 20m . ./dialect ./shell ./internal/policy/state ./internal/spool ./policy ./policy/load ./cmd/internal/setup/install ./proofs/reference/expr ./proofs/reference/glob ./proofs/reference/schema -rapid.checks=10000
	$(GO) test -tags system -count=1 -run '^TestMutants$$' ./packs

.PHONY: bench
bench: ## measure every path against its budget; BENCH_JSON=FILE keeps all rows; BENCHFLAGS: -gate fails, -against COMMIT compares with it, -quick, -dialects, -run RE
	@BENCH_JSON='$(BENCH_JSON)' $(GO) run ./proofs/bench $(BENCHFLAGS)

.PHONY: load
load: ## measure a daemon with 1, 8 and 64 clients; LOADFLAGS: -gate fails, -limit 2 for shared machines, -time 10s measures longer, -profile FILE writes a CPU profile
	@$(GO) run ./proofs/load $(LOADFLAGS)

.PHONY: crash
crash: ## kill a daemon 1,000 times under load, and again with records: {sync: true}, and check that nothing was lost; CRASHFLAGS=-kills 100 -v
	@$(GO) run ./proofs/crash $(CRASHFLAGS)
	@$(GO) run ./proofs/crash -sync $(CRASHFLAGS)

.PHONY: chaos
chaos: ## reliability tests: kill daemons, cut the power (needs the Debian package strace), fill the disk, remove files, change the clock, run hostile programs; about ten minutes
	$(GO) run ./proofs/crash -kills 50
	$(GO) run ./proofs/soak -time 1m -idle 0 -rate 100
	$(GO) run ./proofs/build '$(CURDIR)/bin/test'
	GRAPNEL_TEST_PROGRAMS='$(CURDIR)/bin/test' $(GO) test -tags system -count=1 -timeout 20m -parallel 4 ./proofs/crash ./proofs/hostile
	GRAPNEL_TEST_PROGRAMS='$(CURDIR)/bin/test' $(GO) test -tags system -count=1 -timeout 20m \
		-run "^($(CHAOS_TESTS))$$" \
		$$($(CHAOS) -l | xargs -n1 dirname | sort -u)

TIME ?= 10m
.PHONY: soak
soak: ## measure an idle daemon, then keep it busy for TIME (10m) and check that it does not grow
	@$(GO) run ./proofs/soak -time $(TIME) $(SOAKFLAGS)

# Targets run one after another on one core, so that the machine stays usable. At the end
# of its time a target may fail without a finding (golang/go#75804, before Go 1.27).
.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (1m) and keep failing inputs in testdata/fuzz
	@log="$$(mktemp)"; trap 'rm -f "$$log"' EXIT; \
	$(GO) test -list '^Fuzz' $(ALL) \
	| awk '/^Fuzz/ { name[++n] = $$1 } /^ok/ { for (i = 1; i <= n; i++) print $$2, name[i]; n = 0 }' \
	| while read -r pkg name; do \
		echo "$$pkg $$name"; \
		if ! $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s -parallel 1 "$$pkg" </dev/null >"$$log" 2>&1 \
		&& { grep -q 'Failing input' "$$log" || ! grep -q '^ *context deadline exceeded$$' "$$log"; }; then \
			cat "$$log"; exit 1; \
		fi; \
		grep 'execs:' "$$log" | tail -n 1; \
	done

.PHONY: slow
slow: crash soak laws fuzz ## crash, soak, property and fuzz tests; takes more than an hour

.PHONY: fmt
fmt: bin/lint ## format the code and sort its imports
	bin/lint -format .

# Independent steps, so that "make -k lint" shows all findings at once.
.PHONY: lint
lint: lint-tidy lint-go lint-vet lint-test ## check format, go.mod, and what vet and proofs/lint find

# cmd and the backends require the next release of each other and of the library, which no proxy has. So
# "go mod tidy" gets a copy of their go.mod that replaces those by their directories.
UNRELEASED = $(BACKENDS) cmd
OTHERS     = $(filter-out $(UNRELEASED),$(MODULES)) proofs/lint $(BRIDGES)
TIDY       = mkdir -p bin; for dir in $(UNRELEASED); do mod='$(CURDIR)/bin/tidy'; cp $$dir/go.mod $$mod.mod; cp $$dir/go.sum $$mod.sum; \
	for other in "" $(BACKENDS:%=/%); do $(GO) mod edit -replace "github.com/grapnel-dev/grapnel$$other=$(CURDIR)$$other" $$mod.mod; done; \
	GOWORK=off $(GO) -C $$dir mod tidy -modfile=$$mod.mod

.PHONY: lint-tidy
lint-tidy:
	@set -e; $(TIDY) -diff; done; for dir in $(OTHERS); do $(GO) -C "$$dir" mod tidy -diff; done

.PHONY: tidy
tidy: ## tidy the go.mod of every module
	@set -e; $(TIDY); \
	for other in "" $(BACKENDS:%=/%); do $(GO) mod edit -dropreplace "github.com/grapnel-dev/grapnel$$other" $$mod.mod; done; \
	cp $$mod.mod $$dir/go.mod; cp $$mod.sum $$dir/go.sum; done; for dir in $(OTHERS); do $(GO) -C "$$dir" mod tidy; done

# "go vet" keeps results in the build cache. With -trimpath they do not contain the directory, so
# another clone finds them too. Without cgo, because no C cross compiler is available.
VET = GOFLAGS="$$($(GO) env GOFLAGS) -trimpath" CGO_ENABLED=0 $(GO)

# It checks the code for Linux, which has most of it.
.PHONY: lint-go
lint-go: bin/lint
	@failed=; GOOS=linux $(VET) vet -vettool='$(CURDIR)/bin/lint' -tags e2e,system $(ALL) || failed=1; \
	for dir in $(BRIDGES) proofs/lint; do GOWORK=off GOOS=linux $(VET) -C "$$dir" vet -vettool='$(CURDIR)/bin/lint' ./... || failed=1; done; [ -z "$$failed" ]

# The other systems must build. The e2e tests run only on Linux, but must be valid Go on every
# system.
.PHONY: lint-vet
lint-vet: lint-vet-darwin lint-vet-windows

lint-vet-%:
	@failed=; GOOS=$* $(VET) vet -tags e2e,system $(ALL) || failed=1; \
	for dir in $(BRIDGES); do GOWORK=off GOOS=$* $(VET) -C "$$dir" vet ./... || failed=1; done; [ -z "$$failed" ]

.PHONY: lint-test
lint-test:
	@GOWORK=off CGO_ENABLED=0 $(GO) -C proofs/lint test -trimpath ./...

.PHONY: bin/lint
bin/lint:
	@GOWORK=off CGO_ENABLED=0 $(GO) -C proofs/lint build -trimpath -o '$(CURDIR)/bin/lint' .

.PHONY: clean
clean: ## remove what the targets above leave behind, except caches of Go and npm
	rm -rf bin
