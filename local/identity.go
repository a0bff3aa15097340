package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/atomicfile"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/readfile"
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
	data, err := readfile.Regular(name, 1<<10)
	if errors.Is(err, os.ErrNotExist) {
		data = newMachine(name)
	}
	if machine, rest, ok := strings.Cut(string(data), "\n"); ok {
		id.Machine = machine
		id.User, _, _ = strings.Cut(rest, "\n")
	}
	return id
}

// newMachine stores a new ID, and returns the content of the file. If another process was faster,
// it returns that content.
func newMachine(name string) []byte {
	if os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return nil
	}
	user, _ := home.User()                                                              // a user without a name has an ID, too
	content := fmt.Appendf(nil, "%016x%016x\n%s\n", rand.Uint64(), rand.Uint64(), user) // an ID is not a secret
	content, err := atomicfile.Create(name, content)
	if err != nil {
		return nil
	}
	return content
}
