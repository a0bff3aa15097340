// Package show presents Records and hooks to people.
//
//	records/              finds Records of this machine or in files
//	recordview/           how one Record reads, in the log, on the screen and in the browser
//	typeset/              rows, tables, trees and colors of a terminal
//	stats/                counts them
//	watch/                the live screen, on a terminal
//	web/                  the pages of "grapnel ui"; machines/ is its page of many machines
//	printable/            makes texts safe for a terminal, and measures them
//	display/              a terminal for tests
//
// A command adds its own words, in cmd/grapnel/NAME.go. How Records are written is in internal/spool,
// and the index of them in daemon/index. Start in records/find.go.
package show
