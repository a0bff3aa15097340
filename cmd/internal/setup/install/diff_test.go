package install

import (
	"strings"
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
			if diff := cmp.Diff(tt.want, Unified("f", bytesOf(tt.before), bytesOf(tt.after))); diff != "" {
				t.Errorf("Unified(%q, %q) (-want +got):\n%s", tt.before, tt.after, diff)
			}
		})
	}
}

// Equal entries are shown once. Entries that differ, and lines of the user, are shown completely.
func TestBrief(t *testing.T) {
	t.Parallel()
	events := []string{"Start", "Before", "After", "Stop"}
	for name, tt := range map[string]struct{ diff, want string }{
		"no entries": {"--- a\n+++ b\n@@ -1 +1 @@\n-{}\n+{ }\n", "--- a\n+++ b\n@@ -1 +1 @@\n-{}\n+{ }\n"},
		"one entry":  {"+    \"Stop\": [1]\n", "+    \"Stop\": [1]\n"},
		"a new file": {
			"+{\n+  \"hooks\": {\n+    \"Start\": [\n+      {\"run\": \"hook Start\"}\n+    ],\n+    \"Before\": [\n+      {\"run\": \"hook Before\"}\n+    ],\n" +
				"+    \"Stop\": [\n+      {\"run\": \"hook Stop\"}\n+    ]\n+  }\n+}\n",
			"+{\n+  \"hooks\": {\n+    \"Start\": [\n+      {\"run\": \"hook Start\"}\n+    ],\n+    … and 2 events like it: Before, Stop\n+  }\n+}\n",
		},
		"one differs": {
			" {\n-    \"Start\": [9],\n-    \"Before\": [60],\n-    \"After\": [9]\n }\n",
			" {\n-    \"Start\": [9],\n-    … and 1 event like it: After\n-    \"Before\": [60],\n }\n",
		},
		"the user's":  {"+\t\"Start\": [1],\n \t\"mine\": 1,\n+\t\"Stop\": [1]\n", "+\t\"Start\": [1],\n \t\"mine\": 1,\n+\t\"Stop\": [1]\n"},
		"a long line": {"+" + strings.Repeat("x", 1999) + "\n", "+" + strings.Repeat("x", 399) + "… (2,000 bytes)\n"},
		"removed and added": {
			"-  \"Start\": [1],\n-  \"Stop\": [1],\n+  \"Start\": [2],\n+  \"Stop\": [2],\n",
			"-  \"Start\": [1],\n-  … and 1 event like it: Stop\n+  \"Start\": [2],\n+  … and 1 event like it: Stop\n",
		},
	} {
		if got := Brief(tt.diff, events); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}
