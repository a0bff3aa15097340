package shared

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/internal/home"
)

// An account has the facts that a process needs to run as a user.
type account struct {
	home.Account
	groups []int
}

// find returns the account of a user ID, with the groups of a login.
func find(ctx context.Context, uid int) (account, error) {
	a, err := home.Find(uid)
	if err != nil {
		return account{}, err
	}
	groups, err := groupsOf(ctx, a.Name)
	if err != nil {
		return account{}, fmt.Errorf("cannot find the groups of user %s: %w", a.Name, err)
	}
	if !slices.Contains(groups, a.GID) {
		groups = append(groups, a.GID)
	}
	return account{Account: a, groups: groups}, nil
}

// groupsOf asks the name service switch for the groups of a user. It uses the program id, because
// os/user without cgo knows only /etc/group.
func groupsOf(ctx context.Context, name string) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var out []byte
	var err error
	for _, program := range []string{"/usr/bin/id", "/bin/id", "/run/current-system/sw/bin/id"} {
		cmd := exec.CommandContext(ctx, program, "-G", "--", name)
		cmd.Env, cmd.WaitDelay = []string{}, time.Second
		if out, err = cmd.Output(); err == nil || !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return numbers(strings.Fields(string(out)))
}

func numbers(words []string) ([]int, error) {
	var all []int
	for _, word := range words {
		n, err := strconv.ParseUint(word, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is not an ID", word)
		}
		all = append(all, int(n))
	}
	return all, nil
}

// String returns the account for Become: the user ID, the group ID, and all groups.
func (a account) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d:%d", a.UID, a.GID)
	for _, g := range a.groups {
		fmt.Fprintf(&b, ":%d", g)
	}
	return b.String()
}

// env returns the environment of a process of the user. From root's environment it takes only the variables that
// a daemon uses and may show to the user's programs.
func (a account) env(environ []string) []string {
	env := []string{"HOME=" + a.Dir, "USER=" + a.Name, "LOGNAME=" + a.Name}
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(passed, name) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "OTEL_") {
			env = append(env, v)
		}
	}
	return env
}

var passed = []string{"PATH", "LANG", "TZ", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// Become makes this process of root a process of a user for good, and returns the connections that Run
// passes to it. text is from the command line that Run makes. Afterwards, other processes of the user cannot trace this process or read its memory: the
// kernel forbids it after a change of the user, and Become also does, whatever fs.suid_dumpable is.
func Become(text string) (*server.Passed, error) {
	passed, err := server.NewPassed(channelFD)
	if err == nil {
		err = become(text)
	}
	return passed, err
}

// channelFD is the descriptor of the first of ExtraFiles.
const channelFD = 3

func become(text string) error {
	ids, err := numbers(strings.Split(text, ":"))
	if err != nil || len(ids) < 3 {
		return fmt.Errorf("invalid account %q", text)
	}
	uid, gid, groups := ids[0], ids[1], ids[2:]
	if os.Getuid() != 0 {
		return errors.New("only root can run the daemon of another user")
	}
	for _, err := range []error{syscall.Setgroups(groups), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(uid, uid, uid), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)} {
		if err != nil {
			return fmt.Errorf("cannot become user %d: %w", uid, err)
		}
	}
	if uid != 0 && syscall.Setuid(0) == nil {
		return fmt.Errorf("this process can become root again after it became user %d", uid)
	}
	return nil
}
