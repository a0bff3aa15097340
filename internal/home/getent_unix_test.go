//go:build system && unix && !darwin

package home

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestGetent(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/bin/getent"); err != nil {
		t.Skip("this system has no /usr/bin/getent")
	}
	want, err := fromFile(passwdFile, os.Getuid())
	if err != nil {
		t.Skipf("this user has no line to compare with: %v", err)
	}
	line, err := getent(os.Getuid())
	if err != nil {
		t.Fatalf("getent(%d): %v", os.Getuid(), err)
	}
	if got, err := fromPasswd(strings.NewReader(line), os.Getuid()); got != want || err != nil {
		t.Errorf("home by getent %s = %q, %v, want %q", strconv.Quote(line), got, err, want)
	}
}
