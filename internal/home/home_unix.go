//go:build unix && !darwin

// Package home finds the home directory of this user in the user database. It never uses HOME,
// because an agent's project settings can set it. Call [Dir].
package home

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

const passwdFile = "/etc/passwd"

// homeFile has the home directory of users that the user database does not know, for example the
// random users of containers. Only root can write it, so a project cannot choose an installation.
const homeFile = "/etc/grapnel/home"

// maxHome is the size limit of that file in bytes.
const maxHome = 4 << 10

// Dir returns the home directory from the user database. For a user that the database does not
// know, it returns the path in /etc/grapnel/home. It keeps the result, but no error.
//
// It does not use os/user. Without cgo, os/user falls back to $HOME if /etc/passwd does not
// contain the user, and a project could then choose the installation. With cgo, os/user makes the
// hook program dynamically linked, which starts more slowly. For users of a directory service,
// Dir runs getent.
func Dir() (string, error) {
	found.Lock()
	defer found.Unlock()
	if found.dir != "" {
		return found.dir, nil
	}
	dir, err := find()
	if err == nil {
		found.dir = dir
	}
	return dir, err
}

// found is the home directory, because to look it up may start a program.
var found struct {
	sync.Mutex
	dir string
}

func find() (string, error) {
	fields, err := lookup(os.Getuid())
	if errors.Is(err, ErrNoUser) {
		return unknown(homeFile, err)
	}
	return fields[5], err
}

// unknown returns the path in the file for a user that the user database does not know; why is the
// error if the file does not exist.
func unknown(file string, why error) (string, error) {
	if err := files.OnlyRootPath(file); err != nil {
		return "", fmt.Errorf("%w, and %w", why, err)
	}
	data, err := files.ReadChecked(file, maxHome, files.OnlyRoot)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w, and %s, which only root can write, does not exist", why, file)
	}
	if err != nil {
		return "", fmt.Errorf("%w, and cannot read %s: %s", why, file, files.Reason(err))
	}
	dir := strings.TrimSpace(string(data))
	if !filepath.IsAbs(dir) || strings.ContainsAny(dir, "\n\x00") {
		return "", fmt.Errorf("%w, and %s does not have one absolute path", why, file)
	}
	return filepath.Clean(dir), nil
}

// User returns the name of this user from the user database, for the same reasons without os/user.
func User() (string, error) {
	fields, err := lookup(os.Getuid())
	return fields[0], err
}

// An Account is a user of the user database.
type Account struct {
	Name     string
	UID, GID int
	Dir      string // home directory
}

// Find returns the account of a user ID from the user database.
func Find(uid int) (Account, error) {
	fields, err := lookup(uid)
	if err != nil {
		return Account{}, err
	}
	gid, err := strconv.ParseUint(fields[3], 10, 31)
	if err != nil {
		return Account{}, fmt.Errorf("the user database has the invalid group %q for user %d", fields[3], uid)
	}
	return Account{Name: fields[0], UID: uid, GID: int(gid), Dir: fields[5]}, nil
}

// An entry has the fields of a user: name, password, user ID, group ID, comment, home directory.
type entry [6]string

// lookup returns the entry of a user.
func lookup(uid int) (entry, error) {
	fields, err := fromFile(passwdFile, uid)
	if errors.Is(err, ErrNoUser) {
		if line, err2 := getent(uid); err2 == nil {
			return fromPasswd(strings.NewReader(line), uid)
		}
	}
	return fields, err
}

// ErrNoUser is the error for a user that the user database does not know.
var ErrNoUser = errors.New("unknown to " + passwdFile)

func fromFile(name string, uid int) (entry, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) { // an image without any user
		return entry{}, fmt.Errorf("user %d is %w", uid, ErrNoUser)
	}
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	return fromPasswd(f, uid)
}

// fromPasswd returns the entry of a user from lines of the form
// name:password:uid:gid:comment:home:shell.
func fromPasswd(r io.Reader, uid int) (entry, error) {
	want := strconv.Itoa(uid)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		// Names that begin with + or - are directives of NIS, not users.
		if len(fields) < 6 || fields[2] != want || strings.HasPrefix(fields[0], "+") || strings.HasPrefix(fields[0], "-") {
			continue
		}
		return entry(fields), nil
	}
	if err := lines.Err(); err != nil {
		return entry{}, fmt.Errorf("%s: %w", passwdFile, err)
	}
	return entry{}, fmt.Errorf("user %d is %w", uid, ErrNoUser)
}

// getent queries the name service switch. It starts the program by its full path and without an
// environment, because an agent's project settings can set the environment.
func getent(uid int) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var errs []error
	for _, name := range []string{"/usr/bin/getent", "/bin/getent", "/run/current-system/sw/bin/getent"} {
		cmd := exec.CommandContext(ctx, name, "passwd", strconv.Itoa(uid))
		cmd.Env = []string{}
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if err == nil {
			return string(out), nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}
