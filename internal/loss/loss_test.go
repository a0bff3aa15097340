package loss

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// project writes files into a new directory without symbolic links in its path. A name that ends in a
// slash is a directory, and a text that begins with -> is a link.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		at := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(at), 0o700)
		switch to, link := strings.CutPrefix(text, "->"); {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o700)
		case link:
			err = os.Symlink(to, at)
		default:
			err = os.WriteFile(at, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTree(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".gitignore": "node_modules/\ndist\nuploads/\n*.sqlite\nbuild/*\n!build/.gitkeep\npy\ncachedir\n",
		"src/a.go": "", "dist/a.js": "", "uploads/1.png": "", "dev.sqlite": "", "build/.gitkeep": "", "build/a.o": "", "node_modules/a/index.js": "",
		"lib/build/keep.go": "", "empty/": "", "link": "->src", "py/pyvenv.cfg": "", "cachedir/CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n",
		"vendor/x/.git/HEAD": "", "wt/.git": "gitdir: elsewhere\n", "made/a.go": "", "web/.gitignore": "dist\n", "web/out/a.js": "", "web/dist/a.js": "",
	})
	p := &Place{
		Root: root, Home: "/home/dev",
		Made:  func(path string) bool { return strings.HasPrefix(path, filepath.Join(root, "made")) },
		Wrote: func(path string) bool { return path == filepath.Join(root, "web", ".gitignore") },
	}
	for name, want := range map[string]Class{
		"src": Project, "src/a.go": Project, "dist": Rebuilt, "node_modules": Rebuilt, "node_modules/a": Rebuilt, "uploads": Ignored, "uploads/1.png": Ignored,
		"dev.sqlite": Ignored, "build": Rebuilt, "lib/build": Project, "empty": Rebuilt, "link": Project, "py": Rebuilt, "cachedir": Rebuilt,
		"vendor/x": Repository, ".git": Repository, ".git/objects": Repository, ".git/rebase-merge": Rebuilt, "wt": Project, "made": Session, "made/deep/er": Session,
		"web/dist": Rebuilt /* the file above has it, too */, "web/out": Project, "nothing": Unknown, "nothing/coverage": Rebuilt, "dist/../src": Project, ".": Root, "..": Temporary,
	} {
		if got := p.Tree(filepath.Join(root, name)); got != want {
			t.Errorf("%s: got %v, want %v", name, got.Words(), want.Words())
		}
	}
}

func TestWhere(t *testing.T) {
	t.Parallel()
	p := &Place{Root: "/home/dev/shop", Home: "/home/dev"}
	for name, want := range map[string]Class{
		"/home/dev/shop": Root, "/home/dev/shop/a": Project, "/home/dev": Home, "/home": System, "/": System, "/home/dev/Pictures": Home, "/home/dev/.ssh/x": Home,
		"/home/dev/.cache/pip": Temporary, "/home/dev/tmp/x": Temporary, "/home/dev/go/pkg/mod": Temporary, "/home/dev/other/src": Outside, "/home/dev/other/dist": Elsewhere,
		"/home/dev/shopping": Home, "/home/ann": Home, "/home/ann/shop": Outside, "/tmp": System, "/tmp/x": Temporary, "/var/tmp/x": Temporary, "/var/lib/x/y": System,
		"/var/www/shop": Outside, "/var/lib/apt/lists/x": Temporary, "/usr/local/go": Temporary, "/usr/lib/x": System, "/etc": System, "/etc/dist": System, "/builds/g/p/old": Outside,
		"/srv": System, "/srv/shop/old": Outside, "/app/dist": Rebuilt, "/app/src": Outside, "C:/Users/dev": Home, "C:/": System, "C:/Windows/x": System, "D:/shop/dist": Elsewhere,
	} {
		if got := p.Where(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got.Words(), want.Words())
		}
	}
	for root, want := range map[string]Class{"/home/dev": Home, "/": Home, "/home": Home} { // no project: the home directory is in it
		if got := (&Place{Root: root, Home: "/home/dev"}).Where("/home/dev/Pictures"); got != want {
			t.Errorf("root %s: got %v, want %v", root, got.Words(), want.Words())
		}
	}
	if got := (&Place{Root: "/home/dev/shop/web", Home: "/home/dev"}).Where("/home/dev/shop"); got != Root {
		t.Errorf("above the root: got %v", got.Words())
	}
}

func TestContents(t *testing.T) {
	t.Parallel()
	root := project(t, map[string]string{
		".git/HEAD": "", ".gitignore": "dist\n", "src/a.go": "", "src/b.go": "", "src/c.md": "", "src/.hidden": "", "a.log": "", "b.log": "",
		"web/dist/a": "", "api/dist/a": "", "web/src/a": "", "one/x.sql": "", "Tmp{1}/a": "",
	})
	for _, tt := range []struct {
		pattern string
		tree    bool
		want    Class
	}{
		{"*", true, Root},
		{"*", false, Rebuilt},
		{"src/*", true, Project},
		{"src/*.go", false, Project},
		{"src/*.md", false, 0},
		{"src/*.go", true, Project},
		{"*/dist", true, Rebuilt},
		{"*/src", true, Project},
		{"*.log", false, Rebuilt},
		{"no*", true, Unknown},
		{"no*", false, 0},
		{"dist-*", true, Rebuilt},
		{"[sw]*", true, Project},
		{"one/*.sql", false, 0},
		{"Tmp{1}/*", false, 0},
	} {
		p := &Place{Root: root, Home: "/home/dev"}
		if got := p.Contents(filepath.Join(root, tt.pattern), tt.tree); got != tt.want {
			t.Errorf("%s, tree %v: got %v, want %v", tt.pattern, tt.tree, got.Words(), tt.want.Words())
		}
	}
	for names, want := range map[string]Class{"*.go": Project, "dist": Rebuilt, "*.md": 0, "dist src": Rebuilt | Project, ".git": Repository, "*.pyc": Rebuilt, "*.rs": 0} {
		p := &Place{Root: root, Home: "/home/dev"}
		if got := p.Below(root, strings.Fields(names), true); got&^Project != want&^Project || names != "*.md" && got != want {
			t.Errorf("find %s: got %v, want %v", names, got.Words(), want.Words())
		}
	}
}

// TestManyEntries checks that a large directory is a question, and that the work ends.
func TestManyEntries(t *testing.T) {
	t.Parallel()
	files := map[string]string{".git/HEAD": "", ".gitignore": "*\n"}
	for i := range 300 {
		files[fmt.Sprintf("a/%03d.pyc", i)] = ""
	}
	root := project(t, files)
	p := &Place{Root: root, Home: "/home/dev", read: MaxEntries - 100}
	if got := p.Below(root, []string{"x.go"}, false); got != Project {
		t.Errorf("got %v, want project", got.Words())
	}
	if p.read > MaxEntries+2 {
		t.Errorf("read %d entries, more than %d", p.read, MaxEntries)
	}
}

func TestRemade(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"dist": true, "./dist/": true, "packages/web/dist": true, "dist/../src": false, "src": false, "public/assets": true, "assets": false, "$TMPDIR/x": true, "${TMPDIR:-/tmp}/build.$$": true,
		"$(mktemp -d)": true, "$HOME": false, "$DIR": false, "$DIR/dist": true, "$DIR/src": false, "$TMP/../etc": false, "$tmp_home": false, "$BUILD_DIR": true, "": false, "a.log": true,
	} {
		if got := Remade(text); got != want {
			t.Errorf("Remade(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	if got := Of(Words()).Words(); !slices.Equal(got, Words()) || Of([]string{"unknown"}) != Unknown {
		t.Errorf("got %v", got)
	}
}

// FuzzIgnore checks that no .gitignore file makes the reader fail.
func FuzzIgnore(f *testing.F) {
	f.Add("a/**\n!b\n\\#c\n[", "a/b")
	f.Fuzz(func(t *testing.T, text, name string) {
		p := &Place{ignores: map[string][]ignoreRule{"/r": parseIgnore(text)}}
		p.ignored("/r", filepath.Join("/r", name), true)
	})
}

// TestSourcesByPattern checks patterns in a project that does not exist on this machine, where only the
// names show what is lost.
func TestSourcesByPattern(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "none")
	p := &Place{Root: root}
	for pattern, want := range map[string]Class{"*.go": Project, "src/*.ts": Project, "**/*.sql": Project, "*.pyc": 0, "*.test.ts": 0, "*.md": 0, "*": 0, "*.": 0} {
		if got := p.Contents(filepath.Join(root, pattern), false); got != want {
			t.Errorf("rm %s: %v, want %v", pattern, got.Words(), want.Words())
		}
	}
	for pattern, want := range map[string]Class{"*.go": Project, "*.orig": Rebuilt, "x.go": 0} {
		if got := p.Below(root, []string{pattern}, false); got != want {
			t.Errorf("find -name %s: %v, want %v", pattern, got.Words(), want.Words())
		}
	}
	exists := &Place{Root: project(t, map[string]string{"src/a.ts": ""})}
	if got := exists.Contents(filepath.Join(exists.Root, "*.go"), false); got != 0 {
		t.Errorf("nothing that matches exists: %v", got.Words())
	}
}
