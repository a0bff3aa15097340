package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// kinds are the events that a person can approve. Something happens after each of them, and the
// event contains all of it.
var kinds = []grapnel.Kind{grapnel.ToolBefore, grapnel.PermissionBefore, grapnel.PromptBefore, grapnel.MessageBefore}

// Kinds returns the events that a person can approve.
func Kinds() []grapnel.Kind { return slices.Clone(kinds) }

// Digest identifies the call of an event: its kind, agent and directory, and the tool with its
// input, or the text. It is empty if the event has no call that a person can approve, or if the
// Store cannot be used. Records contain digests, so they depend on a key of this Store: without
// it, a reader of a Record could guess a masked password.
func (s Store) Digest(ev *grapnel.Event) string {
	if !slices.Contains(kinds, ev.Kind) || ev.Tool == nil && ev.Prompt == nil && ev.Message == nil {
		return ""
	}
	key, err := s.key()
	if err != nil {
		return ""
	}
	return digestOf(key, ev)
}

func digestOf(key []byte, ev *grapnel.Event) string {
	b := slices.Clone(key)
	add := func(parts ...string) {
		for _, part := range parts {
			b = append(strconv.AppendInt(b, int64(len(part)), 10), ':')
			b = append(b, part...)
		}
	}
	add(string(ev.Kind), ev.Agent.Name, ev.Session.CWD)
	if t := ev.Tool; t != nil {
		add("tool", t.CanonicalName(), Input(t))
	}
	if p := ev.Prompt; p != nil {
		add("prompt", p.Text)
	}
	if m := ev.Message; m != nil {
		add("message", m.Channel, m.Content)
	}
	return files.Digest(b)
}

// remarks are members of a shell tool's input in which the model describes the command for
// people. A model that repeats a command often describes it in other words.
var remarks = []string{"description", "explanation", "justification"}

// maxSorted limits the inputs that are compared as JSON values, in bytes. Of larger ones, a copy
// must have the same bytes.
const maxSorted = 64 << 10

// Input returns the input of a call in a form that is equal for equal calls.
func Input(t *grapnel.Tool) string {
	raw := []byte(t.Input)
	if len(raw) > maxSorted {
		return string(raw)
	}
	if t.Class == grapnel.ClassShell {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) == nil {
			for _, name := range remarks {
				delete(members, name)
			}
			if kept, err := rawjson.Marshal(members); err == nil {
				raw = kept
			}
		}
	}
	sorted, err := rawjson.Sorted(raw)
	if err != nil {
		return string(raw)
	}
	return sorted
}

// keySize is the length of a key: 128 random bits in hex.
const (
	keySize = 32
	keyName = "key"
)

func (s Store) keyFile() string { return filepath.Join(string(s), keyName) }

func (s Store) readKey() ([]byte, error) {
	key, err := files.Read(s.keyFile(), keySize+1)
	if err == nil && len(key) != keySize {
		err = fmt.Errorf("%s is damaged: remove it", s.keyFile())
	}
	return key, err
}

// key returns the random key of the Store. It creates a missing key.
func (s Store) key() ([]byte, error) {
	key, err := s.readKey()
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return nil, err
	}
	// The system seeds this generator. crypto/rand would cost start-up time.
	key = fmt.Appendf(nil, "%016x%016x", rand.Uint64(), rand.Uint64())
	return files.Create(s.keyFile(), key)
}
