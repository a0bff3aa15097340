package conformance

import (
	"io"
	"log"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// What is measured here is of the whole process: see Case.alone.

// memory is how many bytes this process holds, as the Go runtime counts them.
func memory() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// growth returns by how many MiB the process grew at most while do ran.
func growth(do func()) float64 {
	debug.FreeOSMemory()
	before := memory()
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		top := before
		for {
			top = max(top, memory())
			select {
			case <-tick.C:
			case <-done:
				most <- max(top, memory())
				return
			}
		}
	}()
	func() {
		defer close(done)
		do()
	}()
	return float64(<-most-before) / (1 << 20)
}

// terminal returns what reached the standard output and error of this process while
// do ran.
func terminal(do func()) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	stdout, stderr, logged := os.Stdout, os.Stderr, log.Writer()
	os.Stdout, os.Stderr = w, w
	log.SetOutput(w)
	read := make(chan []byte)
	go func() {
		text, _ := io.ReadAll(r) // up to the end that we make
		read <- text
	}()
	func() {
		defer func() {
			os.Stdout, os.Stderr = stdout, stderr
			log.SetOutput(logged)
			_ = w.Close()
		}()
		do()
	}()
	return string(<-read), r.Close()
}
