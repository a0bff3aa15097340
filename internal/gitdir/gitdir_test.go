package gitdir

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// makeFiles writes files below a new directory. Names that end in a slash are directories.
func makeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		full := filepath.Join(dir, name)
		parent := filepath.Dir(full)
		if strings.HasSuffix(name, "/") {
			parent = full
		}
		if err := os.MkdirAll(parent, 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			continue
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// repository returns the files of a repository, and others.
func repository(more map[string]string) map[string]string {
	files := map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/heads/": "", "src/": ""}
	maps.Copy(files, more)
	return files
}

const hash = "0123456789012345678901234567890123456789"

func TestHead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files     map[string]string
		dir, want string
		wrong     string // a part of the error
	}{
		"a branch":              {dir: "src", want: "refs/heads/main"},
		"detached":              {files: map[string]string{".git/HEAD": hash + "\n"}},
		"a rebase":              {files: map[string]string{".git/HEAD": hash + "\n", ".git/rebase-merge/head-name": "refs/heads/topic\n"}, want: "refs/heads/topic"},
		"a rebase by patches":   {files: map[string]string{".git/HEAD": hash + "\n", ".git/rebase-apply/head-name": "refs/heads/topic\n"}, want: "refs/heads/topic"},
		"a detached rebase":     {files: map[string]string{".git/HEAD": hash + "\n", ".git/rebase-merge/head-name": "detached HEAD\n"}},
		"a symbolic reference":  {files: map[string]string{".git/refs/heads/main": "ref: refs/heads/trunk\n"}, want: "refs/heads/trunk"},
		"references in a ring":  {files: map[string]string{".git/refs/heads/main": "ref: refs/heads/main\n"}, wrong: "symbolic"},
		"a name outside":        {files: map[string]string{".git/HEAD": "ref: ../../x\n"}, wrong: "not the name"},
		"a reftable":            {files: map[string]string{".git/HEAD": "ref: refs/heads/.invalid\n"}, wrong: "reftable"},
		"a damaged HEAD":        {files: map[string]string{".git/HEAD": "main\n"}, wrong: "damaged"},
		"a large HEAD":          {files: map[string]string{".git/HEAD": strings.Repeat("x", maxSmall+1)}, wrong: "too large"},
		"a worktree":            {files: map[string]string{"wt/.git": "gitdir: ../.git/worktrees/wt\n", ".git/worktrees/wt/HEAD": "ref: refs/heads/topic\n", ".git/worktrees/wt/commondir": "../..\n"}, dir: "wt", want: "refs/heads/topic"},
		"a broken link":         {files: map[string]string{"wt/.git": "gitdir: /nowhere\n"}, dir: "wt", wrong: "not a git directory"},
		"no link":               {files: map[string]string{"wt/.git": "hello\n"}, dir: "wt", wrong: "does not name"},
		"a directory like .git": {files: map[string]string{"src/.git/HEAD": "ref: refs/heads/fake\n"}, dir: "src", want: "refs/heads/main"},
		"no directory":          {dir: "missing", wrong: "there is no directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := makeFiles(t, repository(test.files))
			repo, err := NewReader(dir).Find(filepath.Join(dir, test.dir))
			got := ""
			if err == nil {
				got, err = repo.Head()
			}
			if got != test.want || (err != nil) != (test.wrong != "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("Head() = %q, %v, want %q and an error with %q", got, err, test.want, test.wrong)
			}
		})
	}
}

func TestNoRepository(t *testing.T) {
	t.Parallel()
	dir := makeFiles(t, map[string]string{"src/": ""})
	if repo, err := NewReader(dir).Find(filepath.Join(dir, "src")); repo != nil || err != nil {
		t.Errorf("Find = %+v, %v, want nil, nil", repo, err)
	}
	if _, err := NewReader(dir).Find(filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Find of a missing directory: %v", err)
	}
}

// A Reader stops after some files, whatever the files name.
func TestReaderIsBounded(t *testing.T) {
	t.Parallel()
	dir := makeFiles(t, repository(map[string]string{".git/config": "[include]\n\tpath = config\n[include]\n\tpath = config\n"}))
	r := NewReader(dir)
	repo, err := r.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Config(repo, nil, nil); err == nil {
		t.Error("a configuration that includes itself twice has no error")
	}
	for range maxFiles {
		_, err = repo.Head()
	}
	if err == nil {
		t.Error("the Reader has no limit")
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	dir := makeFiles(t, repository(map[string]string{
		".gitconfig":  "[push]\n\tdefault = matching\n[include]\n\tpath = more\n[includeIf \"gitdir:~/\"]\n\tpath = here\n[includeIf \"onbranch:main\"]\n\tpath = main\n[includeIf \"gitdir:/other/\"]\n\tpath = other",
		"more":        "[A]\nb = \"x # y\" z ; comment\n\tC\n",
		"here":        "[here]\n\tis = yes",
		"main":        "[main]\n\tis = yes",
		"other":       "[other]\n\tis = yes",
		".git/config": "[remote \"o.x\"]\n\turl = u\n\tpush = a:b\n\tpush = c\\\nd\n[Branch \"Main\"] remote = o.x\n[s.Sub]\n\tk = \\\"q\\\"\n",
	}))
	r := NewReader(dir)
	repo, err := r.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Config(repo, []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=env.K", "GIT_CONFIG_VALUE_0=1"}, []string{"push.Default=upstream", "flag.on"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"push.default": "upstream", "a.b": "x # y z", "a.c": "true", "here.is": "yes", "main.is": "yes", "other.is": "", "branch.Main.remote": "o.x", "s.sub.k": `"q"`, "env.k": "1", "flag.on": "true",
	} {
		if got := c.Get(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if got := c.All("remote.o.x.push"); !slices.Equal(got, []string{"a:b", "cd"}) {
		t.Errorf("remote.o.x.push = %q", got)
	}
	if got := c.Remotes(); !slices.Equal(got, []string{"o.x"}) {
		t.Errorf("Remotes() = %q", got)
	}
	for _, env := range []string{"GIT_CONFIG_PARAMETERS='a=b'", "GIT_CONFIG_COUNT"} {
		if _, err := r.Config(repo, []string{env}, nil); err == nil {
			t.Errorf("%s has no error", env)
		}
	}
}

func TestPushed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		push   Push
		head   string
		config []string
		want   string // joined; "?" = an error
	}{
		"mirror":                {push: Push{Mirror: true}, want: "?"},
		"mirror by the remote":  {config: []string{"remote.origin.mirror=true"}, want: "?"},
		"prune":                 {push: Push{Remote: "o", Refspecs: []string{"refs/heads/*"}, Prune: true}, want: "?"},
		"every reference":       {push: Push{Remote: "o", Refspecs: []string{"refs/*:refs/*"}}, want: "?"},
		"detached":              {head: "-", want: ""},
		"detached HEAD":         {head: "-", push: Push{Remote: "o", Refspecs: []string{"HEAD"}}, want: ""},
		"nothing":               {config: []string{"push.default=nothing"}, want: ""},
		"a name of two kinds":   {push: Push{Remote: "o", Refspecs: []string{"x:heads/main"}}, want: "refs/heads/heads/main refs/heads/main"},
		"all":                   {push: Push{All: true}, want: "refs/heads/main refs/heads/old refs/heads/topic"},
		"all but one":           {push: Push{Remote: "o", Refspecs: []string{"^refs/heads/m*", "refs/heads/*"}}, want: "refs/heads/old refs/heads/topic"},
		"matching":              {config: []string{"push.default=matching"}, want: "refs/heads/main refs/heads/old refs/heads/topic"},
		"a packed branch":       {push: Push{Remote: "o", Refspecs: []string{"old"}}, want: "refs/heads/old"},
		"a remote of its own":   {config: []string{"branch.main.remote=far", "remote.far.push=HEAD:refs/heads/x"}, want: "refs/heads/x"},
		"the only remote":       {config: []string{"remote.only.url=u", "remote.only.push=HEAD:x"}, want: "refs/heads/x"},
		"no upstream":           {config: []string{"push.default=upstream"}, want: "refs/heads/main"},
		"tracking":              {config: []string{"push.default=tracking", "branch.main.merge=refs/heads/x"}, want: "refs/heads/x"},
		"an empty value resets": {config: []string{"remote.origin.push=HEAD:x", "remote.origin.push="}, want: "refs/heads/main"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := makeFiles(t, repository(map[string]string{".git/refs/heads/main": hash, ".git/refs/heads/topic": hash, ".git/packed-refs": "# pack-refs\n" + hash + " refs/heads/old\n^" + hash + "\n"}))
			r := NewReader(dir)
			repo, err := r.Find(dir)
			if err != nil {
				t.Fatal(err)
			}
			config, err := r.Config(repo, []string{"GIT_CONFIG_NOSYSTEM=1"}, test.config)
			if err != nil {
				t.Fatal(err)
			}
			head := "refs/heads/main"
			if test.head == "-" {
				head = ""
			}
			refs, err := repo.Pushed(test.push, head, config)
			got := strings.Join(refs, " ")
			if err != nil {
				got = "?"
			}
			if got != test.want {
				t.Errorf("Pushed(%+v) = %q (%v), want %q", test.push, got, err, test.want)
			}
		})
	}
	if refs, err := (*Repo)(nil).Pushed(Push{Remote: "o", Refspecs: []string{"HEAD:main"}}, "", &Config{}); !slices.Equal(refs, []string{"refs/heads/main"}) || err != nil {
		t.Errorf("without a repository: %q, %v", refs, err)
	}
	if _, err := (*Repo)(nil).Pushed(Push{}, "", &Config{}); err == nil {
		t.Error("a push by default of an unknown repository has no error")
	}
}

func TestEarlier(t *testing.T) {
	t.Parallel()
	line := hash + " " + hash + " t <t@t> 1 +0000\t"
	dir := makeFiles(t, repository(map[string]string{".git/logs/HEAD": line + "commit: x\n" + line + "checkout: moving from a to b\n" + line + "commit: checkout: moving from x to y\n" + line + "checkout: moving from b to main\n"}))
	repo, err := NewReader(dir).Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{1: "b", 2: "a", 3: ""} {
		if got, err := repo.Earlier(n); got != want || (err != nil) != (want == "") {
			t.Errorf("Earlier(%d) = %q, %v, want %q", n, got, err, want)
		}
	}
}

// Files with any content give an answer or an error.
func FuzzRead(f *testing.F) {
	f.Add("ref: refs/heads/main\n", "[push]\n\tdefault = upstream\n", hash+" refs/heads/x\n", "+a:b")
	f.Add("", "[a \"b", "x", "refs/*/x*:y*z")
	f.Add("gitdir: .", "[include]\npath = config\n[x]\ny = \\", "# \n^", "^a\x00:")
	f.Fuzz(func(t *testing.T, head, config, packed, spec string) {
		dir := makeFiles(t, repository(map[string]string{".git/HEAD": head, ".git/config": config, ".git/packed-refs": packed, ".git/logs/HEAD": head, "wt/.git": head}))
		r := NewReader(dir)
		for _, at := range []string{dir, filepath.Join(dir, "wt")} {
			repo, err := r.Find(at)
			if err != nil || repo == nil {
				continue
			}
			ref, _ := repo.Head()
			_, _ = repo.Earlier(1)
			c, err := r.Config(repo, []string{"GIT_CONFIG_NOSYSTEM=1"}, []string{spec})
			if err != nil {
				continue
			}
			for _, push := range []Push{{}, {Remote: spec, Refspecs: []string{spec, spec}}, {Refspecs: []string{spec}, Delete: true}, {Tags: true, All: true}} {
				_, _ = repo.Pushed(push, ref, c)
			}
		}
	})
}
