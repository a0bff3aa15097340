// Package docs tests that the documentation is correct.
//
//	go test ./proofs/docs           # check policies, commands and tables
//	go test ./proofs/docs -update   # rewrite the tables
package docs

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/policy"
)

var update = flag.Bool("update", false, "rewrite the generated tables")

// The tests run in docs/, so that they can open pages by the names in links.
func init() {
	if err := os.Chdir(filepath.Join("..", "..", "docs")); err != nil {
		panic(err)
	}
}

// pages lists every page of the documentation, including the README and its translations.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{filepath.Join("..", "README.md")}
	translated, err := filepath.Glob(filepath.Join("..", "*"+chinese))
	if err != nil {
		t.Fatal(err)
	}
	list = append(list, translated...)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A block is a fenced part of a page.
type block struct {
	line int    // of its first line of text, from 1
	lang string // the word after the fence
	file string // the name in the sentence before it; empty = no name
	text string
}

var (
	fence   = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	nameEnd = regexp.MustCompile("`([^`\n]+)`[:：]\n\n?$")
)

// blocks returns the fenced blocks of a page. If the sentence directly before a block ends in a
// name in backquotes and a colon, it is the name of the block's file.
func blocks(page string) []block {
	var list []block
	for _, at := range fence.FindAllStringSubmatchIndex(page, -1) {
		b := block{line: strings.Count(page[:at[4]], "\n") + 1, lang: page[at[2]:at[3]], text: page[at[4]:at[5]]}
		if name := nameEnd.FindStringSubmatch(page[:at[0]]); name != nil {
			b.file = name[1]
		}
		list = append(list, b)
	}
	return list
}

// Every policy in the documentation is valid.
func TestPoliciesInDocs(t *testing.T) {
	t.Parallel()
	found := 0
	for _, page := range pages(t) {
		for _, b := range blocks(readPage(t, page)) {
			if b.lang != "yaml" {
				continue
			}
			found++
			if policytest.IsTest(b.file) {
				continue // TestPages runs this page
			}
			if _, errs := policy.Parse(page, []byte(b.text)); len(errs) > 0 {
				t.Errorf("%s:%d: a policy does not parse: %v\n%s", page, b.line, errs, b.text)
			}
		}
	}
	if found < 8 {
		t.Errorf("only %d policies found in %d pages", found, len(pages(t)))
	}
}

var link = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)

// The target of each link inside the repository exists.
func TestLinks(t *testing.T) {
	t.Parallel()
	top, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	list := slices.Compact(slices.Sorted(slices.Values(append(pages(t), top...))))
	found := 0
	for _, page := range list {
		for _, to := range link.FindAllStringSubmatch(readPage(t, page), -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), filepath.FromSlash(to[1]))); err != nil {
				t.Errorf("%s links to %s: %v", page, to[1], err)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d links found in %d pages", found, len(list))
	}
}

// The README links to the index, and the index links to every page. Pages of a directory with a
// separate index are linked from there.
func TestEveryPageIsLinked(t *testing.T) {
	t.Parallel()
	const index = "README.md"
	if to := "(docs/" + index + ")"; !strings.Contains(readPage(t, filepath.Join("..", "README.md")), to) {
		t.Errorf("../README.md does not link to %s", to)
	}
	list := pages(t)
	for _, page := range list {
		from, to := index, filepath.ToSlash(page)
		if own := filepath.Join(filepath.Dir(page), index); own != page && slices.Contains(list, own) {
			from, to = own, filepath.Base(page)
		}
		if !strings.HasPrefix(to, "..") && to != index && !strings.Contains(readPage(t, from), "("+to+")") {
			t.Errorf("%s does not link to %s", from, page)
		}
	}
}

// unindented returns Go code without indentation, because a page may indent it less.
func unindented(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}
