package shell

import (
	"slices"
	"strings"
	"testing"
)

// pastOf returns a Past with the given texts by name.
func pastOf(files map[string]string, moved ...Move) *Past {
	return &Past{
		Texts: func(name string) []Text {
			text, ok := files[name]
			if !ok {
				return nil
			}
			return []Text{{Text: text}}
		},
		Moved: moved,
	}
}

// TestPast checks which commands of files that the session wrote a line runs.
func TestPast(t *testing.T) {
	t.Parallel()
	makefile := "OUT := build\nHERE = $(shell pwd)\nall: lint\n\tgo build ./...\nlint: ; golangci-lint run\nclean:\n\t-@rm -rf $(OUT) $(HOME)\nrelease: clean\n\tgit push\n%.o: %.c\n\tcc -c $< -o $@\n"
	files := map[string]string{
		"a.sh":                    "rm -rf ~\n",
		"sub/b.sh":                "rm -rf \"$1\"\n",
		"Makefile":                makefile,
		"web/Makefile":            "clean:\n\trm -rf ../dist\n",
		"package.json":            `{"scripts": {"build": "tsc", "prebuild": "npm run wipe", "wipe": "rm -rf ~/x", "postinstall": "node evil.js"}}`,
		"composer.json":           `{"scripts": {"wipe": "rm -rf ~/c", "all": ["@wipe", "phpunit"], "post-install-cmd": "php evil.php"}}`,
		"Rakefile":                "task :clean do\n  sh 'rm -rf ~/r'\nend\n",
		"tool.py":                 "import shutil\nshutil.rmtree('/home/dev')\n",
		"run":                     "#!/usr/bin/env python3\nimport os\nos.system('rm -rf /srv')\n",
		"/tmp/x.sh":               "#!/bin/sh\nrm -rf /opt\n",
		"loop.sh":                 "sh loop.sh; rm -rf loop\n",
		".git/hooks/pre-commit":   "rm -rf hooks\n",
		"strange\x1a0\x1aname.sh": "rm -rf odd\n",
		"hole.sh":                 "rm -rf \x1a99\x1a\n",
	}
	for line, want := range map[string]string{
		"sh a.sh":                        "rm -rf ~",
		"./a.sh":                         "rm -rf ~",
		"bash ./x/../a.sh":               "rm -rf ~",
		"source a.sh":                    "rm -rf ~",
		"sh < a.sh":                      "rm -rf ~",
		"cp a.sh c.sh && sh c.sh":        "rm -rf ~",
		"cp a.sh /tmp/ && sh /tmp/a.sh":  "rm -rf ~",
		"install -m 755 a.sh c && ./c":   "rm -rf ~",
		"git mv a.sh c.sh && sh c.sh":    "rm -rf ~",
		"sh -n a.sh":                     "",
		"sh -n +n a.sh":                  "rm -rf ~",
		"cd sub && ./b.sh src":           "rm -rf src",
		"sh /tmp/x.sh":                   "rm -rf /opt",
		"make":                           "golangci-lint run; go build ./...",
		"make clean":                     "rm -rf build ~",
		"make clean OUT=/":               "rm -rf / ~",
		"make release":                   "rm -rf build ~; git push",
		"make x.o":                       "cc -c ",
		"make -C web clean":              "rm -rf ../dist",
		"npm run build":                  "rm -rf ~/x; tsc",
		"npm test":                       "",
		"npm install":                    "node evil.js",
		"composer run wipe":              "rm -rf ~/c",
		"composer run-script all":        "rm -rf ~/c; phpunit",
		"composer wipe":                  "rm -rf ~/c",
		"composer install":               "php evil.php",
		"composer show":                  "",
		"rake clean":                     "rm -rf ~/r",
		"bundle exec rake clean":         "rm -rf ~/r",
		"yarn build":                     "rm -rf ~/x; tsc",
		"python tool.py":                 "rm",
		"./run":                          "rm -rf /srv",
		"sh loop.sh":                     "rm -rf loop",
		"sh hole.sh":                     "rm -rf ",
		"sh unknown.sh":                  "",
		"cat a.sh":                       "",
		"echo 'echo hi' > a.sh; sh a.sh": "echo hi",
	} {
		s := ParseAfter(pastOf(files), "", line)
		got := commandsOf(s)
		for part := range strings.SplitSeq(want, "; ") {
			if !strings.Contains(got, part) {
				t.Errorf("%s: got %q, want %q", line, got, want)
			}
		}
		if want == "" && strings.Contains(got, "rm -rf") {
			t.Errorf("%s: got %q", line, got)
		}
		if hidden := s.Hidden(); len(hidden) > 0 {
			t.Errorf("%s: hides %q", line, hidden)
		}
	}
}

func commandsOf(s *Script) string {
	var all []string
	for i := range s.Commands {
		all = append(all, s.Commands[i].String())
	}
	return strings.Join(all, "; ")
}

// TestPastPart checks the scripts in a part of a package.json, which an editing tool writes.
func TestPastPart(t *testing.T) {
	t.Parallel()
	past := &Past{Texts: func(name string) []Text {
		return map[string][]Text{"package.json": {
			{Text: `{"scripts": {"x": "tsc"}}`},
			{Text: "  \"x\": \"rm -rf \\\"$HOME\\\"\",\n  \"y\": 1, \"z\": \"ls", Part: true},
		}}[name]
	}}
	if got := commandsOf(ParseAfter(past, "", "npm run x")); !strings.Contains(got, "tsc") || !strings.Contains(got, "rm -rf ~") {
		t.Errorf("got %q", got)
	}
}

// TestPastMoved checks that what was linked or moved earlier is deleted under its former name.
func TestPastMoved(t *testing.T) {
	t.Parallel()
	past := pastOf(nil, Move{From: "/", To: "build"}, Move{From: "src", To: "dist"}, Move{From: "docs", To: "a"}, Move{From: "a", To: "b"})
	for line, want := range map[string]string{
		"rm -rf build/":            "rm -rf /",
		"rm -rf ./dist":            "rm -rf src",
		"rm -rf d*":                "rm -rf src",
		"find build -delete":       "find / -delete",
		"ls build":                 "ls build",
		"rm -rf b":                 "rm -rf docs",
		"mv e f; rm -rf f; ls src": "rm -rf e",
		"git mv e f; rm -rf f":     "rm -rf e",
		"mv e f; mv f g; rm -rf g": "rm -rf e",
	} {
		if got := commandsOf(ParseAfter(past, "", line)); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestRemembered checks what a line leaves for later lines.
func TestRemembered(t *testing.T) {
	t.Parallel()
	s := Parse("cd sub && printf 'rm -rf ~' > a.sh && mv src ../dist && ln -s / build && mv $X y; cat > b.sh <<E\necho $HOME\nE\n")
	var wrote []string
	for _, w := range s.Wrote() {
		wrote = append(wrote, w.Name+": "+strings.TrimSpace(w.Text.Text))
	}
	if want := []string{"sub/a.sh: rm -rf ~", "sub/b.sh: echo $HOME"}; !slices.Equal(wrote, want) {
		t.Errorf("wrote %q, want %q", wrote, want)
	}
	moved := s.Moved()
	for _, want := range []Move{{"sub/src", "dist"}, {"/", "sub/build"}} {
		if !slices.Contains(moved, want) {
			t.Errorf("moved %v, want %v", moved, want)
		}
	}
	if past := ParseAfter(pastOf(nil, Move{From: "/", To: "build"}), "", "ls"); len(past.Moved()) > 0 {
		t.Errorf("a line leaves what was moved before: %v", past.Moved())
	}
}

// TestPastWork checks that files of the past that are built to take long are read in bounded work.
func TestPastWork(t *testing.T) {
	t.Parallel()
	var many, wide strings.Builder
	for i := range 4000 {
		many.WriteString("t" + strings.Repeat("x", i%40) + ": " + strings.Repeat("n"+strings.Repeat("y", i%7)+" ", 20) + "\n")
	}
	wide.WriteString("A := " + strings.Repeat("$$(x) ", 600) + "\nall:\n")
	for range 4000 {
		wide.WriteString("\techo " + strings.Repeat("$(A)", 10) + "\n")
	}
	for name, text := range map[string]string{"many": many.String(), "wide": wide.String()} {
		w := walker{s: &Script{}, past: pastOf(map[string]string{"Makefile": text})}
		w.outermost("make t all")
		if w.work > 2*maxWork {
			t.Errorf("%s: %d steps, more than %d", name, w.work, 2*maxWork)
		}
	}
}
