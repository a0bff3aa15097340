//go:build unix

package control

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestDaemonEnv(t *testing.T) {
	t.Parallel()
	got := daemonEnv([]string{"PATH=/bin", "GRAPNEL_DEPTH=3", "GRAPNELDEBUG=x=1", "TRACEPARENT=00-1", "HOME=/h", "GRAPNEL_HOOK=x"})
	if want := []string{"PATH=/bin", "GRAPNELDEBUG=x=1", "HOME=/h"}; !slices.Equal(got, want) {
		t.Errorf("daemonEnv = %q, want %q", got, want)
	}
}

// hostile are words with characters that have a meaning in unit files.
var hostile = []string{"/opt/my tools/grapnel", "serve", "--root", `/a b%h$HOME${X}"quoted"'single'\back;&<tag>--#x`, ""}

// systemdSplit parses a command line as described in systemd.service(5): quotes, escapes, then
// specifiers, then variables except in the first word.
func systemdSplit(line string) []string {
	var words []string
	var b strings.Builder
	quoted, in := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			i++
			b.WriteByte(line[i])
		case c == '"':
			quoted, in = !quoted, true
		case c == ' ' && !quoted:
			words = append(words, b.String())
			b.Reset()
			in = false
		default:
			in = true
			b.WriteByte(c)
		}
	}
	if in {
		words = append(words, b.String())
	}
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "%%", "%")
		if i > 0 {
			words[i] = strings.ReplaceAll(words[i], "$$", "$")
		}
	}
	return words
}

// The property list is XML and contains the words unchanged.
func TestLaunchdUnit(t *testing.T) {
	t.Parallel()
	dec := xml.NewDecoder(strings.NewReader(launchdUnit(hostile).Text))
	var keys, words []string
	at := ""
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			at = tok.Name.Local
			if at == "string" {
				words = append(words, "")
			}
		case xml.EndElement:
			at = ""
		case xml.CharData:
			if at == "key" {
				keys = append(keys, string(tok))
			} else if at == "string" {
				words[len(words)-1] += string(tok)
			}
		}
	}
	if want := append([]string{"dev.grapnel.daemon"}, hostile...); !slices.Equal(words, want) {
		t.Errorf("it holds %q, want %q", words, want)
	}
	if want := []string{"Label", "ProgramArguments", "RunAtLoad", "KeepAlive", "SuccessfulExit", "ExitTimeOut"}; !slices.Equal(keys, want) {
		t.Errorf("its keys are %q, want %q", keys, want)
	}
}
