package install

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// keepBackups is how many backups are kept per agent.
const keepBackups = 10

// ErrChanged is wrapped by errors of Apply if the file has changed since the plan was made.
var ErrChanged = errors.New("the file changed in the meantime")

// Apply executes a Change. It copies the old file into the directory backups with mode 0600,
// unless backups is empty, and then replaces the file with a rename. A symbolic link stays; the
// file that it leads to is replaced. Apply keeps mode and owner where the system permits it. It
// breaks hard links, as any editor that renames does.
//
// It returns the name of the backup, empty if the file did not exist. If the file has changed
// since the plan was made, Apply does nothing and returns ErrChanged. Agents take no locks: a
// change that an agent writes between this check and the rename is lost, and is not in the
// backup.
func Apply(c *Change, backups string, now time.Time) (backup string, err error) {
	if !c.Changed() {
		return "", nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot edit %s: %w", c.File, err)
		}
	}()
	target, info, err := resolve(c.File)
	if err != nil {
		return "", err
	}
	if err := unchanged(c, target); err != nil {
		return "", err
	}
	if c.Before != nil && backups != "" {
		if backup, err = writeBackup(c, backups, now); err != nil {
			return "", err
		}
	}
	if c.After == nil {
		return backup, remove(c, target)
	}
	if err := replace(c, target, info); err != nil {
		return "", err
	}
	if backups != "" {
		prune(backups, c.Agent)
	}
	return backup, nil
}

// resolve follows symbolic links to the real file. info is nil if the file does not exist.
func resolve(file string) (target string, info fs.FileInfo, err error) {
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return file, nil, nil
	}
	target, err = filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, errors.New("it is a symbolic link to a file that does not exist; create the file or remove the link")
	}
	if err != nil {
		return "", nil, err
	}
	if info, err = os.Stat(target); err != nil {
		return "", nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return "", nil, errors.New("it is not a regular file")
	case info.Mode().Perm()&0o200 == 0:
		return "", nil, fmt.Errorf("it is read-only (mode %04o); make it writable if that is not intended", info.Mode().Perm())
	}
	return target, info, nil
}

// readFile reads a settings file; nil if it does not exist.
func readFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would block
		return nil, fmt.Errorf("%s is not a regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1)) // parse rejects larger files
	if err != nil {
		return nil, err
	}
	return data, nil
}

func unchanged(c *Change, target string) error {
	data, err := readFile(target)
	if err != nil {
		return err
	}
	if (data == nil) != (c.Before == nil) || !bytes.Equal(data, c.Before) {
		return fmt.Errorf("%w, run the command again", ErrChanged)
	}
	return nil
}

// replace replaces target by c.After. A reader sees the old file or the new one.
func replace(c *Change, target string, old fs.FileInfo) (err error) {
	perm := cmp.Or(c.Perm, 0o600)
	if old == nil {
		if err := c.makeDirs(filepath.Dir(target), perm|perm&0o444>>2); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				removeDirs(c.Made.Dirs)
			}
		}()
	} else {
		perm = old.Mode().Perm()
	}
	name, err := c.writeBeside(target, old, perm)
	if err != nil {
		return err
	}
	err = unchanged(c, target) // as late as possible
	if err == nil {
		err = os.Rename(name, target)
	}
	if err != nil {
		_ = os.Remove(name)
		if errors.Is(err, syscall.EBUSY) {
			err = fmt.Errorf("%w: a mounted file cannot be replaced; mount its directory instead", err)
		}
		return err
	}
	return syncDir(filepath.Dir(target))
}

// makeDirs creates the directory of a new file.
func (c *Change) makeDirs(dir string, mode fs.FileMode) error {
	if err := os.MkdirAll(dir, mode); err != nil || !c.Exact {
		return err
	}
	for _, made := range c.Made.Dirs {
		if err := os.Chmod(made, mode); err != nil {
			return err
		}
	}
	return nil
}

// writeBeside writes c.After to a temporary file in the directory of target, flushes it, and
// returns its name. The file gets the owner of the old file.
func (c *Change) writeBeside(target string, old fs.FileInfo, perm fs.FileMode) (name string, err error) {
	// os.CreateTemp is not used, because a new file must get perm reduced by the umask.
	name = filepath.Join(filepath.Dir(target), ".grapnel-"+rand.Text()[:12]+".tmp")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return "", err
	}
	if old != nil {
		keepOwner(f, old)
	}
	if old != nil || c.Exact {
		err = f.Chmod(perm) // override the umask
	}
	if err == nil {
		_, err = f.Write(c.After)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name)
	}
	return name, err
}

// remove deletes the file, and the directories that were created for it and are empty now.
func remove(c *Change, target string) error {
	if err := os.Remove(target); err != nil {
		return err
	}
	removeDirs(c.Made.Dirs)
	return nil
}

// removeDirs removes created directories, innermost first, until one is not empty.
func removeDirs(made []string) {
	for _, dir := range slices.Backward(made) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // it is not empty
		}
	}
}

// sweep removes the temporary files that a killed installation has left in a directory. A running
// installation under another lock would fail and report that.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // it does not exist
	}
	leftBehind := regexp.MustCompile(`^\.grapnel-[A-Z2-7]{12}\.tmp$`)
	for _, e := range entries {
		if e.Type().IsRegular() && leftBehind.MatchString(e.Name()) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// missingDirs returns the directories above a file that do not exist, outermost first.
func missingDirs(file string) []string {
	var dirs []string
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			slices.Reverse(dirs)
			return dirs
		}
		dirs = append(dirs, dir)
	}
}

// writeBackup stores the content of the old file. The same content at the same time gets the same
// name.
func writeBackup(c *Change, dir string, now time.Time) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("no backup: %w", err)
	}
	sum := sha256.Sum256(c.Before)
	name := filepath.Join(dir, fmt.Sprintf("%s-%s-%x.json", c.Agent, now.UTC().Format("20060102T150405.000Z"), sum[:4]))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("no backup: %w", err)
	}
	_, err = f.Write(c.Before)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("no backup: %w", err)
	}
	return name, nil
}

// prune removes the oldest backups of the agent. Names sort by time. It ignores errors, because
// additional backups do no harm.
func prune(dir, agent string) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), agent+"-") && strings.HasSuffix(e.Name(), ".json") {
			names = append(names, e.Name())
		}
	}
	for len(names) > keepBackups {
		_ = os.Remove(filepath.Join(dir, names[0]))
		names = names[1:]
	}
}

// lock makes other installations with the same state directory wait until unlock is called. It
// waits until ctx is done.
func lock(ctx context.Context, state string, mode fs.FileMode) (unlock func(), err error) {
	if err := os.MkdirAll(state, mode); err != nil {
		return nil, err
	}
	if mode != 0o700 { // override the umask
		if err := os.Chmod(state, mode); err != nil {
			return nil, err
		}
	}
	name := filepath.Join(state, "install.lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		held, err := files.TryLock(f, files.Exclusive)
		if err == nil {
			return func() { _ = held.Close() }, nil
		}
		if !errors.Is(err, files.ErrLocked) {
			_ = f.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", name, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("another grapnel holds %s: %w", name, context.Cause(ctx))
		}
	}
}
