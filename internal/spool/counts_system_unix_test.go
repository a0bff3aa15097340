//go:build system && unix

package spool

import (
	"bufio"
	"strconv"
	"testing"
)

// On a full disk, Count returns an error, and the old value stays.
func TestCountOnAFullDisk(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	count(t, s, "k", "5")
	if err := process(t, "count-full", dir).Run(); err != nil {
		t.Error(err)
	}
	if n, err := s.up("k"); n != 6 || err != nil {
		t.Errorf("it goes on with %d, %v, want 6", n, err)
	}
}

// If a counting process is killed at any time, its last count stays.
func TestCountSurvivesKill(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	for round := range 10 {
		cmd := process(t, "count", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		counted := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if counted, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
			if counted%37 == round { // in the middle of the counting
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait() // it was killed
		data, err := s.Counted("o", "k")
		if kept, _ := strconv.Atoi(string(data)); err != nil || kept != counted && kept != counted+1 {
			t.Fatalf("%q is kept, %v, and it had counted to %d", data, err, counted)
		}
	}
}
