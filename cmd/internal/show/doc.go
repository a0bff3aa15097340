// Package show has what people see of Records and hooks.
//
//	records/              finds Records of this machine or in files
//	stats/                counts them
//	watch/                the live screen, on a terminal
//	web/                  the pages of "grapnel ui"; machines/ is its page of many machines
//	printable/            makes texts safe for a terminal, and measures them
//	display/              a terminal for tests
//
// How Records are written and stored is in internal/spool and daemon/store. Start in records/find.go.
package show
