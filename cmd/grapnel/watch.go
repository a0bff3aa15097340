package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/records"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/watch"
	"github.com/grapnel-dev/grapnel/local"
)

func newWatch(c *console) *cobra.Command {
	var asked logQuery
	var opts watch.Options
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch what all agents do, as it happens",
		Long: "Shows the sessions of all agents, their events as they come, and all that is known\nof the one that is selected: who answered what, how long it took, what was changed.\n" +
			"Needs no daemon, and loses nothing while one starts or stops. ? shows the keys.\n\n" +
			"It begins now; --since begins earlier. The flags that \"grapnel log\" has too say what\nis taken in at all; / filters what is shown of it.",
		Example: "  grapnel watch\n  grapnel watch --since 1h --agent codex\n  grapnel watch --decision block --decision ask --slow 20ms",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := asked.query(cmd)
			if err != nil {
				return err
			}
			switch {
			case opts.Slow <= 0:
				return cli.Usage(cli.WithHint(errors.New("--slow has to be more than nothing"), "100ms is what counts when nothing is said"))
			case opts.Keep <= 0:
				return cli.Usage(cli.WithHint(errors.New("--keep has to be more than nothing"), "5000 is what counts when nothing is said"))
			case !cli.Terminal(c.In) || !cli.Terminal(c.Out) || os.Getenv("TERM") == "dumb":
				return cli.WithHint(errors.New("there is no terminal that could be drawn on"), `run "grapnel log -f": it prints a line for each event`)
			}
			if asked.since == "" {
				query.Since = time.Now()
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			opts.Home, _ = os.UserHomeDir()
			return c.watch(cmd.Context(), place, query, opts)
		},
	}
	asked.flags(cmd)
	cmd.Flags().DurationVar(&opts.Slow, "slow", 100*time.Millisecond, "mark hooks that take this long")
	cmd.Flags().IntVar(&opts.Keep, "keep", 5000, "how many events to keep in sight; older ones fall out")
	return cmd
}

// watch shows what happens until the person has had enough.
func (c *console) watch(ctx context.Context, place local.Place, query store.Query, opts watch.Options) error {
	ctx, cancel := context.WithCancel(ctx)
	profile := colorprofile.ANSI // what is drawn has no other colours, so no terminal is asked for more
	if os.Getenv("NO_COLOR") != "" {
		profile = colorprofile.Ascii
	}
	p := tea.NewProgram(watching{watch.New(opts)}, tea.WithContext(ctx), tea.WithInput(c.In), tea.WithOutput(cli.FileOf(c.Out)), tea.WithColorProfile(profile), tea.WithFPS(20))
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	items := make(chan watched, 1024)
	wait.Go(func() { followItems(ctx, records.Log(place), query, items) })
	wait.Go(func() { passOn(ctx, items, func(b watch.Batch) { p.Send(b) }) })
	wait.Go(func() { lookForDaemon(ctx, client.Socket(place.State), func(k watch.Keeper) { p.Send(k) }) })
	_, err := p.Run()
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// watched is what a log yields.
type watched struct {
	item *watch.Item
	err  error
}

// followItems reads a log for as long as ctx lasts. Where nobody takes what it reads it
// waits: what is kept stays where it is.
func followItems(ctx context.Context, log store.Log, query store.Query, to chan<- watched) {
	for k, err := range log.Follow(ctx, query) {
		next := watched{err: err}
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
func passOn(ctx context.Context, from <-chan watched, give func(watch.Batch)) {
	for {
		var b watch.Batch
		add := func(w watched) {
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

// watching is a Model at a terminal.
type watching struct{ *watch.Model }

// Init asks for the time.
func (w watching) Init() tea.Cmd {
	return func() tea.Msg { return watch.Clock(time.Now()) }
}

// Update tells the Model what happened, in its own words.
func (w watching) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
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
func (w watching) View() tea.View {
	v := tea.NewView(w.Model.View())
	v.AltScreen = true
	return v
}
