// Package screen shows the model of grapnel watch on a terminal.
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
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/watch"
	"github.com/grapnel-dev/grapnel/local"
)

// Run shows events on a terminal until the user quits.
func Run(ctx context.Context, place local.Place, query index.Query, opts watch.Options, in io.Reader, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	profile := colorprofile.ANSI // the view has only these colors, so no terminal is asked for more
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

// entry is an item of a log, or an error.
type entry struct {
	item *recordview.Item
	err  error
}

// followItems reads a log until ctx ends. If the receiver is not ready, it waits, and the log keeps
// the Records.
func followItems(ctx context.Context, log index.Log, query index.Query, to chan<- entry) {
	for k, err := range log.Follow(ctx, query) {
		next := entry{err: err}
		if err == nil {
			unread := k.Event()
			next.item = recordview.NewItem(&k.Entry)
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

// batchTime is how long new entries are collected after a batch. Users cannot read faster, and a
// burst is drawn once.
const batchTime = 40 * time.Millisecond

// passOn passes all entries that are available as one batch.
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

// lookTime is the interval between two searches for the daemon.
const lookTime = 2 * time.Second

// lookForDaemon reports which process stores Records, first at once and then after each change.
func lookForDaemon(ctx context.Context, socket string, report func(watch.Keeper)) {
	var reported *watch.Keeper
	for {
		found, err := server.Look(ctx, socket)
		var now watch.Keeper
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			now = watch.Keeper{Daemon: true, PID: found.PID}
		case errors.Is(err, server.ErrDead):
			now.Problem = "the daemon died: reading the log"
		case !errors.Is(err, server.ErrAbsent):
			now.Problem = err.Error()
		}
		if reported == nil || *reported != now {
			reported = &now
			report(now)
		}
		select {
		case <-time.After(lookTime):
		case <-ctx.Done():
			return
		}
	}
}

// terminalModel is a Model on a terminal.
type terminalModel struct{ *watch.Model }

// Init requests the time.
func (w terminalModel) Init() tea.Cmd {
	return func() tea.Msg { return watch.Clock(time.Now()) }
}

// Update converts messages of the terminal to messages of the Model.
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
