package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A bench holds the state that all groups share.
type bench struct {
	dir, bin, project string
	null              *os.File
	quick             bool

	progress io.Writer
	notes    []string // printed below the table
}

// newBench creates a temporary directory with a project, and builds the programs.
func newBench(ctx context.Context, quick bool, progress io.Writer) (*bench, error) {
	dir, err := os.MkdirTemp("", "grapnel-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, project: filepath.Join(dir, "project"), quick: quick, progress: progress}
	err = func() error {
		if err := os.MkdirAll(filepath.Join(b.project, ".git"), 0o700); err != nil { // a project's root
			return err
		}
		if b.null, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			return err
		}
		fmt.Fprintln(progress, "bench: building the programs")
		b.bin, err = build(ctx, dir)
		return err
	}()
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) close() error {
	var err error
	if b.null != nil {
		err = b.null.Close()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// build compiles the programs with the release flags, by calling the Makefile that defines them,
// and returns their directory. It copies the programs there, as an installation does: the
// linker's own output is scattered in the page cache and starts up to a tenth slower.
func build(ctx context.Context, dir string) (bin string, err error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/grapnel-dev/grapnel").Output()
	if err != nil {
		return "", fmt.Errorf("cannot find the directory of the module: %w", err)
	}
	built := filepath.Join(dir, "build")
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "-C", strings.TrimSpace(string(root)), "build",
		"BIN="+built+string(filepath.Separator), "PROGRAMS=./cmd/grapnel-hook ./cmd/grapnel ./proofs/bench/static ./proofs/bench/peer")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	bin = filepath.Join(dir, "bin")
	return bin, os.CopyFS(bin, os.DirFS(built))
}

func (b *bench) exe(name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(b.bin, name)
}

// groupLimit is the time limit of a group, for a group that hangs.
const groupLimit = 4 * time.Minute

var errGroupLimit = errors.New("the group took too long")

// all measures one group after another. A failure in one group fails only the rows of that group.
// all returns an error only if ctx ends.
func (b *bench) all(ctx context.Context, p plan, groups []group) ([]row, error) {
	var rows []row
	begin := time.Now()
	for i, g := range groups {
		fmt.Fprintf(b.progress, "bench: %3.0f s: %d/%d %s\n", time.Since(begin).Seconds(), i+1, len(groups), g.name)
		more, err := b.measure(ctx, p, g)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// open sets one group up and returns the context in which it can be measured. The caller must call
// cleanUp, also after an error.
func (b *bench) open(ctx context.Context, g group) (*setup, context.Context, error) {
	ctx, stop := context.WithTimeoutCause(ctx, groupLimit, errGroupLimit)
	s := &setup{bench: b}
	s.atEnd(func() error { stop(); return nil })
	for _, t := range g.targets {
		s.paths = append(s.paths, &path{target: t})
	}
	return s, ctx, g.setup(ctx, s)
}

// measure sets one group up, measures it and cleans up.
func (b *bench) measure(ctx context.Context, p plan, g group) (rows []row, err error) {
	if g.runs > 0 {
		p.runs = min(p.runs, g.runs)
		p.fewest = min(p.fewest, p.runs)
	}
	s, inGroup, failed := b.open(ctx, g)
	if failed == nil {
		rows, failed = p.measure(inGroup, s.paths, g.screening, s.beside...)
	}
	if failed == nil && s.note != nil {
		b.notes = append(b.notes, s.note())
	}
	failed = errors.Join(failed, s.cleanUp())
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case failed == nil:
		return rows, nil
	}
	for _, p := range s.paths {
		p.err = errors.Join(p.err, failed)
	}
	return judge(s.paths, p.limit), nil
}

// A setup holds the state of one group while it is measured.
type setup struct {
	*bench
	paths  []*path
	beside []*series // measured in turn with the paths, for note
	note   func() string
	ends   []func() error
}

// atEnd runs a function after the group was measured, the last one first.
func (s *setup) atEnd(f func() error) { s.ends = append(s.ends, f) }

// cleanUp may be called again.
func (s *setup) cleanUp() error {
	var errs []error
	for _, end := range slices.Backward(s.ends) {
		errs = append(errs, end())
	}
	s.ends = nil
	return errors.Join(errs...)
}

// tempDir returns a directory inside the directory of the bench.
func (b *bench) tempDir(name string) (string, error) {
	dir := filepath.Join(b.dir, name)
	return dir, os.MkdirAll(dir, 0o700)
}
