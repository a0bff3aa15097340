//go:build system

package secret

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// coldVar names the environment variable with the name of the text that a separate process
// searches once.
const coldVar = "SECRET_COLD"

func TestMain(m *testing.M) {
	if name := os.Getenv(coldVar); name != "" {
		text := noise(64 << 10)[name]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Find(text)
		runtime.ReadMemStats(&after)
		fmt.Println(after.TotalAlloc - before.TotalAlloc)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The first search in a process prepares little, because a program that handles one event makes
// only one search. The test measures the allocated memory.
func TestCold(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range noise(1) {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), coldVar+"="+name)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var bytes uint64
		if _, err := fmt.Sscan(string(out), &bytes); err != nil {
			t.Fatal(err)
		}
		most := uint64(128 << 10)
		if name == "found" || name == "values" { // a result for each secret
			most = 2 << 20
		}
		if bytes > most {
			t.Errorf("64 KB %s need %d bytes of memory in a process of their own, want at most %d", name, bytes, most)
		}
	}
}
