// Package display shows tests the screen of a program on a terminal:
//
//	term := display.Start(t, cmd, 80, 24)
//	term.Want(t, "No Records yet")
//	term.Press(t, "q")
//
// Programs run only on Linux.
package display
