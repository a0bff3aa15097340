package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestUnified(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ before, after, want string }{
		"equal":   {"a\n", "a\n", ""},
		"created": {"", "a\nb\n", "--- /dev/null\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"removed": {"a\n", "", "--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"},
		"last line": {
			"a\nb", "a\nb\n",
			"--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
		},
		"two hunks": {
			"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\nx\n2\n3\n4\n5\n6\n7\n8\n",
			"--- f\n+++ f\n@@ -1,4 +1,5 @@\n 1\n+x\n 2\n 3\n 4\n@@ -6,4 +7,3 @@\n 6\n 7\n 8\n-9\n",
		},
		"one hunk": {
			"1\n2\n3\n4\n5\n6\n7\n", "x\n2\n3\n4\n5\n6\n7\ny\n",
			"--- f\n+++ f\n@@ -1,7 +1,8 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n+y\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bytesOf := func(s string) []byte {
				if s == "" {
					return nil
				}
				return []byte(s)
			}
			if diff := cmp.Diff(tt.want, unified("f", bytesOf(tt.before), bytesOf(tt.after))); diff != "" {
				t.Errorf("unified(%q, %q) (-want +got):\n%s", tt.before, tt.after, diff)
			}
		})
	}
}

// The edits lead from one file to the other, and no shorter way does.
func TestDiffLinesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		file := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n"}), 0, 12)
		a, b := file.Draw(t, "a"), file.Draw(t, "b")
		var gotA, gotB []string
		changes := 0
		for _, e := range diffLines(a, b) {
			if e.op != '+' {
				gotA = append(gotA, a[e.a])
			}
			if e.op != '-' {
				gotB = append(gotB, b[e.b])
			}
			if e.op == ' ' && a[e.a] != b[e.b] {
				t.Fatalf("line %q is said to be %q", a[e.a], b[e.b])
			}
			if e.op != ' ' {
				changes++
			}
		}
		if strings.Join(gotA, "") != strings.Join(a, "") || strings.Join(gotB, "") != strings.Join(b, "") {
			t.Fatalf("edits of %q to %q make %q and %q", a, b, gotA, gotB)
		}
		if want := len(a) + len(b) - 2*common(a, b); changes != want {
			t.Fatalf("%d changes from %q to %q, want %d", changes, a, b, want)
		}
	})
}

// common is the length of the longest common subsequence, by the textbook.
func common(a, b []string) int {
	row := make([]int, len(b)+1)
	for i := range a {
		diagonal := 0
		for j := range b {
			above := row[j+1]
			if row[j+1] = max(above, row[j]); a[i] == b[j] {
				row[j+1] = diagonal + 1
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

func TestDiffLinesTooDifferent(t *testing.T) {
	t.Parallel()
	a := strings.Split(strings.Repeat("a", maxRounds), "")
	b := strings.Split(strings.Repeat("b", 10), "")
	var ops strings.Builder
	for _, e := range diffLines(a, b) {
		ops.WriteByte(e.op)
	}
	if want := strings.Repeat("-", len(a)) + strings.Repeat("+", len(b)); ops.String() != want {
		t.Errorf("got %d edits, want %d lines removed and then %d added", ops.Len(), len(a), len(b))
	}
}
