package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/grapnel-dev/grapnel/internal/atomicfile"
	"github.com/grapnel-dev/grapnel/internal/owner"
)

// readPrivate reads JSON from a file that other users cannot read or write.
func readPrivate(name string, into any) error {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK, because opening a pipe could block forever
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users can read it (mode %04o): run \"chmod 600 %s\"", info.Mode().Perm(), name)
	}
	if err := owner.Mine(info); err != nil {
		return err
	}
	const most = 1 << 20
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return err
	}
	if len(data) > most {
		return fmt.Errorf("it is larger than %d MiB", most>>20)
	}
	return json.Unmarshal(data, into)
}

// writePrivate writes JSON to a file that other users cannot read. A reader sees the old file or
// the new one, never a part.
func writePrivate(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return atomicfile.WriteSync(name, append(data, '\n'), 0o600)
}
