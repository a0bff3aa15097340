package outbound

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// A File is a file to download.
type File struct {
	URL     string        // https only
	ETag    string        // version that the caller has; empty = none
	Max     int64         // maximum size in bytes
	Timeout time.Duration // limit from the lookup to the last byte; 0 = MaxTimeout
}

// A Download is the result of [Client.Get].
type Download struct {
	Data      []byte
	ETag      string // empty = the server has none
	Unchanged bool   // the server still has the version of File.ETag; Data is nil
}

// Get downloads a file. The error is an [*Error], also for a larger file, and for a redirect,
// which Get does not follow.
func (c *Client) Get(ctx context.Context, f File) (Download, error) {
	u, err := c.Guard().CheckURL(f.URL)
	if err != nil {
		return Download{}, err
	}
	header := http.Header{"User-Agent": {"grapnel"}, "Cache-Control": {"no-cache"}}
	if f.ETag != "" {
		header.Set("If-None-Match", f.ETag)
	}
	timeout := cmp.Or(f.Timeout, MaxTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, timeout))
	defer cancel()
	var got Download
	err = c.exchange(ctx, request{url: u, method: http.MethodGet, header: header, head: maxAnswer}, func(a answer) error {
		if f.ETag != "" && a.StatusCode == http.StatusNotModified {
			got = Download{ETag: f.ETag, Unchanged: true}
			return nil
		}
		if err := c.refusal(u, a.Response, ""); err != nil {
			return err
		}
		a.limit.N += f.Max + maxFrames
		data, err := readFile(u.Hostname(), a, f.Max)
		got = Download{Data: data, ETag: a.Header.Get("ETag")}
		return err
	})
	if err != nil {
		return Download{}, err
	}
	return got, nil
}

// readFile returns the body of a response with the status 200.
func readFile(host string, a answer, most int64) ([]byte, error) {
	if a.StatusCode != http.StatusOK {
		return nil, fault(BadAnswer, "%s answered with status %d, and not with a file", host, a.StatusCode)
	}
	if coding := a.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, fault(BadAnswer, "%s answered in the encoding %.40q, which Grapnel did not request", host, coding)
	}
	tooLarge := fault(TooLarge, "the file of %s is larger than %d bytes", host, most)
	if a.ContentLength > most {
		return nil, tooLarge
	}
	data, err := io.ReadAll(io.LimitReader(a.Body, most+1))
	if int64(len(data)) > most || err != nil && a.limit.N <= 0 {
		return nil, tooLarge
	}
	return data, err
}
