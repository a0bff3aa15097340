// Package screen puts the model of grapnel watch on a terminal.
package screen

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/watch"
	"github.com/grapnel-dev/grapnel/local"
)

// Run shows what happens on a terminal until the person has had enough.
func Run(ctx context.Context, place local.Place, query store.Query, opts watch.Options, in io.Reader, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	profile := colorprofile.ANSI // what is drawn has no other colours, so no terminal is asked for more
	if os.Getenv("NO_COLOR") != "" {
		profile = colorprofile.Ascii
	}
	p := tea.NewProgram(terminalModel{watch.New(opts)}, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithColorProfile(profile), tea.WithFPS(20))
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	items := make(chan entry, 1024)
	wait.Go(func() { followItems(ctx, records.Log(place), query, items) })
	wait.Go(func() { passOn(ctx, items, func(b watch.Batch) { p.Send(b) }) })
	wait.Go(func() { lookForDaemon(ctx, client.Socket(place.State), func(k watch.Keeper) { p.Send(k) }) })
	_, err := p.Run()
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// entry is what a log yields.
type entry struct {
	item *watch.Item
	err  error
}

// followItems reads a log for as long as ctx lasts. Where nobody takes what it reads it
// waits: what is kept stays where it is.
func followItems(ctx context.Context, log store.Log, query store.Query, to chan<- entry) {
	for k, err := range log.Follow(ctx, query) {
		next := entry{err: err}
		if err == nil {
			unread := k.Event()
			next.item = watch.NewItem(&k.Entry)
			if unread != nil {
				next.item.Note = unread.Error()
			}
		}
		select {
		case to <- next:
		case <-ctx.Done():
			return
		}
	}
}

// batchTime is how long what comes is gathered after some of it was shown. Nobody reads
// faster, and a burst is drawn as one.
const batchTime = 40 * time.Millisecond

// passOn hands on what comes, all that is there at once.
func passOn(ctx context.Context, from <-chan entry, give func(watch.Batch)) {
	for {
		var b watch.Batch
		add := func(w entry) {
			if w.err != nil {
				b.Problems = append(b.Problems, w.err.Error())
			} else {
				b.Items = append(b.Items, w.item)
			}
		}
		select {
		case w := <-from:
			add(w)
		case <-ctx.Done():
			return
		}
		for n := len(from); n > 0; n-- {
			add(<-from)
		}
		give(b)
		select {
		case <-time.After(batchTime):
		case <-ctx.Done():
			return
		}
	}
}

// lookTime is how often the daemon is looked for.
const lookTime = 2 * time.Second

// lookForDaemon says who keeps Records, and again when that is somebody else.
func lookForDaemon(ctx context.Context, socket string, say func(watch.Keeper)) {
	var said *watch.Keeper
	for {
		found, err := server.Look(ctx, socket)
		var now watch.Keeper
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			now = watch.Keeper{Daemon: true, PID: found.PID}
		case errors.Is(err, server.ErrDead):
			now.Problem = "the daemon has died: reading the spool"
		case !errors.Is(err, server.ErrAbsent):
			now.Problem = err.Error()
		}
		if said == nil || *said != now {
			said = &now
			say(now)
		}
		select {
		case <-time.After(lookTime):
		case <-ctx.Done():
			return
		}
	}
}

// terminalModel is a Model at a terminal.
type terminalModel struct{ *watch.Model }

// Init asks for the time.
func (w terminalModel) Init() tea.Cmd {
	return func() tea.Msg { return watch.Clock(time.Now()) }
}

// Update tells the Model what happened, in its own words.
func (w terminalModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		w.Model.Update(watch.Resize{Width: msg.Width, Height: msg.Height})
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+z" {
			return w, tea.Suspend
		}
		w.Model.Update(watch.Key{Name: msg.String(), Text: msg.Text})
	case tea.PasteMsg:
		w.Model.Update(watch.Key{Text: msg.Content})
	case watch.Clock:
		w.Model.Update(msg)
		return w, tea.Tick(time.Second, func(t time.Time) tea.Msg { return watch.Clock(t) })
	case watch.Batch, watch.Keeper:
		w.Model.Update(msg)
	default:
		return w, nil
	}
	if w.Done() {
		return w, tea.Quit
	}
	return w, nil
}

// View draws the Model.
func (w terminalModel) View() tea.View {
	v := tea.NewView(w.Model.View())
	v.AltScreen = true
	return v
}
