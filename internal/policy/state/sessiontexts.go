package state

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/shell"
)

// Limits for the texts of files that calls of a session are about to write. They are stored in at most 256
// values, so that they do not use up the share of the session.
const (
	maxPastText = 32 << 10 // one text
	keepText    = 10 * time.Minute
)

// writtenText is the stored text of one file.
type writtenText struct {
	shell.Text
	Path string
	At   time.Time
}

// readTexts decodes a stored value: for each text a line with tab-separated fields, the last of which is
// the length of the text behind it.
func readTexts(kept []byte) (list []writtenText, err error) {
	for len(kept) > 0 {
		line, rest, _ := bytes.Cut(kept, []byte("\n"))
		fields := strings.Split(string(line), "\t")
		if len(fields) != 4 {
			return list, errors.New("a stored text has no valid head")
		}
		at, wrong := strconv.ParseInt(fields[1], 10, 64)
		size, bad := strconv.Atoi(fields[3])
		if wrong != nil || bad != nil || size < 0 || size > len(rest) {
			return list, errors.New("a stored text has invalid numbers")
		}
		list = append(list, writtenText{shell.Text{Text: string(rest[:size]), Part: fields[2] == "part"}, fields[0], time.Unix(0, at)})
		kept = rest[size:]
	}
	return list, nil
}

func encodeTexts(list []writtenText) (b []byte) {
	for i := range list {
		part := "whole"
		if list[i].Part {
			part = "part"
		}
		b = fmt.Appendf(b, "%s\t%d\t%s\t%d\n%s", list[i].Path, list[i].At.UnixNano(), part, len(list[i].Text.Text), list[i].Text.Text)
	}
	return b
}

// slot returns the key of the value that has the text of a file.
func (p *sessionPast) slot(ev *grapnel.Event, path string) string {
	return p.key(ev, "texts", files.Digest([]byte(path))[:2])
}

// pending returns the text that a call is about to write to a file, or has just written.
func (p *sessionPast) pending(ev *grapnel.Event, path string) (text shell.Text, ok bool) {
	kept, err := counted(p.counter, sessionOwner(ev), p.slot(ev, path))
	if err != nil || len(kept) == 0 {
		return text, false
	}
	list, _ := readTexts(kept) // the next text replaces what is damaged
	i := slices.IndexFunc(list, func(t writtenText) bool { return t.Path == path && p.now().Sub(t.At) < keepText })
	if i < 0 {
		return text, false
	}
	return list[i].Text, true
}

// store stores the texts that a call is about to write, without the secrets in them.
func (p *sessionPast) store(ev *grapnel.Event, texts map[string]shell.Text) error {
	var errs []error
	for path, text := range texts {
		if len(text.Text) > maxPastText {
			continue
		}
		text.Text = secret.Hide(text.Text)
		full := false
		err := p.counter.Count(sessionOwner(ev), p.slot(ev, path), func(kept []byte) ([]byte, time.Duration) {
			list, _ := readTexts(kept)
			now := p.now()
			list = slices.DeleteFunc(list, func(t writtenText) bool { return t.Path == path || now.Sub(t.At) >= keepText })
			b := encodeTexts(append(list, writtenText{text, path, now}))
			if full = len(b) > counts.MaxBytes; full {
				return nil, 0
			}
			return b, keepText
		})
		if full {
			err = fmt.Errorf("%w: calls of the session write too much at the same time", files.ErrFull)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
