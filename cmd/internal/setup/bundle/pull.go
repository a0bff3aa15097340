package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// in returns the path of a file in the directory of the managed policies.
func in(place local.Place, name string) string { return filepath.Join(place.Managed, name) }

// Active returns the path of the signed policy in force.
func Active(place local.Place) string { return in(place, filepath.Join("policy.d", "signed.yaml")) }

// A Puller brings a signed policy to this machine.
type Puller struct {
	Place  local.Place
	Client *outbound.Client
	Now    func() time.Time
	Wait   func(context.Context) error // before the second attempt
}

// A Pulled is the result of a pull.
type Pulled struct {
	Signed
	File    string `json:"file"`
	Changed bool   `json:"changed"` // the policy was not in force before
}

// seen is the content of the state file: the policies that this machine accepted last.
type seen struct {
	Revision int    `json:"revision"`
	Digest   string `json:"digest"`
	URL      string `json:"url,omitempty"`
	ETag     string `json:"etag,omitempty"` // of the policy at URL

	active, signature []byte // the files in force; nil = none
}

// Pull downloads a policy and its signature, and puts the policy in force if it is signed by an
// accepted key, not older than one that was accepted before, not expired, and valid for this
// version of Grapnel. Otherwise the files in force stay unchanged.
func (p *Puller) Pull(ctx context.Context, from string) (*Pulled, error) {
	name := nameOf(from)
	if name == "" {
		return nil, cli.Usage(cli.WithHint(fmt.Errorf("the URL %q does not end in the name of a policy", from), "for example https://config.example.com/grapnel/policy.yaml"))
	}
	lock, err := p.lock()
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }()
	old, err := p.seen()
	if err != nil {
		return nil, err
	}
	got, err := p.pull(ctx, from, name, old)
	if err != nil && old.active != nil {
		err = fmt.Errorf("%w; the policy in %s stays in force", err, Active(p.Place))
	}
	return got, err
}

func (p *Puller) pull(ctx context.Context, from, name string, old *seen) (*Pulled, error) {
	keys, err := ReadKeys(p.Place, "")
	if err != nil {
		return nil, err
	}
	signed, etag, err := p.fetch(ctx, from, name, keys, old)
	if err == nil {
		err = signed.current(p.Now())
	}
	if err == nil {
		err = old.follows(signed)
	}
	if err == nil {
		err = loads(p.Place, signed.data)
	}
	if err != nil {
		return nil, err
	}
	now := &seen{Revision: signed.Revision, Digest: signed.Digest, URL: from, ETag: etag, active: signed.data, signature: signed.signature}
	if err := p.activate(old, now); err != nil {
		return nil, asRoot(err)
	}
	return &Pulled{Signed: *signed, File: Active(p.Place), Changed: !bytes.Equal(old.active, now.active)}, nil
}

// nameOf returns the name of the file in a URL, or "".
func nameOf(from string) string {
	u, err := url.Parse(from)
	if err != nil || u.Path == "" || strings.HasSuffix(u.Path, "/") {
		return ""
	}
	return path.Base(u.Path)
}

// lock checks the directories, and makes sure that only one pull runs.
func (p *Puller) lock() (*files.Lock, error) {
	if p.Place.Managed == "" {
		return nil, errors.New("this system has no directory for managed policies")
	}
	dir := filepath.Dir(Active(p.Place))
	if !p.Place.Standing {
		if err := files.OnlyRootPath(dir); err != nil {
			return nil, cli.WithHint(fmt.Errorf("cannot use the directory of managed policies: %w", err), onlyRoot)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:security // every user's hook program reads the policies
		return nil, asRoot(err)
	}
	f, err := os.OpenFile(in(p.Place, "signed.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, asRoot(err)
	}
	lock, err := files.TryLock(f, files.Exclusive)
	if err != nil {
		_ = f.Close()
		return nil, cli.WithHint(fmt.Errorf("cannot lock %s: %w", f.Name(), err), "wait until the other \"grapnel bundle pull\" has ended")
	}
	return lock, nil
}

// asRoot adds a hint to an error about missing permissions.
func asRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return cli.WithHint(err, "run the command as root")
	}
	return err
}

// maxETag keeps a server from making the state file too large to be read again.
const maxETag = 256

func (p *Puller) stateFile() string { return in(p.Place, "signed.json") }

// seen returns the policies that this machine accepted last, from the state file and the files in force. So it
// knows the revision if one of the files was removed.
func (p *Puller) seen() (*seen, error) {
	s := &seen{}
	data, err := p.Place.ReadManaged(p.stateFile(), maxKeys)
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, cli.WithHint(fmt.Errorf("cannot read the last accepted revision from %s: %s", p.stateFile(), files.Reason(err)), "restore the file, or make root its owner; without it, the machine accepts every revision from the one in force")
	}
	if s.active, err = p.read(Active(p.Place)); err != nil {
		return nil, err
	}
	if s.signature, err = p.read(Active(p.Place) + Suffix); err != nil {
		return nil, err
	}
	if s.active == nil {
		s.ETag = ""
		return s, nil
	}
	if content := files.Digest(s.active); content != s.Digest {
		s.ETag = "" // the file is not the one that the server gave
		if revision, _, err := stamped("", s.active); err == nil && revision > s.Revision {
			s.Revision, s.Digest = revision, content
		}
	}
	return s, nil
}

// read returns the content of a file in force; nil = it does not exist.
func (p *Puller) read(name string) ([]byte, error) {
	data, err := p.Place.ReadManaged(name, yaml.MaxSize+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, cli.WithHint(fmt.Errorf("cannot use %s: %s", name, files.Reason(err)), onlyRoot)
	}
	return data, nil
}

// follows returns an error if a policy must not replace the one that was accepted last.
func (s *seen) follows(next *Signed) error {
	const again = "sign the wanted content again with a greater revision"
	switch {
	case next.Revision < s.Revision:
		return cli.WithHint(fmt.Errorf("revision %d is older than revision %d, which this machine has accepted before", next.Revision, s.Revision), again)
	case next.Revision == s.Revision && next.Digest != s.Digest:
		return cli.WithHint(fmt.Errorf("revision %d has other content than the revision %[1]d that this machine has accepted before", next.Revision), again)
	}
	return nil
}

// fetch downloads and verifies a policy. A server may replace its two files while they are
// downloaded: if they do not match, fetch tries a second time.
func (p *Puller) fetch(ctx context.Context, from, name string, keys Keys, old *seen) (*Signed, string, error) {
	signed, etag, err := p.once(ctx, from, name, keys, old)
	if !errors.Is(err, errMismatch) {
		return signed, etag, err
	}
	if err := p.Wait(ctx); err != nil {
		return nil, "", err
	}
	if signed, etag, err = p.once(ctx, from, name, keys, &seen{}); errors.Is(err, errMismatch) {
		err = fmt.Errorf("the policy and its signature do not match, also at the second attempt: %w", err)
	}
	return signed, etag, err
}

func (p *Puller) once(ctx context.Context, from, name string, keys Keys, old *seen) (*Signed, string, error) {
	file := outbound.File{URL: from, Max: yaml.MaxSize}
	if old.URL == from {
		file.ETag = old.ETag
	}
	got, err := p.Client.Get(ctx, file)
	if err != nil {
		return nil, "", cli.WithHint(fmt.Errorf("cannot download the policy: %w", err), "check the URL and the server; a server in a private network needs --network, for example --network 10.1.2.0/24")
	}
	if got.Unchanged {
		got.Data = old.active
	}
	sig, err := p.Client.Get(ctx, outbound.File{URL: signatureURL(from), Max: maxKeys})
	if err != nil {
		return nil, "", cli.WithHint(fmt.Errorf("cannot download the signature: %w", err), "upload the file "+name+Suffix+" next to the policy")
	}
	if len(got.ETag) > maxETag {
		got.ETag = ""
	}
	signed, err := Open(keys, name, got.Data, sig.Data)
	return signed, got.ETag, err
}

// signatureURL returns the URL of the signature of a policy.
func signatureURL(from string) string {
	rest, query, _ := strings.Cut(from, "?")
	if query != "" {
		query = "?" + query
	}
	return rest + Suffix + query
}

// loads returns an error if this machine could not use a policy as its signed policy, together
// with its other managed policies.
func loads(place local.Place, data []byte) error {
	active := load.File{Path: Active(place), Scope: grapnel.ScopeManaged, Must: true, Root: !place.Standing}
	files := slices.DeleteFunc(place.ManagedFiles(), func(f load.File) bool { return f.Path == active.Path })
	req := place.Request(append(files, active), policy.Runners{})
	req.Snapshots, req.Content = "", map[string][]byte{active.Path: data}
	for _, l := range load.Policies(req).Files {
		if l.File == active.Path && l.State != load.Valid && len(l.Errors) > 0 {
			return invalid(l.Errors[0])
		}
	}
	return nil
}

// activate writes the files that have changed. The state is first, so that a machine that stops in
// between remembers the revision. The policy is last: the next pull repeats the rest.
func (p *Puller) activate(old, now *seen) error {
	state, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if was, err := json.Marshal(old); err != nil || !bytes.Equal(was, state) {
		if err := files.WriteSync(p.stateFile(), append(state, '\n'), 0o600); err != nil {
			return err
		}
	}
	if !bytes.Equal(old.signature, now.signature) {
		if err := files.WriteSync(Active(p.Place)+Suffix, now.signature, 0o644); err != nil {
			return err
		}
	}
	if bytes.Equal(old.active, now.active) {
		return nil
	}
	return files.WriteSync(Active(p.Place), now.active, 0o644)
}
