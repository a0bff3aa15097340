package shell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/shell"
)

// allowed reports whether an allow with these patterns lets a line pass.
func allowed(t *testing.T, s *shell.Script, sources ...string) bool {
	t.Helper()
	patterns := make([]*shell.Pattern, len(sources))
	for i, source := range sources {
		p, err := shell.Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		patterns[i] = p
	}
	for i := range s.Commands {
		if !shell.Allows(patterns, s, i) {
			return false
		}
	}
	return len(s.Commands) > 0 && len(s.Unknown) == 0 && len(s.Writes) == 0 && !s.SetsVariables()
}

// usual are the patterns of the example in docs/policy.md.
var usual = []string{"git status", "git diff", "git log", "go test"}

// An allow suppresses the agent's own prompt. What makes a block match more must not make an allow
// match more: issue W1.
func TestAllows(t *testing.T) {
	t.Parallel()
	for class, tt := range map[string]struct {
		patterns []string
		yes, no  []string
	}{
		"usual": {yes: []string{
			"git status", "git status -s", "git status -sb", "git status --short --branch", "git diff --stat HEAD~1", "git diff -- a.go", "git log --oneline -5",
			"git log -p", "git log -n 5 --author=me", "git --no-pager log --graph --all", "git log --no-color", "git -P diff --no-ext-diff -U3", "git log --since '2 days ago'",
			"go test ./...", "go test -race -count=1 -run TestX ./pkg", "go test -v -timeout 30s ./...", "git status && git diff", "git status; git log | git diff",
			`git diff "a b.go"`, "git diff src/*.go", "git diff 'HEAD~1' -- src", "(git status)", "! git status", `git log --author="$USER"`, `g'it' status`, `\git status`,
		}},
		"program": {no: []string{
			"./git status", "bin/git status", "/tmp/git status", "/usr/bin/git status", "../git status", "~/git status", "GIT status", "git.exe status", "=git status",
			"git@2 status", "$HOME/git status", "$(which git) status", "X=git; $X status", "gi? status",
		}},
		"path": {patterns: []string{"/usr/bin/git status", "./gradlew build"}, yes: []string{"/usr/bin/git status", "/usr/bin/git status -s", "./gradlew build"}, no: []string{
			"git status", "/usr/bin/../bin/git status", "/usr//bin/git status", "/bin/git status", "gradlew build", "/tmp/gradlew build", "../gradlew build", "sub/./gradlew build",
		}},
		"glob": {patterns: []string{"g* status", "/usr/bin/* status"}, yes: []string{"git status", "/usr/bin/git status"}, no: []string{"/tmp/git status", "/usr/bin/../../tmp/git status"}},
		"wrappers": {no: []string{
			"sudo git status", "env git status", "env PATH=. git status", "timeout 5 git status", "nice git status", "xargs git status", "sh -c 'git status'", "command git status",
			"exec git status", "time git status", "eval git status", "nohup git status", "find . -exec git status \\;", "busybox git status", "npx git status",
		}},
		"assignments": {yes: []string{
			"LC_ALL=C git log", "LANG=en_US.UTF-8 git log", "CI=1 go test ./...", "NO_COLOR= git status", "TZ=America/New_York git log", "GOOS=linux GOARCH=arm64 go test ./...",
			"GIT_TERMINAL_PROMPT=0 git status", "LC_ALL='C' git log", "x=1; git status", "for i in 1 2 3; do go test ./...; done",
		}, no: []string{
			"LD_PRELOAD=./x.so git status", "PATH=.:$PATH git status", "DYLD_INSERT_LIBRARIES=./x git status", "GIT_CONFIG_GLOBAL=./evil.cfg git status", "GIT_DIR=./evil git status",
			"GOFLAGS=-toolexec=./x go test ./...", `GOFLAGS="-exec=./x" go test`, "PATH=.; git status", "export PATH=.; git status", "declare -x PATH=.; git status", "PATH+=:. git status",
			"for PATH in .; do git status; done", "for path in .; do git status; done", "path=(.); git status", "git diff ./${GIT_DIR:=x}", "git diff ./$((PATH=1))", "git status {PATH}<f",
			"LC_ALL=/tmp/x git log", "TZ=:/tmp/x git log", "LANGUAGE=../x git log", "LANG=$X git log", "LANG=$(git log) git log", "LANG=(x) git log", "CGO_ENABLED=1 go test", "CC=./x go test",
			"GIT_PAGER=./x git log", "PAGER=less git log", "FOO=bar git status", "CI=1 PATH=. git status", "HOME=. git status", "git status && PATH=. git diff", "(PATH=.; git status)",
			"(( PATH=1 )); git status", "XDG_CONFIG_HOME=. git status",
		}},
		"git options": {no: []string{
			"git --exec-path=./evil status", "git --git-dir=./evil/.git status", "git --git-dir ./evil status", "git --work-tree=. status", "git -c core.pager=x log", "git -ccore.pager=x log",
			"git --config-env=core.pager=X log", "git -C evil status", "git -p status", "git --namespace=x status", "git diff --output=.bashrc", "git log --output=FILE", "git log --output FILE",
			"git log --outp=FILE", "git diff --ext-diff", "git diff --ext", "git diff --textconv", "git diff -Oorder", "git diff --no-index /etc/passwd x", "git log --pretty --output=x",
			"git log --grep --output=x", "git log --grep -- --output=x", "git log -n 1 --o=x", "git status --frobnicate", "git log --no-no-ext-diff", "git diff --no-x",
		}},
		"computed options": {no: []string{
			"git diff $X", `git diff "$X"`, "git diff *", "git diff -- *", "git diff ?a", "git log -n $X", "git diff --$X", "git diff -$X", "git diff a$X", "git diff {--output=x,b}", "git log $(git diff)",
			"git log --author $X", "git log --author *", `git log "$(git diff)"`, "git log a$(git log --format=%s)", "git log --author=a$(git log)", "git log `git log`",
		}},
		"go options": {no: []string{
			"go test -exec ./x", "go test -exec=./x", "go test --exec ./x", "go test -toolexec=./x", "go test -o x", "go test -c", "go -C evil test", "go test -C evil", "go test -modfile=x ./...",
			"go test -overlay x.json", "go test -vettool=./x", "go test -ldflags=-X ./...", "go test -gcflags=x", "go test -cpuprofile=x", "go test -coverprofile .bashrc", "go test -outputdir=/",
			"go test -trace=x", "go test -args -test.trace=x", "go test -mod=mod", "go test -run -args", "go test -asmflags=x", "go test -memprofile x", "go test -test.trace=x",
		}},
		"named options": {
			patterns: []string{"git -C sub status", "git diff --output=out.txt", "sort -o out.txt", "sed -i", "curl -o out.txt", "mytool --deep -q"},
			yes:      []string{"git -C sub status", "git -C sub status -s", "git diff --output=out.txt", "git diff --stat --output out.txt", "sort -u -o out.txt a", "sed -i s/a/b/ f", "curl -o out.txt https://a.b", "mytool -q --deep"},
			no:       []string{"git -C evil status", "git status", "git diff --output=x", "sort -o x a", "sort -o out.txt -o x a", "curl -o out.txt -K x", "mytool -q --deep -v", "mytool -qv --deep"},
		},
		"other programs of the table": {
			patterns: []string{"npm test", "npm run", "make", "cargo test", "find", "sed", "sort", "uniq", "rg", "grep", "cat", "head", "ls", "jq", "fd", "kubectl get", "docker ps", "docker compose logs", "python3", "tar", "curl", "git push", "date", "pwd", "echo", "test", "terraform plan", "gh pr view", "git reflog"},
			yes: []string{
				"npm test", "npm run build -s", "npm run build --workspace web", "make -j8 all", "make test", "cargo test --release", "cargo test -p x", "find . -name '*.go' -type f", "sed -n 1,5p f", "sed -n '/a/,/b/p' f",
				"sed 's/a/b/' web", "sort -u f", "sort -k2 -t, f", "uniq -c f", "rg -n -i x src", "rg -tgo x", "grep -rn x .", "cat -n f", "head -20 f", "head -n 20 f", "ls -la", "jq -r .a f", "fd -e go", "kubectl get pods -n x -o yaml", "docker ps -a",
				"docker compose logs -f web", "git push origin main", "git push -u origin x", "date -u +%F", "pwd", "echo -n x", "test -f x", "terraform plan -no-color", "gh pr view 12 --json title", "cat ~/x", "python3 x.py",
				"git reflog -5",
			},
			no: []string{
				"npm --prefix evil test", "npm test --script-shell=./x", "npm --userconfig=x test", "npm --globalconfig x run y", "npm -C evil test", "npm test -- --watch", "make -f evil", "make -C evil", "make SHELL=./x", "make CC=./x all",
				"make --eval=x", "make -fevil", "cargo --config x test", "cargo test --config x=1", "cargo test --manifest-path x", "cargo test --target-dir x", "cargo -Z x test", "cargo +evil test", "cargo test --target x.json", "cargo test -- --logfile x",
				"find . -exec rm {} +", "find . -delete", "find . -fprint x", "find . -ok rm {} +", "find . -execdir x \\;", "sed -i s/a/b/ f", "sed -n 'w x' f", "sed -n 's/[/]/c/w x' f", `sed -n '\,a,w x' f`, "sed -n '1{p;w x' -e '}' f", `sed -n "1,${N}p" f`, "sed --expression='1e x' f", "sed -e p -ewx f", "sed s/a/b/e f", "sed -f x f", "sort -o x f", "sort --compress-program=./x f", "sort -T x f", "uniq a b",
				"rg --pre ./x y", "rg --hostname-bin=./x y", "rg -z x", "fd -x rm", "fd -X rm", "kubectl --kubeconfig=x get pods", "kubectl get pods --context prod", "docker -H x ps", "docker --config x ps",
				"docker compose -f evil.yml logs", "docker-compose logs", "python3 -c 'x'", "python3 -m x", "tar -xf a --to-command=./x", "tar -I ./x -xf a", "curl -o .bashrc https://a.b", "curl -K x https://a.b", "curl -T x https://a.b",
				"git push --force", "git push origin +main", "git push --receive-pack=./x", "git push --no-verify", "date -s 1", "terraform plan -out=x", "terraform -chdir=x plan", "gh pr view 12 --web", "jq -L x . f", "jq -f x f", "ls --hyperlink",
				"git reflog expire --expire=now --all",
			},
		},
		"programs outside of the table": {
			patterns: []string{"mytool status", "other"},
			yes:      []string{"mytool status", "other", "other a b"},
			no:       []string{"mytool status -v", "mytool --verbose status", "mytool status other", "mytool -c x status", "other --x", "other a -x", "other $X", "other *", "other -- -x"},
		},
		"settings of wrappers": {
			patterns: []string{"env", "git status", "sudo"},
			yes:      []string{"env git status", "env LC_ALL=C git status", "sudo git status -s"},
			no:       []string{"env PATH=. git status", "env -- PATH=. git status", "env LC_ALL=C PATH=. git status", "env -S 'x' git status", "env -C x git status", "env -u X git status", "sudo -u x git status", "sudo LD_PRELOAD=x git status", "sudo ./git status"},
		},
		"shell": {
			patterns: []string{"git status", "cd", "export", "alias", "hash", "printf"},
			yes:      []string{"cd sub && git status", "printf %s x && git status"},
			no:       []string{"export PATH=.; git status", "alias git=./x; git status", "hash -p ./x git; git status", "printf -v PATH .; git status", "git status > x", "git status | sh"},
		},
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			patterns := tt.patterns
			if patterns == nil {
				patterns = usual
			}
			for _, line := range append(slices.Clone(tt.yes), tt.no...) {
				if want, got := slices.Contains(tt.yes, line), allowed(t, shell.Parse(line), patterns...); got != want {
					t.Errorf("%q allows %q: %v, want %v", strings.Join(patterns, ", "), line, got, want)
				}
			}
		})
	}
}

// Lines of PowerShell and cmd.exe set variables in their own ways.
func TestAllowsInOtherShells(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		language, line string
		want           bool
	}{
		{"powershell", "git status", true},
		{"powershell", "git log -5; git diff", true},
		{"powershell", `$env:PATH = "."; git status`, false},
		{"powershell", `$env:PATH=".;$env:PATH"; git status`, false},
		{"powershell", `${env:PATH} = "."; git status`, false},
		{"powershell", `$env:PATH += ";."; git status`, false},
		{"powershell", "[Environment]::SetEnvironmentVariable('PATH', '.'); git status", false},
		{"powershell", "Set-Item env:PATH .; git status", false},
		{"powershell", `.\git status`, false},
		{"cmd", "git status", true},
		{"cmd", "set PATH=.& git status", false},
		{"cmd", `.\git status`, false},
	} {
		if got := allowed(t, shell.ParseAs(tt.language, tt.line), usual...); got != tt.want {
			t.Errorf("allows %q in %s: %v, want %v", tt.line, tt.language, got, tt.want)
		}
	}
}

func TestKnowsOptions(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		"git status": true, "git": true, "git frobnicate": false, "go test": true, "npm run build": true, "mytool": false, "mytool status": false, "ls": true, "docker compose ps": true,
		"./gradlew build": false, "*": true, "sudo mytool": false, "sudo git log": true, "cat README.md": true, "tar": false, "cargo test": true, "cargo frobnicate": false, "pytest tests": true, "ruff frobnicate": false, "make test": true,
	} {
		p, err := shell.Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.KnowsOptions(); got != want {
			t.Errorf("%q: %v, want %v", pattern, got, want)
		}
	}
}
