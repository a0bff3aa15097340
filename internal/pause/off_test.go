package pause_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/pause"
)

func TestOffFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "state", "off.json")
	if off, err := pause.ReadOff(name); off != nil || err != nil {
		t.Errorf("without a file: %v, %v", off, err)
	}
	want := pause.Off{{Hook: "user::a", Reason: "too slow", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	if err := want.Write(name); err != nil {
		t.Fatal(err)
	}
	got, err := pause.ReadOff(name)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("ReadOff: %v\n%s", err, diff)
	}
	if got.Find("user::a") == nil || got.Find("a") != nil {
		t.Errorf("Find in %v", got)
	}
	for range 2 {
		if err := pause.Off(nil).Write(name); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file of an empty list: %v", err)
		}
	}
	for _, bad := range []string{"", "{}", `[{"hook":7}]`, "[" + strings.Repeat(" ", 1<<20) + "]"} {
		if err := os.WriteFile(name, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if off, err := pause.ReadOff(name); off != nil || err == nil || !strings.Contains(err.Error(), "all hooks are on") {
			t.Errorf("%.20q: %v, %v, want an error", bad, off, err)
		}
	}
}

func TestOffApply(t *testing.T) {
	t.Parallel()
	spec := func(name string, source grapnel.Source) grapnel.Spec {
		return grapnel.Spec{Name: name, Source: source, Hook: noop.Hook{}}
	}
	user, managed := grapnel.Source{Name: "user", File: "f"}, grapnel.Source{Name: "managed", Scope: grapnel.ScopeManaged, File: "f"}
	own := grapnel.Source{Name: "grapnel", File: notice.OwnFile}
	specs := func() []grapnel.Spec {
		return []grapnel.Spec{
			spec("a", user), spec("b", user), spec("a", managed), spec("a", own), notice.For(user, "a warning"), notice.Lock(user, "locked"),
		}
	}
	var all pause.Off
	for _, s := range specs() {
		all = append(all, pause.OffHook{Hook: s.FullName(), Reason: "a test"})
	}
	for name, tt := range map[string]struct {
		off  pause.Off
		want []string
	}{
		"nothing": {nil, []string{"user::a", "user::b", "managed::a", "grapnel::a", "grapnel:user::policy-notice", "grapnel:user::locked"}},
		"no such": {pause.Off{{Hook: "a"}}, []string{"user::a", "user::b", "managed::a", "grapnel::a", "grapnel:user::policy-notice", "grapnel:user::locked", "grapnel:off::policy-notice"}},
		"one":     {all[:1], []string{"user::b", "managed::a", "grapnel::a", "grapnel:user::policy-notice", "grapnel:user::locked", "grapnel:off::policy-notice"}},
		"all":     {all, []string{"managed::a", "grapnel::a", "grapnel:user::policy-notice", "grapnel:user::locked", "grapnel:off::policy-notice"}},
	} {
		var got []string
		left := tt.off.Apply(specs())
		for i := range left {
			got = append(got, left[i].FullName())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: Apply leaves %q, want %q", name, got, tt.want)
		}
	}
	many := make([]grapnel.Spec, 7)
	var off pause.Off
	for i := range many {
		many[i] = spec(fmt.Sprint("h", i), user)
		off = append(off, pause.OffHook{Hook: many[i].FullName(), Reason: "slow"})
	}
	left := off.Apply(many)
	out, err := left[0].Hook.Handle(context.Background(), &grapnel.Event{Kind: grapnel.SessionStart})
	if err != nil || !strings.Contains(out.Message, "user::h0 (slow), ") || !strings.Contains(out.Message, "user::h4 (slow) and 2 more. ") {
		t.Errorf("the user reads %q, %v", out.Message, err)
	}
}
