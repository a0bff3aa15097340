package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// An Identity names the origin of Records.
type Identity struct {
	Host    string // name of the machine, which can change
	User    string
	Machine string // random ID that stays the same as long as the state directory exists
}

// machineFile has the ID of the machine and the name of the user, one per line. The name is
// stored because to look it up may start a program.
const machineFile = "machine"

// Identity returns the origin of Records. It stores a new ID if the state directory has none. If it
// cannot be stored, only the Host is set.
func (p Place) Identity() Identity {
	var id Identity
	id.Host, _ = os.Hostname()
	name := filepath.Join(p.State, machineFile)
	data, err := files.Read(name, 1<<10)
	if errors.Is(err, os.ErrNotExist) {
		data = newMachine(name)
	}
	if machine, rest, ok := strings.Cut(string(data), "\n"); ok {
		id.Machine = machine
		id.User, _, _ = strings.Cut(rest, "\n")
	}
	return id
}

// Mark sets the fields of a Record that say where, by which policies and at which costs of a
// model the event was judged. set has the policies in force, and digest is its digest; nil = the
// policies are not known.
func (id Identity) Mark(rec *grapnel.Record, set *load.Set, digest string) {
	rec.Host, rec.User, rec.Machine, rec.PolicyDigest = id.Host, id.User, id.Machine, digest
	if set != nil {
		rec.PolicyRevision = set.Revision(rec.Time)
	}
	if rec.Event == grapnel.ModelAfter && rec.Input != nil && rec.Input.Model != nil {
		rec.TokensIn, rec.TokensOut = tokens(rec.Input.Model.Response)
	}
}

// Origin returns the origin of an event that is judged now, see Mark.
func (id Identity) Origin(set *load.Set, digest string) *wire.Origin {
	rec := grapnel.Record{Time: time.Now()}
	id.Mark(&rec, set, digest)
	return &wire.Origin{Host: rec.Host, User: rec.User, Machine: rec.Machine, PolicyDigest: rec.PolicyDigest, PolicyRevision: rec.PolicyRevision}
}

// tokens returns the token counts in a model's response, in the names of OpenAI, Anthropic or
// Gemini.
func tokens(response json.RawMessage) (in, out int) {
	var r struct {
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
			Input      int `json:"input_tokens"`
			Output     int `json:"output_tokens"`
		} `json:"usage"`
		Gemini struct {
			Prompt     int `json:"promptTokenCount"`
			Candidates int `json:"candidatesTokenCount"`
		} `json:"usageMetadata"`
	}
	if json.Unmarshal(response, &r) != nil {
		return 0, 0
	}
	u := r.Usage
	return max(0, cmp.Or(u.Prompt, u.Input, r.Gemini.Prompt)), max(0, cmp.Or(u.Completion, u.Output, r.Gemini.Candidates))
}

// newMachine stores a new ID, and returns the content of the file. If another process was faster,
// it returns that content.
func newMachine(name string) []byte {
	if os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return nil
	}
	user, _ := home.User()                                                              // a user without a name has an ID, too
	content := fmt.Appendf(nil, "%016x%016x\n%s\n", rand.Uint64(), rand.Uint64(), user) // an ID is not a secret
	content, err := files.Create(name, content)
	if err != nil {
		return nil
	}
	return content
}
