module github.com/grapnel-dev/grapnel/cmd/proofs/lint

go 1.26.0

require (
	github.com/gordonklaus/ineffassign v0.2.0
	github.com/gostaticanalysis/nilerr v0.1.2
	github.com/kisielk/errcheck v1.30.0
	github.com/ldez/usetesting v0.5.0
	github.com/moricho/tparallel v0.3.2
	github.com/nishanths/exhaustive v0.17.1
	github.com/polyfloyd/go-errorlint v1.8.0
	github.com/sonatard/noctx v0.5.1
	github.com/timakin/bodyclose v0.0.0-20260723120731-857993a2939c
	github.com/ultraware/funlen v0.2.0
	github.com/uudashr/gocognit v1.3.0
	go-simpler.org/sloglint v0.12.0
	golang.org/x/sync v0.24.0
	golang.org/x/tools v0.52.0
	honnef.co/go/tools v0.8.2
	mvdan.cc/gofumpt v0.12.0
)

require (
	github.com/BurntSushi/toml v1.6.0 // indirect
	github.com/ettle/strcase v0.2.0 // indirect
	github.com/gostaticanalysis/analysisutil v0.7.1 // indirect
	github.com/gostaticanalysis/comment v1.5.0 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/tools/go/packages/packagestest v0.1.1-deprecated // indirect
)
