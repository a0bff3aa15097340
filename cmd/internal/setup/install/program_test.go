package install

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A link on PATH stays, also if the user typed the versioned path behind it. Other programs of
// the same name are not taken.
func TestFindHook(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	mkdir := func(dir string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, place := range []string{"Cellar/grapnel/0.1.0/bin", "plain/bin", "other"} {
		mkdir(at(place))
		for _, name := range []string{"grapnel", hookProgram} {
			if err := os.WriteFile(at(place, name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	mkdir(at("lone"))
	if err := os.WriteFile(at("lone", "grapnel"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	mkdir(at("bin"))
	for from, to := range map[string]string{
		"bin/grapnel": "../Cellar/grapnel/0.1.0/bin/grapnel", "bin/" + hookProgram: "../Cellar/grapnel/0.1.0/bin/" + hookProgram, "latest": "Cellar/grapnel/0.1.0",
	} {
		if err := os.Symlink(to, at(from)); err != nil {
			t.Fatal(err)
		}
	}
	keg := at("Cellar/grapnel/0.1.0/bin")
	list := func(dirs ...string) string {
		var path string
		for i, d := range dirs {
			if i > 0 {
				path += string(filepath.ListSeparator)
			}
			path += d
		}
		return path
	}
	for name, tt := range map[string]struct{ self, typed, path, want string }{
		"on PATH":                  {keg, "grapnel", list(at("other"), at("bin")), at("bin")},
		"the link was typed":       {keg, at("bin", "grapnel"), "", at("bin")},
		"the version was typed":    {keg, filepath.Join(keg, "grapnel"), list(at("bin")), at("bin")},
		"a directory is the link":  {keg, "grapnel", list(keg, at("latest/bin")), at("latest/bin")},
		"no link":                  {keg, "grapnel", list(keg), keg},
		"neither typed nor PATH":   {keg, "", "", keg},
		"a relative directory":     {keg, "grapnel", "bin", keg},
		"another program is first": {at("plain/bin"), "grapnel", list(at("other")), at("plain/bin")},
		"no version":               {at("plain/bin"), at("plain/bin/grapnel"), list(at("bin")), at("plain/bin")},
	} {
		got, err := findHook(filepath.Join(tt.self, "grapnel"), tt.typed, tt.path)
		if want := filepath.Join(tt.want, hookProgram); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	if got, err := findHook(at("lone", "grapnel"), "grapnel", list(at("bin"))); err == nil {
		t.Errorf("without grapnel-hook: %s", got)
	}

	stable, version := at("bin", hookProgram), filepath.Join(keg, hookProgram)
	for _, tt := range []struct {
		recorded, now string
		want          bool
	}{
		{stable, version, true}, {version, stable, false}, {version, version, true}, {stable, at("other", hookProgram), false}, {at("gone"), stable, false},
	} {
		if got := SameProgram(tt.recorded, tt.now); got != tt.want {
			t.Errorf("SameProgram(%s, %s) = %v", tt.recorded, tt.now, got)
		}
	}
}
