// Package watch is the screen of "grapnel watch": sessions, new events, and the details of one event.
//
//	m := watch.New(watch.Options{})
//	m.Update(watch.Resize{Width: 80, Height: 24})
//	m.Update(watch.Batch{Items: []*recordview.Item{recordview.NewItem(&entry)}})
//	m.Update(watch.Key{Name: "down"})
//	screen := m.View()
//
// A Model contains only data. It receives all input as messages, including the time, and View
// returns the screen as text with colors. It reads no file, starts nothing and does not use the
// terminal, so the view depends only on the messages.
//
// Package recordview cleans all text of events before it is shown: control characters, characters that
// change the text direction, and invalid UTF-8.
package watch
