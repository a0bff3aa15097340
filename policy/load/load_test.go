package load_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy/load"
)

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file that exists but has no valid content blocks.
func TestLoadOfOddFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "big"), blockAll+strings.Repeat("# padding\n", 430_000))
	put(t, filepath.Join(dir, "file"), "")
	if err := os.Symlink(filepath.Join(dir, "none"), filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"big":      "more than 4194304",
		"file":     "the file is empty",
		"file/x":   "cannot be read",
		"dangling": "is a link to a file that does not exist",
	} {
		set, e := loadFile(t, filepath.Join(dir, name), "", false)
		if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), want) {
			t.Errorf("%s: %v %q, want a block that says %q", name, v.Decision, v.Reason(), want)
		}
		if got := set.Files[0].State; got != load.Broken {
			t.Errorf("%s: state %s, want broken", name, got)
		}
	}
}

func TestLoadOfForeignLineEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"crlf": strings.ReplaceAll(blockAll, "\n", "\r\n"), "bom": "\ufeff" + blockAll, "no end": strings.TrimSpace(blockAll),
	} {
		file := filepath.Join(dir, name)
		put(t, file, text)
		set, e := loadFile(t, file, "", false)
		if v := e.Fire(context.Background(), fixture.Shell("touch x")); v.Decision != grapnel.Block || v.Reason() != "no touching" {
			t.Errorf("%s: %v %q (%v), want the rule's block", name, v.Decision, v.Reason(), set.Files[0].Errors)
		}
	}
}

// A snapshot that is truncated, empty or of another version is not used; the file is read
// instead.
func TestLoadDoesNotTrustOddSnapshots(t *testing.T) {
	t.Parallel()
	const format, layout = "snapshot 8 ", 16 // the layout has this many bytes
	policyAt := func(s string) int { return strings.Index(s, format) + len(format) + layout }
	for name, spoil := range map[string]func(string) string{
		"empty":          func(string) string { return "" },
		"torn":           func(s string) string { return s[:len(s)/2] },
		"no policy":      func(s string) string { return s[:policyAt(s)] },
		"a foreign file": func(s string) string { return s[:policyAt(s)] + "\x01\x00\x00\x00" + s[policyAt(s)+1:] },
		"another format": func(s string) string { return strings.Replace(s, format, "snapshot 6 ", 1) },
		"another layout": func(s string) string {
			at := strings.Index(s, format) + len(format)
			return s[:at] + "x" + s[at+1:]
		},
		"more behind": func(s string) string { return s + `{}` },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
			put(t, file, blockAll)
			loadFile(t, file, snaps, false)
			kept, _ := filepath.Glob(filepath.Join(snaps, "*.snap"))
			if len(kept) != 1 {
				t.Fatalf("%d snapshots, want 1", len(kept))
			}
			data, err := os.ReadFile(kept[0])
			if err != nil {
				t.Fatal(err)
			}
			data = load.CheckChecksum(data)
			spoilt := spoil(string(data))
			if spoilt == string(data) {
				t.Fatal("nothing was spoilt")
			}
			put(t, kept[0], string(load.AddChecksum([]byte(spoilt))))
			_, e := loadFile(t, file, snaps, false)
			if v := e.Fire(context.Background(), fixture.Shell("touch x")); v.Decision != grapnel.Block || v.Reason() != "no touching" {
				t.Errorf("%v %q, want the rule's block", v.Decision, v.Reason())
			}
		})
	}
}

// Files with the same content, as in two worktrees, share a snapshot, and none seems to be damaged.
func TestSameContentTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	snaps := filepath.Join(dir, "state")
	text := "version: 1\nhooks: [{name: x, on: tool.before, match: {command: touch}, block: no}]\n" + strings.Repeat("# what is short is read anew\n", 50)
	for range 2 {
		for _, name := range []string{"one", "two"} {
			file := filepath.Join(dir, name, "p.yaml")
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, file, text)
			loadFile(t, file, snaps, false)
		}
		if found := load.CheckIntegrity(snaps, ""); len(found) > 0 {
			t.Errorf("%+v", found)
		}
	}
	if kept, _ := filepath.Glob(filepath.Join(snaps, "*.snap")); len(kept) != 1 {
		t.Errorf("snapshots %q", kept)
	}
}

// Editing a snapshot by hand removes no rule: the file is used. Doctor detects a snapshot with
// a forged checksum.
func TestEditedSnapshots(t *testing.T) {
	t.Parallel()
	edit := func(s string) string { return strings.ReplaceAll(s, "touch", "tooch") }
	for name, test := range map[string]struct {
		edit    func(kept string) string
		want    grapnel.Decision
		wantErr string
	}{
		"as it was":  {func(s string) string { return s }, grapnel.Block, ""},
		"edited":     {edit, grapnel.Block, "is damaged"},
		"one letter": {func(s string) string { return s[:len(s)/3] + "~" + s[len(s)/3+1:] }, grapnel.Block, "is damaged"},
		"no seal":    {func(s string) string { return string(load.CheckChecksum([]byte(s))) }, grapnel.Block, "is damaged"},
		"empty":      {func(string) string { return "" }, grapnel.Block, "is damaged"},
		"sealed again": {
			func(s string) string {
				return string(load.AddChecksum([]byte(edit(string(load.CheckChecksum([]byte(s)))))))
			},
			grapnel.None, "differs from the file",
		},
		"index sealed again": {
			func(s string) string {
				return string(load.AddChecksum([]byte(strings.Replace(string(load.CheckChecksum([]byte(s))), "touch", "tooch", 1))))
			},
			grapnel.Block, "differs from the file", // only a load for one event uses the index
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
			put(t, file, "version: 1\nhooks: [{name: x, on: tool.before, match: {command: touch}, block: no}]\n"+
				strings.Repeat("# what is short is read anew\n", 50))
			loadFile(t, file, snaps, false)
			kept, _ := filepath.Glob(filepath.Join(snaps, "*.snap"))
			data, err := os.ReadFile(kept[0])
			if err != nil || len(kept) != 1 {
				t.Fatal(kept, err)
			}
			put(t, kept[0], test.edit(string(data)))
			found := load.CheckIntegrity(snaps, "")
			if text := fmt.Sprint(found); (test.wantErr == "") != (len(found) == 0) || !strings.Contains(text, test.wantErr) {
				t.Errorf("%v, want that it %s", found, test.wantErr)
			}
			_, e := loadFile(t, file, snaps, false)
			if v := e.Fire(context.Background(), fixture.Shell("touch x")); v.Decision != test.want {
				t.Errorf("%v, want %v", v.Decision, test.want)
			}
		})
	}
}

// A pinned content is used exactly or not at all. The file's last content never replaces it.
func TestLoadFrozen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	put(t, file, blockAll)
	set, _ := loadFile(t, file, snaps, false)
	old := set.Files[0].Digest
	put(t, file, blockAll+"# changed\n")
	loadFile(t, file, snaps, false)
	frozen := func() load.Set {
		return load.Policies(load.Request{Files: []load.File{{Path: file, Must: true}}, Snapshots: snaps, Frozen: map[string]string{file: old}})
	}
	if got := frozen(); got.Files[0].Digest != old || got.Specs[0].Source.Digest != old {
		t.Errorf("digest %s, want %s", got.Files[0].Digest, old)
	}
	if err := os.Remove(filepath.Join(snaps, old+".snap")); err != nil {
		t.Fatal(err)
	}
	for _, spec := range frozen().Specs {
		if spec.Source.Name == file {
			t.Errorf("hook %q of another content is loaded", spec.Name)
		}
	}
}

// Many other contents do not evict the snapshot that protects against a typo.
func TestPruneKeepsTheLastOfEachFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	put(t, file, blockAll)
	loadFile(t, file, snaps, false)
	other := filepath.Join(dir, "other.yaml")
	for i := range 50 {
		put(t, other, "version: 1\n"+strings.Repeat("#\n", i))
		loadFile(t, other, snaps, false)
	}
	put(t, file, "version: 2\n")
	_, e := loadFile(t, file, snaps, false)
	if v := e.Fire(context.Background(), fixture.Shell("touch x")); v.Reason() != "no touching" {
		t.Errorf("%v %q, want the last valid content in force", v.Decision, v.Reason())
	}
}

// A process that is killed while it stores a content leaves a file. A later process removes it, but
// not the file of one that still writes.
func TestPruneRemovesLeftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	if err := os.Mkdir(snaps, 0o700); err != nil {
		t.Fatal(err)
	}
	killed, writes := filepath.Join(snaps, ".new-1"), filepath.Join(snaps, ".new-2")
	put(t, killed, "half")
	put(t, writes, "half")
	old := time.Now().Add(-2 * time.Minute)
	if err := os.Chtimes(killed, old, old); err != nil {
		t.Fatal(err)
	}
	put(t, file, blockAll)
	loadFile(t, file, snaps, false)
	if _, err := os.Lstat(killed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old file: %v, want that it does not exist", err)
	}
	if _, err := os.Lstat(writes); err != nil {
		t.Errorf("the new file: %v", err)
	}
}

// Programs that start concurrently share one directory from the beginning.
func TestLoadAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "a", "b", "state")
	put(t, file, blockAll)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			_, e := loadFile(t, file, snaps, false)
			if v := e.Fire(context.Background(), fixture.Shell("touch x")); v.Reason() != "no touching" {
				t.Errorf("%v %q, want the rule's block", v.Decision, v.Reason())
			}
		})
	}
	all.Wait()
	left, _ := filepath.Glob(filepath.Join(snaps, ".new-*"))
	if kept, _ := filepath.Glob(filepath.Join(snaps, "*.snap")); len(kept) != 1 || len(left) != 0 {
		t.Errorf("%d snapshots and %d leftovers, want one and none", len(kept), len(left))
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "p.yaml"), blockAll)
	if p, errs := load.Read(filepath.Join(dir, "p.yaml")); errs != nil || len(p.Hooks) != 1 {
		t.Errorf("Read = %v, %v", p, errs)
	}
	if _, errs := load.Read(filepath.Join(dir, "none")); len(errs) != 1 || errs[0].Msg != "no such file" {
		t.Errorf("Read of nothing says %v", errs)
	}
}
