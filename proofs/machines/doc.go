// Package machines tests many machines and the places where their Records meet, with
// a real PostgreSQL, a real NATS server and the programs that users run:
//
//	make machines
package machines
