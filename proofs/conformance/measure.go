package conformance

import (
	"io"
	"log"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The measurements in this file are of the whole process: see Case.alone.

// memory returns the bytes that this process holds, as reported by the Go runtime.
func memory() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// growth returns the maximum growth of the process in MiB while do runs.
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

// terminal returns everything that this process writes to stdout and stderr while do runs.
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
		text, _ := io.ReadAll(r) // until the write end is closed below
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
