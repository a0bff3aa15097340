package shell

import (
	"fmt"
	"strings"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for name, line := range map[string]string{
		"simple":   "git -C /srv/app push --force origin main",
		"pipeline": "cd /tmp && npm test 2>&1 | tee out.log | grep -v foo",
		"wrapped":  "sudo -u root -- env A=b nice -n 5 rm -rf /",
		"nested":   "bash -c 'for f in *.go; do rm \"$f\"; done'",
		"document": "cat > f.go <<'EOF'\n" + strings.Repeat("some text that is written to a file\n", 280) + "EOF",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				Parse(line)
			}
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	s := Parse("git -C /srv/app push origin main")
	for name, pattern := range map[string]string{
		"otherProgram":    "rm -rf",
		"otherSubcommand": "git fetch",
		"otherOptions":    "git push --force",
		"yes":             "git push origin main",
		"wrapper":         "sudo rm -rf",
	} {
		p, err := Compile(pattern)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Match(s)
			}
		})
	}
	b.Run("1000", func(b *testing.B) {
		var patterns []*Pattern
		for i := range 1000 {
			p, err := Compile(fmt.Sprintf("program%d sub --flag%d", i, i))
			if err != nil {
				b.Fatal(err)
			}
			patterns = append(patterns, p)
		}
		for b.Loop() {
			for _, p := range patterns {
				p.Match(s)
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile("git push --force"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGate(b *testing.B) {
	for b.Loop() {
		NewGate("cd /tmp && npm test 2>&1 | tee out.log | grep -v foo").May("rm")
	}
}
