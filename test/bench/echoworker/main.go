// Echoworker is the least that a worker does: it finds the ID of an event and answers that it
// has no opinion. What a round trip to it costs is what Grapnel and the pipes cost.
package main

import (
	"bufio"
	"bytes"
	"os"
)

func main() {
	in := bufio.NewReaderSize(os.Stdin, 64<<10)
	say := func(parts ...string) {
		var line []byte
		for _, part := range parts {
			line = append(line, part...)
		}
		if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
			os.Exit(1) // nobody listens any more
		}
	}
	say(`{"grapnel":1,"type":"hello","name":"echo","concurrency":8}`)
	for {
		line, err := in.ReadSlice('\n') // an event of the benchmark fits
		if err != nil {
			return
		}
		if rest, ok := bytes.CutPrefix(line, []byte(`{"type":"event","id":"`)); ok {
			id, _, _ := bytes.Cut(rest, []byte(`"`))
			say(`{"type":"answer","id":"`, string(id), `","outcome":{}}`)
		}
	}
}
