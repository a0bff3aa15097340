// Package watch is the view that "grapnel watch" keeps of what happens: sessions, events
// as they come, and all that is known of one of them.
//
//	m := watch.New(watch.Options{})
//	m.Update(watch.Resize{Width: 80, Height: 24})
//	m.Update(watch.Batch{Items: []*watch.Item{watch.NewItem(&entry)}})
//	m.Update(watch.Key{Name: "down"})
//	screen := m.View()
//
// A Model holds data and nothing else. What happens is told to it as messages, the time
// included, and what is to be seen comes out as text with colours in it. It reads no file,
// starts nothing and knows no terminal, so what it shows follows from what it was told.
//
// Nothing of an event reaches that text as it came: control characters, what turns the
// direction of text, and bytes that are not UTF-8 are replaced.
package watch
