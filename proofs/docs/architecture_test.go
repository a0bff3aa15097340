//go:build system

// These tests start no program. They read every source file.

package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var architecture = filepath.Join("..", "ARCHITECTURE.md")

// A wing is a row of the picture of the repository: folders, and the lines of Go in them.
type wing struct {
	folders []string
	lines   int
	at, end int // of the number in the page
}

var (
	wingFolder = regexp.MustCompile(`(?:[a-z-]+/)+|\*\.go`)
	wingLines  = regexp.MustCompile(` +([\d,]+)$`)
)

// wings reads the picture. The folders of a wing may take several lines, and its number is at the
// end of the last one.
func wings(t *testing.T, page string) (list []wing) {
	t.Helper()
	start := strings.Index(page, "## The wings")
	start += strings.Index(page[start:], "```text\n")
	var w wing
	for line := range strings.Lines(page[start : start+strings.Index(page[start:], "\n```\n")]) {
		row := strings.TrimSuffix(line, "\n")
		w.folders = append(w.folders, wingFolder.FindAllString(row, -1)...)
		if number := wingLines.FindStringSubmatchIndex(row); number != nil {
			lines, err := strconv.Atoi(strings.ReplaceAll(row[number[2]:number[3]], ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			w.lines, w.at, w.end = lines, start+number[0], start+number[3]
			list = append(list, w)
			w = wing{}
		}
		start += len(line)
	}
	return list
}

// Each Go file is in a wing of ARCHITECTURE.md, and the sizes of the wings are right within 15 %.
func TestWings(t *testing.T) {
	t.Parallel()
	page := readPage(t, architecture)
	list := wings(t, page)
	if len(list) < 15 {
		t.Fatalf("only %d wings found", len(list))
	}
	sizes := make([]int, len(list))
	walk(t, func(name string) {
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return
		}
		in, longest := -1, ""
		for i, w := range list {
			for _, folder := range w.folders {
				fits := strings.HasPrefix(name, folder) || folder == "*.go" && !strings.Contains(name, "/")
				if fits && len(folder) > len(longest) {
					in, longest = i, folder
				}
			}
		}
		if in < 0 {
			t.Errorf("%s is in no wing", name)
			return
		}
		sizes[in] += codeLines(t, filepath.Join("..", name))
	})
	fresh := page
	for i, w := range slices.Backward(list) {
		if *update {
			fresh = fresh[:w.at] + fmt.Sprintf("%*s", w.end-w.at, thousands(rounded(sizes[i]))) + fresh[w.end:]
		} else if math.Abs(float64(w.lines-sizes[i])) > 0.15*float64(sizes[i]) {
			t.Errorf("%q have %d lines of Go, and the page says %d: run go test -tags system ./proofs/docs -run TestWings -update", w.folders, sizes[i], w.lines)
		}
	}
	if fresh != page {
		if err := os.WriteFile(architecture, []byte(fresh), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// rounded returns n with two digits, or three above 10,000.
func rounded(n int) int {
	if n < 1000 {
		return (n + 5) / 10 * 10
	}
	return (n + 50) / 100 * 100
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// codeLines returns how many lines of a Go file have code; 0 for a generated file.
func codeLines(t *testing.T, name string) int {
	t.Helper()
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(parsed) {
		return 0
	}
	file := set.AddFile(name, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	lines := map[int]bool{}
	for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
		if tok == token.SEMICOLON && lit != ";" { // the end of a line
			continue
		}
		first := file.Line(pos)
		for i := range strings.Count(lit, "\n") + 1 {
			lines[first+i] = true
		}
	}
	return len(lines)
}

func TestCodeLines(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "a.go")
	const source = "// Package a is an example.\npackage a\n\nvar a = 1 // one\n\n/* no\ncode */\n\nconst b = `1\n\n3`\n"
	if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := codeLines(t, name); got != 5 {
		t.Errorf("%d lines, want 5:\n%s", got, source)
	}
}

// Every path that ARCHITECTURE.md names exists: in links, between backticks and in the pictures.
// The page has at most 1,200 words, two pictures and a link from the pages where people begin.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	page := readPage(t, architecture)
	words := strings.FieldsFunc(page, unicode.IsSpace)
	words = slices.DeleteFunc(words, func(w string) bool {
		return !strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	})
	if len(words) > 1200 {
		t.Errorf("the page has %d words, want at most 1200", len(words))
	}
	var code []string
	for _, b := range blocks(page) {
		code = append(code, b.text)
	}
	if len(code) != 2 {
		t.Errorf("the page has %d pictures, want 2", len(code))
	}
	for _, match := range backticked.FindAllStringSubmatch(page, -1) {
		code = append(code, match[1])
	}
	paths := 0
	for _, text := range code {
		for word := range strings.FieldsSeq(text) {
			word = strings.TrimPrefix(strings.TrimRight(word, ",;:"), "./")
			if !sourcePath.MatchString(word) || !strings.Contains(word, "/") && !strings.HasSuffix(word, ".go") {
				continue
			}
			paths++
			if found, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(strings.ReplaceAll(word, "NAME", "*")))); err != nil || found == nil {
				t.Errorf("the page names %s, which does not exist", word)
			}
		}
	}
	if paths < 100 {
		t.Errorf("only %d paths found", paths)
	}
	for _, from := range []string{"README.md", "CONTRIBUTING.md", "AGENTS.md"} {
		if !strings.Contains(readPage(t, filepath.Join("..", from)), "](ARCHITECTURE.md)") {
			t.Errorf("%s does not link to ARCHITECTURE.md", from)
		}
	}
}

// The smallest examples of agents in Go stay small.
func TestSmallExamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cli", "loop", "server"} {
		if lines := codeLines(t, filepath.Join("..", "examples", name, "main.go")); lines > 60 {
			t.Errorf("examples/%s has %d lines, want at most 60", name, lines)
		}
	}
}
