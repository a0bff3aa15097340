package install

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnified(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ before, after, want string }{
		"equal":   {"a\n", "a\n", ""},
		"created": {"", "a\nb\n", "--- /dev/null\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"removed": {"a\n", "", "--- f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n"},
		"last line": {
			"a\nb", "a\nb\n",
			"--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
		},
		"two hunks": {
			"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\nx\n2\n3\n4\n5\n6\n7\n8\n",
			"--- f\n+++ f\n@@ -1,4 +1,5 @@\n 1\n+x\n 2\n 3\n 4\n@@ -6,4 +7,3 @@\n 6\n 7\n 8\n-9\n",
		},
		"one hunk": {
			"1\n2\n3\n4\n5\n6\n", "x\n2\n3\n4\n5\n6\ny\n",
			"--- f\n+++ f\n@@ -1,6 +1,7 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n+y\n",
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
